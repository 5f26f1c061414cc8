"""Produce and Fetch through real sockets, dispatch, logs: every version, every error, waiting, sessions."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import ErrorCode
from kcli.metadata.image import TopicImage
from kcli.model.request_values import OffsetSpec
from kcli.protocol.batches.batch import iter_batches, read_records
from kcli.protocol.batches.compression import Codec
from kcli.protocol.messages import api_versions, delete_records, fetch, list_offsets, produce
from kcli.protocol.wire.api import API, ApiKey
from kcli.runtime.turns import turns_given
from rigs.data_path import BrokerRig, batch, image_of, topic_image
from rigs.loops import PATIENCE_S, until
from rigs.wire_client import Client

PRODUCE = API[ApiKey.PRODUCE]
FETCH = API[ApiKey.FETCH]
TOPIC = topic_image("t", 2)
MANY = 100


def produce_request(
    records: bytes | None,
    *,
    topic: TopicImage = TOPIC,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 1000,
    transactional_id: Any = None,
) -> produce.ProduceRequest:
    data = produce.PartitionProduceData(index=partition, records=records)
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        transactional_id=transactional_id,
        topic_data=(
            produce.TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=(data,)),
        ),
    )


def fetch_request(
    offset: int = 0, *, topic: TopicImage = TOPIC, partitions: tuple[int, ...] = (0,), **fields: Any
) -> fetch.FetchRequest:
    wants = {
        name: fields.pop(name) for name in ("current_leader_epoch", "last_fetched_epoch") if name in fields
    }
    size = fields.pop("partition_max_bytes", 1_000_000)
    defaults = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 10_000_000, "replica_id": -1}
    return fetch.FetchRequest(
        **{**defaults, **fields},
        topics=(
            fetch.FetchTopic(
                topic=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    fetch.FetchPartition(
                        partition=index, fetch_offset=offset, partition_max_bytes=size, **wants
                    )
                    for index in partitions
                ),
            ),
        ),
    )


async def send(
    client: Client, request: produce.ProduceRequest, version: int = 12
) -> produce.PartitionProduceResponse:
    response = await client.call(request, ApiKey.PRODUCE, version)
    return response.responses[0].partition_responses[0]


async def read(client: Client, request: fetch.FetchRequest, version: int = 12) -> fetch.PartitionData:
    response = await client.call(request, ApiKey.FETCH, version)
    return response.responses[0].partitions[0] if response.responses else response


def values(records: bytes) -> list[bytes]:
    return [record.value for position, header in iter_batches(records)
            for record in read_records(records[position:position + header.size_bytes])]  # fmt: skip


def run(directory: Path, scenario: Callable[..., Any], *topics: TopicImage, **options: Any) -> None:
    async def main() -> None:
        async with BrokerRig(directory, *(topics or (TOPIC,)), **options) as rig:
            await scenario(rig, await rig.connect())

    asyncio.run(main())


def test_every_version_of_produce_and_fetch(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        offset = 0
        for version in range(PRODUCE.min_version, PRODUCE.max_version + 1):
            row = await send(client, produce_request(batch(b"v%d" % version, b"x")), version)
            assert (row.error_code, row.base_offset) == (ErrorCode.NONE, offset)
            offset += 2
        for version in range(FETCH.min_version, FETCH.max_version + 1):
            row = await read(client, fetch_request(), version)
            assert row.error_code is ErrorCode.NONE
            assert row.high_watermark == offset
            assert values(row.records)[::2] == [
                b"v%d" % each for each in range(PRODUCE.min_version, PRODUCE.max_version + 1)
            ]

    run(tmp_path, scenario)


def test_the_default_answer_of_a_fetch_of_nothing_waits_and_is_empty(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        started = asyncio.get_running_loop().time()
        row = await read(client, fetch_request(max_wait_ms=80))
        assert asyncio.get_running_loop().time() - started >= 0.07
        assert (row.error_code, row.records, row.high_watermark) == (ErrorCode.NONE, b"", 0)

    run(tmp_path, scenario)


def test_a_parked_fetch_is_woken_by_an_append(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        other = await rig.connect()
        waiting = asyncio.ensure_future(read(other, fetch_request(max_wait_ms=600_000, partitions=(1, 0))))
        await until(lambda: rig.replicas.get("t", 0).parked_fetches)
        await send(client, produce_request(batch(b"wake"), partition=1))
        row = await asyncio.wait_for(waiting, PATIENCE_S)
        assert values(row.records) == [b"wake"]
        assert not rig.replicas.get("t", 0).parked_fetches
        assert not rig.replicas.get("t", 1).parked_fetches

    run(tmp_path, scenario)


def test_min_bytes_counts_over_partitions_and_appends(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        other = await rig.connect()
        waiting = asyncio.ensure_future(
            other.call(fetch_request(max_wait_ms=600_000, min_bytes=250, partitions=(0, 1)), ApiKey.FETCH, 12)
        )
        await asyncio.sleep(0.02)
        for partition in (0, 1, 0):
            await asyncio.sleep(0.02)
            assert not waiting.done()
            await send(client, produce_request(batch(bytes(20)), partition=partition))
        response = await asyncio.wait_for(waiting, PATIENCE_S)
        sizes = [len(row.records) for row in response.responses[0].partitions]
        assert sum(sizes) >= 250
        assert all(sizes)

    run(tmp_path, scenario)


def test_a_parked_fetch_of_a_lost_client_is_forgotten(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        client.post(fetch_request(max_wait_ms=600_000), ApiKey.FETCH, 12)
        await until(lambda: len(rig.replicas.get("t", 0).parked_fetches) == 1)
        client.close()
        await until(lambda: not rig.replicas.get("t", 0).parked_fetches)

    run(tmp_path, scenario)


def test_deleting_the_topic_wakes_its_readers(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        waiting = asyncio.ensure_future(read(client, fetch_request(max_wait_ms=600_000)))
        await until(lambda: rig.replicas.get("t", 0).parked_fetches)
        gone = rig.replicas.get("t", 0)
        rig.publish(image_of())
        row = await asyncio.wait_for(waiting, PATIENCE_S)
        assert row.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not gone.is_leader

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("records", "version", "error"),
    [
        (None, 12, ErrorCode.INVALID_RECORD),
        (b"", 12, ErrorCode.INVALID_RECORD),
        (batch(b"a") + batch(b"b"), 12, ErrorCode.INVALID_RECORD),
        (batch(b"a", base_offset=7), 12, ErrorCode.INVALID_RECORD),
        (batch(b"a")[:-1], 12, ErrorCode.INVALID_RECORD),  # no whole batch
        (batch(b"a")[:-1] + b"\xff", 12, ErrorCode.CORRUPT_MESSAGE),
        (batch(b"a")[:16] + b"\x01" + batch(b"a")[17:], 12, ErrorCode.INVALID_RECORD),
        (batch(b"a", codec_=Codec.ZSTD), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch(bytes(2_000_000)), 12, ErrorCode.MESSAGE_TOO_LARGE),
        (batch(b"a", producer_id=5, producer_epoch=0, base_sequence=-1), 12, ErrorCode.INVALID_RECORD),
    ],
)
def test_batches_that_are_refused(
    tmp_path: Path, records: bytes | None, version: int, error: ErrorCode
) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        row = await send(client, produce_request(records), version)
        assert (row.error_code, row.base_offset) == (error, -1)
        assert rig.replicas.get("t", 0).log.log_end_offset == 0
        row = await send(client, produce_request(batch(b"good")))
        assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 0)

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("trailing", "error"),
    [
        (b"\0" * 11, ErrorCode.NONE),  # too short for a size
        (batch(b"b")[:60], ErrorCode.NONE),  # a cut batch
        (b"\0" * 12, ErrorCode.CORRUPT_MESSAGE),  # a batch of size 0
        (batch(b"b")[:16] + b"\x03", ErrorCode.CORRUPT_MESSAGE),  # an unknown format
        (batch(b"b"), ErrorCode.INVALID_RECORD),
    ],
)
def test_bytes_after_a_batch(tmp_path: Path, trailing: bytes, error: ErrorCode) -> None:
    """Kafka drops a cut batch after the first one, and refuses a second batch or an impossible one."""

    async def scenario(rig: BrokerRig, client: Client) -> None:
        row = await send(client, produce_request(batch(b"a") + trailing))
        assert row.error_code is error
        good = (error is ErrorCode.NONE) * batch(b"a")
        row = await read(client, fetch_request())
        assert len(row.records) == len(good)

    run(tmp_path, scenario)


def test_a_refused_append_has_the_log_start_offset(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        for value in (b"a", b"b"):
            assert (await send(client, produce_request(batch(value)))).error_code is ErrorCode.NONE
        rig.replicas.get("t", 0).log.delete_records_before(2)
        gap = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=3)
        first = batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0)
        assert (await send(client, produce_request(first))).error_code is ErrorCode.NONE
        row = await send(client, produce_request(gap))
        assert (row.error_code, row.log_start_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 2)
        row = await send(client, produce_request(batch(bytes(2_000_000))))
        assert (row.error_code, row.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
        row = await send(client, produce_request(b""))
        assert (row.error_code, row.log_start_offset) == (ErrorCode.INVALID_RECORD, -1)

    run(tmp_path, scenario)


def test_record_errors_are_named(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        row = await send(client, produce_request(batch(b"a", b"b")), 8)
        assert row.error_code is ErrorCode.INVALID_RECORD
        assert [each.batch_index for each in row.record_errors] == [0, 1]
        assert "without key" in row.record_errors[0].batch_index_error_message
        assert row.error_message

    compacted = dataclasses.replace(LogConfig(), cleanup_policy=("compact",))
    run(tmp_path, scenario, config=compacted)


def test_log_append_time_is_returned(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        before = rig.clock.now_ms()
        row = await send(client, produce_request(batch(b"a")))
        assert before <= row.log_append_time_ms <= rig.clock.now_ms()

    run(tmp_path, scenario, config=dataclasses.replace(LogConfig(), message_timestamp_type="LogAppendTime"))


def test_acks_0_has_no_answer_and_an_error_closes(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        client.post(produce_request(batch(b"quiet"), acks=0), ApiKey.PRODUCE, 9)
        row = await read(client, fetch_request())
        assert values(row.records) == [b"quiet"]
        client.post(produce_request(batch(b"lost"), acks=0, partition=9), ApiKey.PRODUCE, 9)
        assert await client.at_end()

    run(tmp_path, scenario)


def test_acks_out_of_range(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        row = await send(client, produce_request(batch(b"a"), acks=2))
        assert row.error_code is ErrorCode.INVALID_REQUIRED_ACKS

    run(tmp_path, scenario)


def test_unknown_topics_partitions_and_ids(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        other = topic_image("other")
        assert (await send(client, produce_request(batch(b"a"), topic=other))).error_code is (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert (await send(client, produce_request(batch(b"a"), partition=5))).error_code is (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert (await send(client, produce_request(batch(b"a"), topic=other), 13)).error_code is (
            ErrorCode.UNKNOWN_TOPIC_ID
        )
        assert (await read(client, fetch_request(topic=other))).error_code is (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert (await read(client, fetch_request(topic=other), 13)).error_code is ErrorCode.UNKNOWN_TOPIC_ID

    run(tmp_path, scenario)


def test_a_partition_led_elsewhere_is_refused_with_the_leader(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        request = produce_request(batch(b"a"), topic=away)
        response = await client.call(request, ApiKey.PRODUCE, 10)
        row = response.responses[0].partition_responses[0]
        assert row.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (2, 7)
        assert [(node.node_id, node.port) for node in response.node_endpoints] == [(2, 9092)]
        response = await client.call(fetch_request(topic=away), ApiKey.FETCH, 16)
        row = response.responses[0].partitions[0]
        assert (row.error_code, row.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
        assert [node.node_id for node in response.node_endpoints] == [2]

    away = topic_image("away", leader=2, replicas=(2, 3), leader_epoch=7)
    run(tmp_path, scenario, away)


def test_internal_topics_take_records_from_the_admin_client_only(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        request = produce_request(batch(b"a"), topic=offsets)
        assert (await send(client, request)).error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
        response = await client.call(request, ApiKey.PRODUCE, 12, client_id="__admin_client")
        assert response.responses[0].partition_responses[0].error_code is ErrorCode.NONE

    offsets = topic_image("__consumer_offsets")
    run(tmp_path, scenario, offsets)


def test_idempotent_retries_are_not_written_twice(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        def numbered(sequence: int, epoch: int = 0) -> produce.ProduceRequest:
            return produce_request(
                batch(b"a", b"b", producer_id=9, producer_epoch=epoch, base_sequence=sequence)
            )

        assert (await send(client, numbered(0))).base_offset == 0
        assert (await send(client, numbered(2))).base_offset == 2
        again = await send(client, numbered(0))
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
        assert (await send(client, numbered(9))).error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (await send(client, numbered(0, epoch=1))).base_offset == 4
        assert (await send(client, numbered(4))).error_code is ErrorCode.INVALID_PRODUCER_EPOCH

    run(tmp_path, scenario)


def test_a_transactional_batch_needs_a_transactional_id(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        records = batch(b"a", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
        row = await send(client, produce_request(records))
        assert row.error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    run(tmp_path, scenario)


def test_not_enough_replicas(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        request = produce_request(batch(b"a"), topic=pair)
        assert (await send(client, request)).error_code is ErrorCode.NOT_ENOUGH_REPLICAS
        request = produce_request(batch(b"a"), topic=pair, acks=1)
        assert (await send(client, request)).error_code is ErrorCode.NONE

    pair = topic_image("pair", replicas=(1, 2), isr=(1,))
    run(tmp_path, scenario, pair, config=dataclasses.replace(LogConfig(), min_insync_replicas=2))


def test_acks_all_waits_for_the_follower_and_times_out_without_it(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        late = await send(client, produce_request(batch(b"a"), topic=pair, timeout_ms=50))
        # The records are in the log, and the answer says where.
        assert (late.error_code, late.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        waiting = asyncio.ensure_future(
            send(client, produce_request(batch(b"b"), topic=pair, timeout_ms=20_000))
        )
        await asyncio.sleep(0.05)
        assert not waiting.done()
        follower = await rig.connect()
        row = await read(follower, fetch_request(0, topic=pair, replica_id=2))
        assert values(row.records) == [b"a", b"b"], "a follower reads past the high watermark"
        row = await read(client_reader := await rig.connect(), fetch_request(0, topic=pair))
        assert row.records == b"", "a consumer does not"
        await read(follower, fetch_request(2, topic=pair, replica_id=2, max_wait_ms=0))
        assert (await asyncio.wait_for(waiting, PATIENCE_S)).error_code is ErrorCode.NONE
        row = await read(client_reader, fetch_request(0, topic=pair))
        assert values(row.records) == [b"a", b"b"]
        row = await read(follower, fetch_request(0, topic=pair, replica_id=3))
        assert row.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    pair = topic_image("pair", replicas=(1, 2))
    run(tmp_path, scenario, pair)


def batches_request(*rows: tuple[int, bytes], topic: TopicImage) -> produce.ProduceRequest:
    """A request with these batches, each with its partition."""
    data = tuple(produce.PartitionProduceData(index=index, records=records) for index, records in rows)
    return produce.ProduceRequest(
        acks=-1,
        timeout_ms=600_000,
        topic_data=(produce.TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=data),),
    )


def test_a_produce_that_pauses_overlaps_with_the_next_one_as_soon_as_it_only_waits(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        turns = turns_given()
        rows = [(index, batch(b"a")) for index in range(MANY)]
        for request in (batches_request(*rows, topic=wide), batches_request((0, batch(b"b")), topic=wide)):
            client.post(request, ApiKey.PRODUCE, 12)
        leaders = [rig.replicas.get("wide", index) for index in range(MANY)]
        await until(lambda: len(leaders[0].commits) == 2)
        assert turns_given() > turns, "its appends take longer than a turn"
        for leader in leaders:
            leader.commit_partition((1, 2), (1,), partition_epoch=1)
        answers = [await asyncio.wait_for(client.receive(ApiKey.PRODUCE, 12), PATIENCE_S) for _ in range(2)]
        offsets = [
            {part.base_offset for part in response.responses[0].partition_responses}
            for _, response in answers
        ]
        assert offsets == [{0}, {1}]

    wide = topic_image("wide", MANY, replicas=(1, 2))
    run(tmp_path, scenario, wide)


def test_a_request_waits_once_for_each_partition(tmp_path: Path) -> None:
    """A client can send the same partition a million times, and a commit ends all waits for it in one turn."""

    async def scenario(rig: BrokerRig, client: Client) -> None:
        request = batches_request(*[(0, batch(b"a"))] * MANY, (1, batch(b"b")), topic=pair)
        client.post(request, ApiKey.PRODUCE, 12)
        first, second = rig.replicas.get("pair", 0), rig.replicas.get("pair", 1)
        await until(lambda: len(second.commits))
        assert (len(first.commits), len(second.commits)) == (1, 1)
        first.commit_partition((1, 2), (1,), partition_epoch=1)
        second.resign()
        _, response = await asyncio.wait_for(client.receive(ApiKey.PRODUCE, 12), PATIENCE_S)
        answers = response.responses[0].partition_responses
        assert [(row.error_code, row.base_offset) for row in answers] == [
            *((ErrorCode.NONE, offset) for offset in range(MANY)),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0),
        ]

    pair = topic_image("pair", 2, replicas=(1, 2))
    run(tmp_path, scenario, pair)


def test_a_deletion_waits_once_for_each_partition_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        await send(client, produce_request(batch(b"a"), topic=pair, acks=1))
        await read(await rig.connect(), fetch_request(1, topic=pair, replica_id=2))
        part = delete_records.DeleteRecordsPartition(partition_index=0, offset=1)
        topic = delete_records.DeleteRecordsTopic(name="pair", partitions=(part,) * MANY)
        request = delete_records.DeleteRecordsRequest(topics=(topic,), timeout_ms=50)
        deletions = rig.replicas.get("pair", 0).deletions
        response = await client.call(request, ApiKey.DELETE_RECORDS, 2)
        codes = [row.error_code for row in response.topics[0].partitions]
        assert codes == [ErrorCode.REQUEST_TIMED_OUT] * MANY
        assert len(deletions) == 1
        assert deletions.end() == [], "its end frees the request"

    pair = topic_image("pair", replicas=(1, 2))
    run(tmp_path, scenario, pair)


def test_searches_by_timestamp_take_turns(tmp_path: Path) -> None:
    """Each search may have to read all records of a batch."""

    async def turns(client: Client, timestamp: int) -> int:
        parts = tuple(
            list_offsets.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
            for index in range(9)
        )
        topic = list_offsets.ListOffsetsTopic(name="wide", partitions=parts)
        before = turns_given()
        response = await client.call(
            list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,)), ApiKey.LIST_OFFSETS, 7
        )
        assert {row.error_code for row in response.topics[0].partitions} == {ErrorCode.NONE}
        return turns_given() - before

    async def scenario(rig: BrokerRig, client: Client) -> None:
        for index in range(9):
            await send(client, produce_request(batch(b"a"), topic=wide, partition=index))
        assert await turns(client, OffsetSpec.LATEST) == 0
        assert await turns(client, OffsetSpec.MAX_TIMESTAMP) >= 4
        assert await turns(client, 0) >= 4

    wide = topic_image("wide", 9)
    run(tmp_path, scenario, wide)


def test_a_parked_follower_is_woken_by_an_append(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        follower = await rig.connect()
        fetch = fetch_request(0, topic=pair, replica_id=2, max_wait_ms=600_000)
        waiting = asyncio.ensure_future(read(follower, fetch))
        await until(lambda: rig.replicas.get("pair", 0).parked_fetches)
        row = await send(client, produce_request(batch(b"a"), topic=pair, acks=1))
        assert row.error_code is ErrorCode.NONE
        row = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (values(row.records), row.high_watermark) == ([b"a"], 0)

    pair = topic_image("pair", replicas=(1, 2))
    run(tmp_path, scenario, pair)


def test_a_parked_consumer_is_woken_when_the_follower_has_the_records(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        consumer, follower = await rig.connect(), await rig.connect()
        waiting = asyncio.ensure_future(read(consumer, fetch_request(0, topic=pair, max_wait_ms=600_000)))
        await until(lambda: rig.replicas.get("pair", 0).parked_fetches)
        await send(client, produce_request(batch(b"a"), topic=pair, acks=1))
        row = await read(follower, fetch_request(1, topic=pair, replica_id=2))
        assert row.high_watermark == 0, (
            "as it was before this fetch: the follower learns of it by the next one"
        )
        row = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (values(row.records), row.high_watermark) == ([b"a"], 1)

    pair = topic_image("pair", replicas=(1, 2))
    run(tmp_path, scenario, pair)


def test_a_smaller_isr_commits_what_the_missing_replica_held_back(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        waiting = asyncio.ensure_future(
            send(client, produce_request(batch(b"a"), topic=pair, timeout_ms=600_000))
        )
        await until(lambda: len(rig.replicas.get("pair", 0).commits))
        leader = rig.replicas.get("pair", 0)
        leader.commit_partition((1, 2), (1,), partition_epoch=1)
        assert (await asyncio.wait_for(waiting, PATIENCE_S)).error_code is ErrorCode.NONE

    pair = topic_image("pair", replicas=(1, 2))
    run(tmp_path, scenario, pair)


def test_fetch_offsets_out_of_range_and_epochs(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        await send(client, produce_request(batch(b"a", b"b"), topic=third))
        for offset in (-1, 3):
            row = await read(client, fetch_request(offset, topic=third))
            assert (row.error_code, row.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        row = await read(client, fetch_request(2, topic=third))
        assert (row.error_code, row.records) == (ErrorCode.NONE, b"")
        row = await read(client, fetch_request(0, topic=third, current_leader_epoch=2))
        assert row.error_code is ErrorCode.FENCED_LEADER_EPOCH
        row = await read(client, fetch_request(0, topic=third, current_leader_epoch=4))
        assert row.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH
        row = await read(client, fetch_request(2, topic=third, last_fetched_epoch=3))
        assert (row.error_code, row.diverging_epoch.epoch) == (ErrorCode.NONE, -1)
        row = await read(client, fetch_request(1, topic=third, last_fetched_epoch=2))
        assert row.error_code is ErrorCode.OFFSET_OUT_OF_RANGE or row.diverging_epoch.epoch >= 0

    third = topic_image("third", leader_epoch=3)
    run(tmp_path, scenario, third)


def test_the_first_batch_comes_whole_even_when_it_is_too_large(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        for partition in (0, 1):
            for _ in range(2):
                await send(client, produce_request(batch(bytes(1000)), partition=partition))
        request = fetch_request(partitions=(0, 1), max_bytes=10, partition_max_bytes=10)
        response = await client.call(request, ApiKey.FETCH, 12)
        first, second = response.responses[0].partitions
        assert len(values(first.records)) == 1
        assert second.records == b""
        request = fetch_request(partitions=(0, 1), max_bytes=10_000, partition_max_bytes=1_500)
        response = await client.call(request, ApiKey.FETCH, 12)
        assert [len(values(row.records)) for row in response.responses[0].partitions] == [1, 1]

    run(tmp_path, scenario)


def test_a_fetch_session_returns_only_partitions_with_new_records(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        async def call(request: fetch.FetchRequest, version: int = 12) -> fetch.FetchResponse:
            return await client.call(request, ApiKey.FETCH, version)

        opened = await call(fetch_request(partitions=(0, 1), session_epoch=0))
        session = opened.session_id
        assert session > 0
        assert len(opened.responses[0].partitions) == 2

        nothing = fetch.FetchRequest(max_bytes=1_000_000, min_bytes=1, session_id=session, session_epoch=1)
        assert (await call(nothing)).responses == ()

        await send(client, produce_request(batch(b"new"), partition=1))
        news = await call(dataclasses.replace(nothing, session_epoch=2))
        assert [row.partition_index for row in news.responses[0].partitions] == [1]
        assert values(news.responses[0].partitions[0].records) == [b"new"]
        assert [key[1] for key in rig.fetch_sessions._sessions[session].targets] == [0, 1]

        await send(client, produce_request(batch(b"newer"), partition=0))
        await call(dataclasses.replace(nothing, session_epoch=3))
        order = [key[1] for key in rig.fetch_sessions._sessions[session].targets]
        assert order == [0, 1], "both had records, so both went to the end in turn"

        wrong = await call(dataclasses.replace(nothing, session_epoch=9))
        assert wrong.error_code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
        with_ids = await call(dataclasses.replace(nothing, session_epoch=4), 13)
        assert with_ids.error_code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        unknown = await call(dataclasses.replace(nothing, session_id=session ^ 1, session_epoch=4))
        assert unknown.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND

        forget = dataclasses.replace(
            nothing,
            session_epoch=4,
            forgotten_topics_data=(fetch.ForgottenTopic(topic="t", partitions=(0, 1)),),
        )
        emptied = await call(forget)
        assert (emptied.session_id, emptied.responses) == (0, ())
        assert len(rig.fetch_sessions) == 0

    run(tmp_path, scenario)


def test_a_session_repeats_a_partition_in_error(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        opened = await client.call(fetch_request(5, session_epoch=0), ApiKey.FETCH, 12)
        assert opened.responses[0].partitions[0].error_code is ErrorCode.OFFSET_OUT_OF_RANGE
        again = fetch.FetchRequest(max_bytes=1_000, session_id=opened.session_id, session_epoch=1)
        response = await client.call(again, ApiKey.FETCH, 12)
        assert response.responses[0].partitions[0].error_code is ErrorCode.OFFSET_OUT_OF_RANGE

    run(tmp_path, scenario)


def test_pages_not_in_the_cache_are_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kcli.storage.log.log import LogSlice

    async def scenario(rig: BrokerRig, client: Client) -> None:
        await send(client, produce_request(batch(b"cold")))
        monkeypatch.setattr(LogSlice, "read_cached", lambda _slice: None)
        monkeypatch.setattr(LogSlice, "read_cached_into", lambda _slice, _at, _buffer: None)
        row = await read(client, fetch_request())
        assert values(row.records) == [b"cold"]
        other = await rig.connect()
        waiting = asyncio.ensure_future(read(other, fetch_request(1, max_wait_ms=600_000)))
        await asyncio.sleep(0.02)
        await send(client, produce_request(batch(b"colder")))
        assert values((await asyncio.wait_for(waiting, PATIENCE_S)).records) == [b"colder"]

    run(tmp_path, scenario)


def test_a_broken_disk_answers_storage_error(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        await send(client, produce_request(batch(b"a")))
        rig.logs.directories[0].failed(OSError(5, "Input/output error"))
        row = await send(client, produce_request(batch(b"b")))
        assert row.error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (await read(client, fetch_request())).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (await read(client, fetch_request(), 5)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(tmp_path, scenario)


def test_a_damaged_batch_is_an_error_of_its_partition(tmp_path: Path) -> None:
    """Not KAFKA_STORAGE_ERROR, on which consumers only ask again."""

    async def scenario(rig: BrokerRig, client: Client) -> None:
        for value in (b"a", b"b", b"c"):
            await send(client, produce_request(batch(value, timestamp_ms=1 if value == b"a" else 1000)))
        log = rig.logs.get("t", 0)
        (segment,) = log.segments
        position, _size = segment.locate(1)
        segment.files.log.file().write_at(position + 8, b"\x01")  # its length is 16 MiB now
        segment.forget()
        assert (await read(client, fetch_request(0, partition_max_bytes=10))).error_code is ErrorCode.NONE
        assert (await read(client, fetch_request(1))).error_code is ErrorCode.CORRUPT_MESSAGE
        asked = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=1000)
        topics = (list_offsets.ListOffsetsTopic(name="t", partitions=(asked,)),)
        request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics)
        answer = await client.call(request, ApiKey.LIST_OFFSETS, 7)
        assert answer.topics[0].partitions[0].error_code is ErrorCode.CORRUPT_MESSAGE

    run(tmp_path, scenario)


def test_a_zstd_topic_is_refused_to_old_fetchers(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        row = await read(client, fetch_request(), 9)
        assert row.error_code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert (await read(client, fetch_request(), 10)).error_code is ErrorCode.NONE

    run(tmp_path, scenario, config=dataclasses.replace(LogConfig(), compression_type="zstd"))


@pytest.mark.parametrize("version", range(5))
def test_api_versions_says_what_is_served(tmp_path: Path, version: int) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        request = api_versions.ApiVersionsRequest(client_software_name="x-y.z", client_software_version="1")
        response = await client.call(request, ApiKey.API_VERSIONS, version)
        ranges = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        assert sorted(ranges) == [int(key) for key in rig.served_on("PLAINTEXT")]
        assert ranges[0] == (0, 13), "librdkafka wants to see Produce from 0"
        assert ranges[18] == (0, 4)
        features = {row.name: row.min_version for row in response.supported_features}
        if version >= 3:
            assert response.finalized_features_epoch == 42
            assert ("group.version" in features) == (version >= 4), "a range from 0 is told from v4 on"
            assert {row.name: row.max_version_level for row in response.finalized_features} == {
                "metadata.version": 27,
                "group.version": 1,
            }

    run(tmp_path, scenario)


@pytest.mark.parametrize("name", ["", "-x", "x y", "x\n"])
def test_bad_client_software_names(tmp_path: Path, name: str) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        request = api_versions.ApiVersionsRequest(client_software_name=name, client_software_version="1")
        response = await client.call(request, ApiKey.API_VERSIONS, 3)
        assert response.error_code is ErrorCode.INVALID_REQUEST

    run(tmp_path, scenario)


def test_a_newer_api_versions_is_answered_in_version_0(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        client.writer.write(bytes.fromhex("0000000e 0012 0063 0000002a 0001 78 00 0000 00"))
        correlation_id, response = await client.receive(ApiKey.API_VERSIONS, 0)
        assert correlation_id == 42
        assert response.error_code is ErrorCode.UNSUPPORTED_VERSION
        assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == [(18, 0, 4)]

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "frame",
    [
        "0000 0000 00000001 ffff 0001000003e800000000",  # Produce v0
        "0000 0002 00000001 ffff 0001000003e800000000",  # Produce v2
        "0000 000e 00000001 ffff 00",  # Produce v14
        "7fff 0000 00000001 ffff",  # no such API
        "0018 0000 00000001 ffff",  # AddPartitionsToTxn: not served
        "0001 000c 00000001",  # cut in the header
        "0001 000c 00000001 7fff 41",  # client id longer than the frame
        "0000 0009 00000001 ffff 00 00 ffff 000003e8 ffffffff0f",  # an array of four billion topics
        "004c 0001 00000001 ffff 00",  # ShareGroupHeartbeat: not served
        "",
    ],
)
def test_requests_that_close_the_connection(
    tmp_path: Path, frame: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        body = bytes.fromhex(frame)
        client.writer.write(len(body).to_bytes(4, "big") + body)
        assert await client.at_end()
        other = await rig.connect()
        row = await send(other, produce_request(batch(b"still served")))
        assert row.error_code is ErrorCode.NONE

    run(tmp_path, scenario)
    assert sum(record.name == "kcli.server.Connection" for record in caplog.records) == 1


def test_fields_of_a_topic_id_of_zeros_are_unknown(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        nameless = dataclasses.replace(TOPIC, topic_id=uuid.UUID(int=0))
        row = await send(client, produce_request(batch(b"a"), topic=nameless), 13)
        assert row.error_code is ErrorCode.UNKNOWN_TOPIC_ID

    run(tmp_path, scenario)
