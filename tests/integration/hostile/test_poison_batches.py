"""Batches whose header and checksum are valid, but whose records are not. Kafka's broker refuses them, because one such
batch stops every consumer of the topic. So a leader refuses them with Kafka's error, and writes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import ErrorCode
from kcli.protocol.batches.batch import HEADER_SIZE, Record, encode_batch, read_header, seal
from kcli.protocol.batches.compression import Codec, compress, deflate
from kcli.protocol.messages import produce
from kcli.protocol.wire.api import ApiKey
from kcli.server.partitions import openings
from kcli.storage.log import late_opening, record_validation
from kcli.storage.log.record_validation import Validation
from kcli.storage.log.validation import UnopenedBatch, check_client_batch
from rigs.data_path import BrokerRig, topic_image
from rigs.wire_client import Client

TOPIC = topic_image("t")
NOW_MS = int(time.time() * 1000)
MOST = 2**31 - 1
COMPRESSED = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
INVALID, UNDECODABLE = ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR
RECORD = encode_batch([Record(0, NOW_MS, b"k", b"v")])[HEADER_SIZE:]

PRODUCERS: dict[str, dict[str, int]] = {
    "plain": {},
    "idempotent": {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0},
}


def batch(codec: int, body: bytes, count: int = 1, **fields: int) -> bytes:
    header = read_header(encode_batch([Record(0, NOW_MS, b"k", b"v")]))
    fields = {"last_offset_delta": count - 1, "records_count": count, "attributes": codec} | fields
    return bytes(seal(header._replace(**fields), (body,)))


def poison(**producer: int) -> Iterator[tuple[str, ErrorCode, bytes]]:
    def of(codec: int, body: bytes, count: int = 1, **fields: int) -> bytes:
        return batch(codec, body, count, **(producer | fields))

    for codec in COMPRESSED:

        def packed(payload: bytes, codec: Codec = codec) -> bytes:
            return compress(codec, payload)

        name = codec.label
        yield f"{name}: one record that claims 2^31-1", INVALID, of(codec, packed(RECORD), MOST)
        yield f"{name}: two records that claim one", INVALID, of(codec, packed(RECORD * 2))
        yield f"{name}: one record that claims two", INVALID, of(codec, packed(RECORD), 2)
        yield f"{name}: no record", INVALID, of(codec, packed(b""))
        yield f"{name}: no record at all", UNDECODABLE, of(codec, b"\x00\x01")
        yield f"{name}: 50 bytes of 0xff", INVALID, of(codec, packed(b"\xff" * 50))
        yield f"{name}: text", INVALID, of(codec, packed(b"this is not a record, " * 20))
        yield f"{name}: a length too long", INVALID, of(codec, packed(b"\x7e" + RECORD[1:]))
        yield f"{name}: bytes after the record", INVALID, of(codec, packed(RECORD + b"\x00"))
        cut = INVALID if codec is Codec.GZIP else UNDECODABLE  # Java raises an EOFException for gzip only
        yield f"{name}: a cut stream", cut, of(codec, packed(RECORD * 30)[:-9], 30)
        yield f"{name}: the first half of a header", UNDECODABLE, of(codec, packed(RECORD)[:3])
        yield f"{name}: a broken stream", UNDECODABLE, of(codec, packed(RECORD)[:4] + b"\x00\xff\x12\x90" * 9)
        yield f"{name}: a control batch", INVALID, of(codec | 0x20, packed(RECORD))
        yield f"{name}: a negative count", INVALID, of(codec, packed(RECORD), -1)
        yield f"{name}: the smallest count", INVALID, of(codec, packed(RECORD), -MOST)
        yield (
            f"{name}: a delta that wraps",
            INVALID,
            of(codec, packed(RECORD), 1, last_offset_delta=-MOST - 1),
        )
        yield f"{name}: another last delta", INVALID, of(codec, packed(RECORD), 1, last_offset_delta=1)
    yield "plain: one record that claims 2^31-1", INVALID, of(0, RECORD, MOST)
    yield "codec 5", UNDECODABLE, of(5, RECORD)
    yield "codec 7 and a wrong count", UNDECODABLE, of(7, RECORD, 3)


def request(records: bytes, acks: int = 1) -> produce.ProduceRequest:
    part = produce.PartitionProduceData(index=0, records=records)
    topic = produce.TopicProduceData(name=TOPIC.name, topic_id=TOPIC.topic_id, partition_data=(part,))
    return produce.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=(topic,))


async def refused(client: Client, records: bytes, version: int) -> produce.PartitionProduceResponse:
    response = await client.call(request(records), ApiKey.PRODUCE, version)
    row: produce.PartitionProduceResponse = response.responses[0].partition_responses[0]
    return row


def served(tmp_path: Path, check: Callable[[BrokerRig, Client], object]) -> None:
    async def main() -> None:
        async with BrokerRig(tmp_path, TOPIC) as rig:
            await check(rig, await rig.connect())  # type: ignore[misc]

    asyncio.run(main())


@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize("kind", PRODUCERS)
def test_poison_is_refused_with_kafkas_code_and_makes_no_segment(
    tmp_path: Path, kind: str, version: int
) -> None:
    async def check(rig: BrokerRig, client: Client) -> None:
        log = rig.replicas.get("t", 0).log
        expected, seen = {}, {}
        for name, code, records in poison(**PRODUCERS[kind]):
            expected[name] = (code, -1)
            row = await refused(client, records, version)
            seen[name] = (row.error_code, row.base_offset)
        assert seen == expected
        assert (log.log_end_offset, log.size_bytes, len(log.segments)) == (0, 0, 1)
        good = batch(Codec.LZ4, compress(Codec.LZ4, RECORD), **PRODUCERS[kind])
        assert (await refused(client, good, version)).base_offset == 0

    served(tmp_path, check)


def test_poison_without_acks_closes_the_connection_and_writes_nothing(tmp_path: Path) -> None:
    async def check(rig: BrokerRig, _: Client) -> None:
        for _, _, records in poison():
            client = await rig.connect()
            client.post(request(records, acks=0), ApiKey.PRODUCE, 9)
            assert await client.at_end()
        assert rig.replicas.get("t", 0).log.log_end_offset == 0

    served(tmp_path, check)


@pytest.mark.parametrize("validation", [Validation.NONE, Validation.UNCOMPRESSED])
def test_impossible_counts_are_refused_without_a_check_of_records(validation: Validation) -> None:
    for codec in COMPRESSED:
        with pytest.raises(Exception, match="states 2147483647 records"):
            check_client_batch(
                batch(codec, compress(codec, RECORD), MOST), LogConfig(), NOW_MS, "t-0", validation
            )
        million = batch(codec, b"".join(deflate(codec, [RECORD * 1_000_000])), 1_000_000)
        check_client_batch(million, LogConfig(max_message_bytes=1 << 30), NOW_MS, "t-0", validation)


def test_one_turn_of_the_loop_opens_a_limited_number_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches after the limit are opened in the thread, and the order of the appends stays."""
    late: list[bool] = []

    def noted(unopened: UnopenedBatch) -> object:
        late.append(unopened.is_untried)
        return late_opening.opening_of(unopened)

    monkeypatch.setattr(openings, "INLINE_BYTES", 1)
    monkeypatch.setattr(openings, "opening_of", noted)

    async def check(rig: BrokerRig, client: Client) -> None:
        for nth in range(30):
            codec = COMPRESSED[nth % 4]
            client.post(request(batch(codec, compress(codec, RECORD))), ApiKey.PRODUCE, 9)
        rows = [(await client.receive(ApiKey.PRODUCE, 9))[1].responses[0] for _ in range(30)]
        assert [row.partition_responses[0].base_offset for row in rows] == list(range(30))
        assert late
        assert all(late)

    served(tmp_path, check)


def test_inline_bytes_return_after_other_work() -> None:
    soon: list[Callable[[], None]] = []
    inline = record_validation.InlineBytes(100, soon.append)
    inline.take(Codec.LZ4, 60)
    inline.give_back(Codec.LZ4, 20)
    assert not inline.is_spent
    inline.take(Codec.GZIP, 60)
    assert inline.is_spent
    assert len(soon) == 1
    soon[0]()
    assert not inline.is_spent
