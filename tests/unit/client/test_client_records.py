"""Raw batches over a client: leaders that change, offsets that are out of range, connections that end, slow brokers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import AsyncIterator
from typing import Any, Self, cast

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.client import CONNECTION_IDLE_S, Client
from kcli.client.config import client_config
from kcli.client.records.fetch import FetchLimits
from kcli.client.records.records import Leader, Records, value_of
from kcli.client.unreadable import unreadable_batch
from kcli.errors import (
    ErrorCode,
    KafkaError,
    LeaderNotAvailableException,
    OffsetOutOfRangeException,
    ThrottlingQuotaExceededException,
    UnknownTopicOrPartitionException,
)
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import fetch as fe
from kcli.protocol.messages import list_offsets as lo
from kcli.protocol.messages import metadata as md
from kcli.protocol.messages import produce as pr
from kcli.protocol.wire.api import ApiKey
from rigs.loops import move_clock, on_a_loop, until
from rigs.scripted_server import ScriptedServer

TOPIC_ID = uuid.UUID(int=7)
P0, P1, P2 = (TopicPartition("t", each) for each in range(3))
LIMITS = FetchLimits(max_wait_ms=0, partition_max_bytes=1000)
EPOCH, LOG_START, LOG_END = 5, 10, 20


class Brokers:
    """Brokers 1 and 2, and a topic t. Partition n is led by `leaders[n]`, and -1 means that it has no leader."""

    def __init__(self) -> None:
        self.leaders = {0: 1, 1: 2, 2: -1}
        self.closes: set[int] = set()
        """The brokers that close a connection at the next Fetch or Produce request."""
        self.holds: set[int] = set()
        """The brokers that do not answer a Fetch request, and close the connection when `is_over` is set."""
        self.throttled = 0
        """The number of Fetch requests that get an answer without partitions, because a quota is used up."""
        self.is_over = threading.Event()
        self.servers = {broker: ScriptedServer(self._script(broker)) for broker in (1, 2)}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for server in self.servers.values():
                stack.enter_context(server)
            stack.callback(self.is_over.set)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @contextlib.asynccontextmanager
    async def records(self, **properties: str) -> AsyncIterator[Records]:
        config = client_config(
            {"retry.backoff.ms": "1", **properties}, bootstrap_servers=self.servers[1].address
        )
        async with Client(config) as client:
            yield Records(client)

    def sent(self, key: ApiKey) -> int:
        return sum(len(server.sent(key)) for server in self.servers.values())

    def _script(self, broker: int) -> dict[ApiKey, Any]:
        return {
            ApiKey.METADATA: self._metadata,
            ApiKey.FETCH: lambda request, _: self._fetch(broker, request),
            ApiKey.PRODUCE: lambda request, _: self._produce(broker, request),
            ApiKey.LIST_OFFSETS: self._list_offsets,
        }

    def _metadata(self, request: md.MetadataRequest, _version: int) -> md.MetadataResponse:
        partitions = tuple(
            md.MetadataResponsePartition(partition_index=number, leader_id=leader, leader_epoch=EPOCH)
            for number, leader in self.leaders.items()
        )
        return md.MetadataResponse(
            brokers=tuple(
                md.MetadataResponseBroker(node_id=broker, host="127.0.0.1", port=server.port)
                for broker, server in self.servers.items()
            ),
            topics=tuple(
                md.MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=partitions)
                if each.name == "t"
                else md.MetadataResponseTopic(name=each.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for each in request.topics or ()
            ),
        )

    def _ends(self, broker: int) -> bool:
        with contextlib.suppress(KeyError):
            self.closes.remove(broker)
            return True
        return False

    def _fetch(self, broker: int, request: fe.FetchRequest) -> fe.FetchResponse | None:
        if self._ends(broker):
            return None
        if broker in self.holds:
            self.is_over.wait()
            return None
        if self.throttled:
            self.throttled -= 1
            return fe.FetchResponse(throttle_time_ms=1)
        (topic,) = request.topics
        assert topic.topic_id == TOPIC_ID
        return fe.FetchResponse(
            responses=(
                fe.FetchableTopicResponse(
                    topic_id=TOPIC_ID,
                    partitions=tuple(self._answer(broker, each) for each in topic.partitions),
                ),
            )
        )

    def _answer(self, broker: int, asked: fe.FetchPartition) -> fe.PartitionData:
        assert asked.current_leader_epoch == EPOCH
        if self.leaders[asked.partition] != broker:
            return fe.PartitionData(
                partition_index=asked.partition, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, records=None
            )
        if not LOG_START <= asked.fetch_offset <= LOG_END:
            return fe.PartitionData(
                partition_index=asked.partition, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, records=None
            )
        return fe.PartitionData(
            partition_index=asked.partition, high_watermark=LOG_END, records=b"%d" % asked.fetch_offset
        )

    def _produce(self, broker: int, request: pr.ProduceRequest) -> pr.ProduceResponse | None:
        if self._ends(broker):
            return None
        (topic,) = request.topic_data
        answers = tuple(
            pr.PartitionProduceResponse(index=each.index, base_offset=LOG_END)
            if self.leaders[each.index] == broker
            else pr.PartitionProduceResponse(
                index=each.index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, base_offset=-1
            )
            for each in topic.partition_data
        )
        return pr.ProduceResponse(
            responses=(pr.TopicProduceResponse(topic_id=topic.topic_id, partition_responses=answers),)
        )

    def _list_offsets(self, request: lo.ListOffsetsRequest, _version: int) -> lo.ListOffsetsResponse:
        return lo.ListOffsetsResponse(
            topics=tuple(
                lo.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        lo.ListOffsetsPartitionResponse(
                            partition_index=each.partition_index, offset=LOG_START
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )


@on_a_loop
async def test_each_leader_is_asked_for_its_partitions() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            answers = await records.fetch({P0: 11, P1: 12, P2: 13}, LIMITS)
    assert [value_of(answers[each]).records for each in (P0, P1)] == [b"11", b"12"]
    assert isinstance(answers[P2], LeaderNotAvailableException)
    assert [len(server.sent(ApiKey.FETCH)) for server in brokers.servers.values()] == [1, 1]


@on_a_loop
async def test_leaders_are_looked_up_once() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            for offset in (10, 11):
                await records.fetch({P0: offset, P1: offset}, LIMITS)
            assert await records.leaders([P0]) == {P0: Leader(1, EPOCH, TOPIC_ID)}
    assert (
        len(
            [
                each
                for server in brokers.servers.values()
                for each in server.sent(ApiKey.METADATA)
                if each.topics
            ]
        )
        == 1
    )


@on_a_loop
async def test_after_a_change_of_leader_the_new_leader_is_asked() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            await records.fetch({P0: 10}, LIMITS)
            brokers.leaders[0] = 2
            moved = value_of((await records.fetch({P0: 11}, LIMITS))[P0])
            assert moved.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert value_of((await records.fetch({P0: 11}, LIMITS))[P0]).records == b"11"


@on_a_loop
async def test_a_read_follows_a_change_of_leader() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            await records.read(P0, 10, LIMITS)
            brokers.leaders[0] = 2
            offset, answer = await records.read(P0, 11, LIMITS)
    assert (offset, answer.records) == (11, b"11")


@on_a_loop
async def test_a_read_continues_after_an_answer_of_a_throttled_broker() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            for read in (records.read, records.read_now):
                brokers.throttled = 1
                await read(P0, 10, LIMITS)
            brokers.throttled = 2
            with pytest.raises(ThrottlingQuotaExceededException, match="lacks t-0"):
                await records.read_now(P0, 10, LIMITS)


@on_a_loop
async def test_a_single_read_follows_one_change_of_leader() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            await records.leaders([P0, P2])
            brokers.leaders[0] = 2
            assert (await records.read_now(P0, 11, LIMITS)).records == b"11"
            with pytest.raises(LeaderNotAvailableException):
                await records.read_now(P2, 11, LIMITS)
            before = brokers.sent(ApiKey.FETCH)
            with pytest.raises(OffsetOutOfRangeException):
                await records.read_now(P1, LOG_END + 1, LIMITS)
            assert brokers.sent(ApiKey.FETCH) == before + 1, "another attempt would get this error too"


@on_a_loop
async def test_the_search_for_an_unreadable_batch_follows_a_change_of_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            await records.leaders([P0])
            brokers.leaders[0] = 2
            monkeypatch.setattr("kcli.client.unreadable.Records", lambda _: records)
            monkeypatch.setattr("kcli.client.unreadable.iter_batches", lambda batches: iter(()))
            assert await unreadable_batch(cast(AdminClient, records._client), P0, 11) is None
    assert [len(server.sent(ApiKey.FETCH)) for server in brokers.servers.values()] == [1, 1]


@on_a_loop
async def test_a_read_of_deleted_records_begins_at_the_start_of_the_log() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            offset, answer = await records.read(P1, LOG_START - 1, LIMITS)
    assert (offset, answer.records) == (LOG_START, b"%d" % LOG_START)


@on_a_loop
async def test_a_read_behind_the_end_of_the_log_fails() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            with pytest.raises(OffsetOutOfRangeException, match=f"reading t-1 at offset {LOG_END + 1}"):
                await records.read(P1, LOG_END + 1, LIMITS)


@on_a_loop
async def test_a_read_opens_a_closed_connection_again() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            await records.read(P1, 10, LIMITS)
            brokers.closes.add(2)
            offset, answer = await records.read(P1, 11, LIMITS)
    assert (offset, answer.records) == (11, b"11")


@on_a_loop
async def test_a_slow_leader_does_not_delay_the_requests_to_others() -> None:
    with Brokers() as brokers:
        brokers.holds.add(1)
        async with brokers.records() as records:
            fetch = asyncio.create_task(records.fetch({P0: 10, P1: 10}, LIMITS))
            await until(lambda: brokers.sent(ApiKey.FETCH) == 2)
            brokers.is_over.set()  # the slow leader closes its connection
            answers = await fetch
    assert isinstance(answers[P0], KafkaError)
    assert value_of(answers[P1]).records == b"10"


@on_a_loop
async def test_a_partition_without_a_leader_has_the_text_of_the_caller() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            client = records._client
            its_own = Records(client, no_leader=lambda place: f"{place} has no leader")
            place = TopicPartition("t", 2)
            answers = [(await each.leaders([place]))[place] for each in (records, its_own)]
    assert [isinstance(answer, LeaderNotAvailableException) for answer in answers] == [True, True]
    assert str(answers[1]) == "t-2 has no leader" != str(answers[0])


@on_a_loop
async def test_a_topic_that_does_not_exist_has_an_error() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            missing = TopicPartition("u", 0)
            answers = await records.fetch({missing: 0, P0: 10}, LIMITS)
    assert isinstance(answers[missing], UnknownTopicOrPartitionException)
    assert value_of(answers[P0]).records == b"10"


@on_a_loop
async def test_batches_go_to_their_leaders_as_they_are() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            answers = await records.produce(
                {P0: b"first", P1: b"second"}, timeout_ms=100, transactional_id="mine"
            )
    assert [value_of(answers[each]).base_offset for each in (P0, P1)] == [LOG_END, LOG_END]
    requests = [server.sent(ApiKey.PRODUCE)[0] for server in brokers.servers.values()]
    assert [bytes(each.topic_data[0].partition_data[0].records) for each in requests] == [b"first", b"second"]
    assert {(each.transactional_id, each.acks, each.timeout_ms) for each in requests} == {("mine", -1, 100)}


@on_a_loop
async def test_a_lost_answer_to_a_batch_is_an_error_of_its_leader_only() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            await records.fetch({P0: 10, P1: 10}, LIMITS)
            brokers.closes.add(1)
            answers = await records.produce({P0: b"1", P1: b"2"}, timeout_ms=100)
    assert isinstance(answers[P0], KafkaError) and answers[P0].retriable
    assert value_of(answers[P1]).error_code is ErrorCode.NONE


@on_a_loop
async def test_a_batch_that_its_leader_refused_goes_to_the_new_leader() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            await records.leaders([P0])
            brokers.leaders[0] = 2
            first = await records.produce({P0: b"1"}, timeout_ms=100)
            second = await records.produce({P0: b"1"}, timeout_ms=100)
    codes = [value_of(each[P0]).error_code for each in (first, second)]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]


@on_a_loop
async def test_a_request_without_an_answer_is_refused() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            with pytest.raises(AssertionError, match="acks=0"):
                await records.produce({P0: b"1"}, timeout_ms=100, acks=0)
    assert brokers.sent(ApiKey.PRODUCE) == 0


@on_a_loop
async def test_a_client_closes_connections_that_it_does_not_use() -> None:
    with Brokers() as brokers:
        async with brokers.records() as records:
            await records.leaders([P0, P1])
            move_clock(CONNECTION_IDLE_S)
            await records.fetch({P1: 10}, LIMITS)
            await records.fetch({P0: 10}, LIMITS)
    opened = [len(server.sent(ApiKey.API_VERSIONS)) for server in brokers.servers.values()]
    assert opened == [2, 1]
