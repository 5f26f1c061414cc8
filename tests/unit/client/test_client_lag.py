"""Lag in seconds against a scripted broker: who is asked again, and what each answer means."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.lag import lag_seconds
from kcli.client.config import client_config
from kcli.errors import ErrorCode, KafkaError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, read_header
from kcli.protocol.batches.compression import Codec
from kcli.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_server import ScriptedServer

TOPIC_ID = uuid.UUID(int=7)
NOW_MS = 1_000_000


class Log:
    """The batches of each partition of one topic; offset -> batch. None: no leader."""

    def __init__(self, partitions: dict[int, list[bytes] | None], *, end: int, start: int = 0) -> None:
        self.partitions = partitions
        self.start, self.end = start, end
        self.server = ScriptedServer(
            {
                ApiKey.METADATA: self.metadata,
                ApiKey.FETCH: self.fetch,
                ApiKey.LIST_OFFSETS: self.list_offsets,
            }
        )

    def metadata(self, request: Any, version: int) -> MetadataResponse:
        parts = tuple(
            MetadataResponsePartition(partition_index=number, leader_id=-1 if batches is None else 1)
            for number, batches in self.partitions.items()
        )
        return MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.server.port),),
            topics=(MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=parts),),
        )

    def fetch(self, request: Any, version: int) -> FetchResponse:
        """As strict as a broker may be: only the first partition with records gets a batch."""
        answers, given = [], False
        for topic in request.topics:
            for part in topic.partitions:
                records = self.records(part.partition, part.fetch_offset)
                inside = self.start <= part.fetch_offset <= self.end
                answers.append(
                    PartitionData(
                        partition_index=part.partition,
                        error_code=ErrorCode.NONE if inside else ErrorCode.OFFSET_OUT_OF_RANGE,
                        high_watermark=self.end,
                        records=b"" if given else records,
                    )
                )
                given = given or bool(records)
        return FetchResponse(
            responses=(FetchableTopicResponse(topic_id=TOPIC_ID, topic="t", partitions=tuple(answers)),)
        )

    def records(self, partition: int, offset: int) -> bytes:
        for batch in self.partitions.get(partition) or ():
            if read_header(batch).last_offset >= offset:
                return batch
        return b""

    def list_offsets(self, request: Any, version: int) -> ListOffsetsResponse:
        parts = tuple(
            ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=self.start)
            for each in request.topics[0].partitions
        )
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="t", partitions=parts),))


def batch(base: int, *timestamps: int, **more: Any) -> bytes:
    records = [Record(offset=base + n, timestamp_ms=at, value=b"v") for n, at in enumerate(timestamps)]
    return bytes(encode_batch(records, base_offset=base, **more))


def lag(log: Log, committed: dict[int, int]) -> dict[int, Any]:
    async def ask() -> dict[TopicPartition, Any]:
        async with AdminClient(client_config({}, bootstrap_servers=log.server.address)) as client:
            wanted = {TopicPartition("t", number): offset for number, offset in committed.items()}
            return await lag_seconds(client, wanted, NOW_MS)

    with log.server:
        return {number: value for (_, number), value in asyncio.run(ask()).items()}


def test_age_is_that_of_the_record_at_the_offset_not_of_its_batch() -> None:
    batches = [batch(0, 100_000, 200_000, 300_000, codec=Codec.GZIP)]
    assert lag(Log({0: batches}, end=3), {0: 1}) == {0: 800.0}


def test_at_the_end_there_is_no_lag() -> None:
    assert lag(Log({0: [batch(0, 100_000)]}, end=1), {0: 1}) == {0: 0.0}


def test_each_partition_gets_its_answer_though_a_response_holds_only_one_batch() -> None:
    log = Log({number: [batch(0, 1000 * number)] for number in range(4)}, end=1)
    assert lag(log, dict.fromkeys(range(4), 0)) == {0: 1000.0, 1: 999.0, 2: 998.0, 3: 997.0}
    assert len(log.server.sent(ApiKey.FETCH)) == 4


def test_a_leaderless_partition_is_an_error_beside_the_lag_of_others() -> None:
    found = lag(Log({0: None, 1: [batch(0, 0)]}, end=1), {0: 0, 1: 0, 5: 0})
    assert isinstance(found[0], KafkaError) and found[0].code is ErrorCode.LEADER_NOT_AVAILABLE
    assert found[1] == 1000.0
    assert isinstance(found[5], KafkaError) and found[5].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_control_batches_are_no_records_to_consume() -> None:
    marker = bytes(
        encode_batch(
            [Record(offset=0, timestamp_ms=1, key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")],
            control=True,
            transactional=True,
            producer_id=1,
            producer_epoch=0,
        )
    )
    assert lag(Log({0: [marker, batch(1, 400_000)]}, end=2), {0: 0}) == {0: 600.0}
    assert lag(Log({0: [marker]}, end=1), {0: 0}) == {0: 0.0}


def test_lag_skips_offsets_that_compaction_removed() -> None:
    compacted = bytes(
        encode_batch([Record(offset=0, timestamp_ms=5, value=b"v")], base_offset=0, last_offset_delta=9)
    )
    log = Log({0: [compacted, batch(10, 500_000)]}, end=11)
    assert lag(log, {0: 4}) == {0: 500.0}
    assert lag(Log({0: []}, end=11), {0: 4}) == {0: 0.0}, "nothing is left up to the end"


def test_offsets_out_of_range() -> None:
    log = Log({0: [batch(5, 900_000)], 1: [batch(5, 900_000)]}, start=5, end=6)
    assert lag(log, {0: 2, 1: 9}) == {0: 100.0, 1: 0.0}


def test_log_append_time_is_the_batch_s() -> None:
    stamped = batch(0, 100_000, log_append_time_ms=700_000)
    assert lag(Log({0: [stamped]}, end=1), {0: 0}) == {0: 300.0}


def test_records_without_a_timestamp_and_from_the_future() -> None:
    log = Log({0: [batch(0, -1)], 1: [batch(0, NOW_MS + 5000)]}, end=1)
    assert lag(log, {0: 0, 1: 0}) == {0: None, 1: 0.0}


def test_an_unreachable_leader_is_an_error_of_its_partitions() -> None:
    log = Log({0: [batch(0, 0)]}, end=1)
    log.fetch = lambda request, version: None
    log.server.script = {**log.server.script, ApiKey.FETCH: log.fetch}
    assert isinstance(lag(log, {0: 0})[0], KafkaError)


def test_nothing_asked_nothing_sent() -> None:
    log = Log({}, end=0)
    assert lag(log, {}) == {}
    assert log.server.requests == []
