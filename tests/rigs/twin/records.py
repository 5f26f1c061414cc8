"""Produce, Fetch and the offsets of partitions."""
# ruff: noqa: E501  (a table reads best with one case to a line)

from __future__ import annotations

from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.compression import Codec
from kcli.protocol.wire.api import ApiKey
from rigs.twin.case import TOPIC_IDS, UNKNOWN_ID, Case, Data, Since

A = next(iter(TOPIC_IDS))


def _batch(*values: bytes, key: bytes | None = b"k", codec: Codec = Codec.NONE, sequence: int = -1) -> bytes:
    """A batch of an old time, with a producer if it has a sequence."""
    records = [
        Record(place, 1_700_000_000_000 + place, key, value, ())
        for place, value in enumerate(values or (b"v",))
    ]
    if sequence < 0:
        return bytes(encode_batch(records, codec=codec))
    return bytes(
        encode_batch(records, codec=codec, producer_id=9999, producer_epoch=0, base_sequence=sequence)
    )


GOOD = _batch(b"one")


def _produce(
    records: bytes | None, *, topic: str = "twin-a", index: int = 1, acks: int = -1
) -> dict[str, Data]:
    return {
        "acks": acks,
        "timeout_ms": 5000,
        "topic_data": [
            {"name": topic, "topic_id": A, "partition_data": [{"index": index, "records": records}]}
        ],
    }


def _answer(code: int, log_start: int = -1) -> dict[str, Data | Since]:
    field = "responses.partition_responses."
    return {
        f"{field}error_code": code,
        f"{field}base_offset": -1,
        f"{field}log_start_offset": Since({0: -1, 5: log_start}),
    }


_PRODUCE = (
    Case(
        "a record",
        ApiKey.PRODUCE,
        _produce(GOOD, index=0),
        {"responses.partition_responses.error_code": 0, "responses.partition_responses.log_start_offset": Since({0: -1, 5: 0})},
    ),
    Case("acks=1", ApiKey.PRODUCE, _produce(GOOD, index=0, acks=1), {"responses.partition_responses.error_code": 0}),
    Case("acks=7", ApiKey.PRODUCE, _produce(GOOD, acks=7), _answer(21)),
    Case("null", ApiKey.PRODUCE, _produce(None), _answer(87), until=12),
    Case("no batch", ApiKey.PRODUCE, _produce(b""), _answer(87)),
    Case("two batches", ApiKey.PRODUCE, _produce(GOOD + GOOD), _answer(87)),
    Case("a cut batch", ApiKey.PRODUCE, _produce(GOOD[:-1]), _answer(87)),
    Case("a cut header", ApiKey.PRODUCE, _produce(GOOD[:40]), _answer(87)),
    Case("a batch of size 0", ApiKey.PRODUCE, _produce(bytes(61)), _answer(2)),
    Case("an unknown format", ApiKey.PRODUCE, _produce(GOOD[:16] + b"\x03" + GOOD[17:]), _answer(2)),
    Case("an old format", ApiKey.PRODUCE, _produce(GOOD[:16] + b"\x01" + GOOD[17:]), _answer(87)),
    Case("a wrong checksum", ApiKey.PRODUCE, _produce(GOOD[:-1] + b"\xff"), _answer(2)),
    Case("a batch that begins at offset 7", ApiKey.PRODUCE, _produce(b"\0\0\0\0\0\0\0\x07" + GOOD[8:]), _answer(87, 0)),
    Case("a second batch of size 0", ApiKey.PRODUCE, _produce(GOOD + bytes(12)), _answer(2)),
    Case(
        "a cut batch after the first",
        ApiKey.PRODUCE,
        _produce(GOOD + GOOD[:-1], index=0),
        {"responses.partition_responses.error_code": 0},
    ),
    Case(
        "a few bytes after the batch",
        ApiKey.PRODUCE,
        _produce(GOOD + b"\xff" * 11, index=0),
        {"responses.partition_responses.error_code": 0},
    ),
    Case("too large", ApiKey.PRODUCE, _produce(_batch(bytes(1_100_000))), _answer(10)),
    Case("zstd before version 7", ApiKey.PRODUCE, _produce(_batch(codec=Codec.ZSTD)), _answer(76), until=6),
    Case("a sequence of an unknown producer", ApiKey.PRODUCE, _produce(_batch(sequence=0)), since=3, until=3),
    Case("a gap in the sequence", ApiKey.PRODUCE, _produce(_batch(sequence=7)), _answer(45, 0)),
    Case("no key on a compacted topic", ApiKey.PRODUCE, _produce(_batch(b"a", b"b", key=None), topic="twin-compact", index=0),
         {"responses.partition_responses.error_code": 87,
          "responses.partition_responses.record_errors.batch_index": Since({0: (), 8: (0, 1)})}, until=12),
    Case("an unknown topic", ApiKey.PRODUCE, _produce(GOOD, topic="twin-nope"), _answer(3), until=12),
    Case("an unknown partition", ApiKey.PRODUCE, _produce(GOOD, index=9), _answer(3)),
    Case("an internal topic", ApiKey.PRODUCE, _produce(GOOD, topic="__consumer_offsets", index=0), until=12),
    Case(
        "an unknown id",
        ApiKey.PRODUCE,
        {"acks": 1, "topic_data": [{"topic_id": UNKNOWN_ID, "partition_data": [{"index": 0, "records": GOOD}]}]},
        _answer(100),
        since=13,
    ),
)  # fmt: skip


def _fetch(offset: int, *, topic: str = "twin-a", index: int = 0, epoch: int = -1) -> dict[str, Data]:
    part: dict[str, Data] = {
        "partition": index,
        "fetch_offset": offset,
        "partition_max_bytes": 100_000,
        "current_leader_epoch": epoch,
    }
    return {"min_bytes": 0, "topics": [{"topic": topic, "topic_id": A, "partitions": [part]}]}


_FETCH = (
    Case("from the start", ApiKey.FETCH, _fetch(0), {"responses.partitions.error_code": 0}),
    Case("beyond the end", ApiKey.FETCH, _fetch(10_000), {"responses.partitions.error_code": 1}),
    Case("an unknown partition", ApiKey.FETCH, _fetch(0, index=9), {"responses.partitions.error_code": 3}),
    Case(
        "an unknown topic", ApiKey.FETCH, _fetch(0, topic="twin-nope"), {"responses.partitions.error_code": 3}, until=12
    ),
    Case("a later epoch", ApiKey.FETCH, _fetch(0, epoch=9), {"responses.partitions.error_code": 75}, since=9),
    Case("an unknown session", ApiKey.FETCH, {"session_id": 77, "session_epoch": 3}, {"error_code": 70}, since=7),
)  # fmt: skip


def _offsets(*parts: tuple[int, int], topic: str = "twin-a") -> dict[str, Data]:
    """ListOffsets of (partition, timestamp)."""
    asked: list[Data] = [{"partition_index": index, "timestamp": timestamp} for index, timestamp in parts]
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": asked}]}


_LIST = (
    Case("the start", ApiKey.LIST_OFFSETS, _offsets((0, -2)), {"topics.partitions.offset": 0}),
    Case("the end", ApiKey.LIST_OFFSETS, _offsets((0, -1)), {"topics.partitions.error_code": 0}),
    Case("a time", ApiKey.LIST_OFFSETS, _offsets((0, 1_700_000_000_000)), {"topics.partitions.offset": 0}),
    Case("the end of time", ApiKey.LIST_OFFSETS, _offsets((0, 2**62)), {"topics.partitions.offset": -1}),
    Case(
        "the newest record",
        ApiKey.LIST_OFFSETS,
        _offsets((0, -3)),
        {"topics.partitions.error_code": Since({1: 35, 7: 0})},
    ),
    Case(
        "the local start",
        ApiKey.LIST_OFFSETS,
        _offsets((0, -4)),
        {"topics.partitions.error_code": Since({1: 35, 8: 0})},
    ),
    Case(
        "an unknown timestamp", ApiKey.LIST_OFFSETS, _offsets((0, -99)), {"topics.partitions.error_code": 35}
    ),
    Case(
        "a partition twice",
        ApiKey.LIST_OFFSETS,
        _offsets((0, -1), (1, -1), (0, -2)),
        {"topics.partitions.partition_index": (0, 1), "topics.partitions.error_code": (42, 0)},
    ),
    Case(
        "a topic twice",
        ApiKey.LIST_OFFSETS,
        {
            "replica_id": -1,
            "topics": [
                {"name": "twin-a", "partitions": [{"partition_index": index, "timestamp": -2}]}
                for index in (0, 1)
            ],
        },
        {"topics.name": "twin-a", "topics.partitions.error_code": (0, 0)},
    ),
    Case(
        "an unknown partition and topic",
        ApiKey.LIST_OFFSETS,
        _offsets((9, -1), topic="twin-nope"),
        {"topics.partitions.error_code": 3, "topics.partitions.offset": -1},
    ),
    Case(
        "epochs",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        {
            "replica_id": -1,
            "topics": [
                {
                    "topic": "twin-a",
                    "partitions": [{"partition": index, "leader_epoch": 0} for index in (0, 9)],
                }
            ],
        },
        {"topics.partitions.error_code": (0, 3)},
    ),
    Case(
        "records to delete: none, too many, an unknown partition",
        ApiKey.DELETE_RECORDS,
        {
            "timeout_ms": 1000,
            "topics": [
                {
                    "name": "twin-a",
                    "partitions": [
                        {"partition_index": 0, "offset": 0},
                        {"partition_index": 1, "offset": 1000},
                        {"partition_index": 9, "offset": 0},
                    ],
                }
            ],
        },
        {"topics.partitions.error_code": (0, 1, 3)},
    ),
    Case(
        "producers",
        ApiKey.DESCRIBE_PRODUCERS,
        {"topics": [{"name": "twin-a", "partition_indexes": [1, 9]}]},
        {"topics.partitions.error_code": (0, 3)},
    ),
)

RECORDS = (*_PRODUCE, *_FETCH, *_LIST)
