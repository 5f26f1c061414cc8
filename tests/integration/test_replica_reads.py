"""Reads in a cluster, from the view of one broker: fetches of followers, consumers at a follower, and the requests of
tools and followers for offsets and epochs."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kcli.config.topic import LogConfig
from kcli.errors import ErrorCode
from kcli.metadata.image import BrokerRegistration, Endpoint, MetadataImage, TopicImage
from kcli.model.ids import BrokerId, LeaderEpoch, Offset
from kcli.protocol.batches.batch import iter_batches, read_records
from kcli.protocol.messages import (
    delete_records,
    describe_producers,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from kcli.protocol.wire.api import ApiKey
from kcli.server.partitions.followed_partition import FollowedPartition
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.partitions.replication_quota import LEADER_RATE
from rigs.data_path import BrokerRig, batch, image_of, topic_image
from rigs.leader_appends import append_batch
from rigs.logs import append_replicated
from rigs.loops import PATIENCE_S, until
from rigs.quorum import broker_config
from rigs.wire_client import Client

LED = topic_image("led", replicas=(1, 2, 3), isr=(1, 2), leader_epoch=5)
FOLLOWED = topic_image("followed", leader=2, replicas=(2, 1), leader_epoch=7)
MAX_WAIT = 600_000


def brokers(*, fenced: tuple[int, ...] = (), racks: dict[int, str] | None = None) -> MetadataImage:
    """An image with three brokers, and the two topics."""
    return dataclasses.replace(
        image_of(LED, FOLLOWED),
        brokers={
            node: BrokerRegistration(
                node,
                10 + node,
                uuid.UUID(int=1000 + node),
                {"PLAINTEXT": Endpoint("PLAINTEXT", f"b{node}", 9092, 0)},
                {},
                rack=(racks or {}).get(node),
                fenced=node in fenced,
            )
            for node in (1, 2, 3)
        },
    )


def run(
    directory: Path,
    scenario: Callable[[BrokerRig, Client], Awaitable[None]],
    image: MetadataImage | None = None,
    **options: Any,
) -> None:
    async def main() -> None:
        async with BrokerRig(directory, **options) as rig:
            rig.set_metadata(image or brokers())
            await asyncio.wait_for(scenario(rig, await rig.connect()), 2 * PATIENCE_S)

    asyncio.run(main())


def leader_of(rig: BrokerRig) -> LeaderPartition:
    return rig.replicas.get(LED.name, 0)


def append(rig: BrokerRig, *values: bytes) -> None:
    append_batch(leader_of(rig), bytearray(batch(*values)), acks=1, now_ms=1_700_000_000_000)


def replicate(rig: BrokerRig, *values: bytes, high_watermark: int) -> FollowedPartition:
    """Appends records to the followed partition, as its fetcher does."""
    found = rig.replicas.hosted(FOLLOWED.name, 0)
    assert isinstance(found, FollowedPartition)
    end = found.log.log_end_offset
    if values:
        records = bytearray(batch(*values))
        records[0:8], records[12:16] = end.to_bytes(8), (7).to_bytes(4)  # base offset and leader epoch
        append_replicated(found.log, records, leader_epoch=LeaderEpoch(7), now_ms=1_700_000_000_000)
    found.log.set_high_watermark(Offset(high_watermark))
    for parked in list(found.parked_fetches):
        parked.changed(found.parked_fetches, 0, measure=True)
    return found


def wants(offset: int, **fields: Any) -> fetch.FetchPartition:
    return fetch.FetchPartition(
        **{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000, **fields}
    )


def fetch_of(topic: TopicImage, part: fetch.FetchPartition, **fields: Any) -> fetch.FetchRequest:
    defaults = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 10_000_000}
    return fetch.FetchRequest(
        **{**defaults, **fields},
        topics=(fetch.FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=(part,)),),
    )


def follower(replica: int, offset: int, *, epoch: int = -1, max_wait_ms: int = 0, **fields: Any) -> Any:
    state = fetch.ReplicaState(replica_id=replica, replica_epoch=epoch)
    return fetch_of(
        LED,
        wants(offset, **{"log_start_offset": 0, **fields}),
        replica_state=state,
        max_wait_ms=max_wait_ms,
    )


async def read(client: Client, request: fetch.FetchRequest, version: int = 17) -> fetch.PartitionData:
    response = await client.call(request, ApiKey.FETCH, version)
    assert response.error_code is ErrorCode.NONE
    row: fetch.PartitionData = response.responses[0].partitions[0]
    return row


def values(row: fetch.PartitionData) -> list[bytes | None]:
    raw = row.records or b""
    return [record.value for position, header in iter_batches(raw)
            for record in read_records(raw[position:position + header.size_bytes])]  # fmt: skip


# Followers at their leader.


def test_a_follower_reads_to_the_log_end_and_learns_of_a_commit_one_fetch_later(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a", b"b")
        row = await read(client, follower(2, 0, epoch=12))
        assert (values(row), row.high_watermark) == ([b"a", b"b"], 0)
        row = await read(client, follower(2, 2, epoch=12))
        assert (values(row), row.high_watermark) == ([], 0), "as it was before this fetch was counted"
        assert leader_of(rig).log.high_watermark == 2
        row = await read(client, follower(2, 2, epoch=12))
        assert row.high_watermark == 2

    run(tmp_path, scenario)


def test_a_fetch_counts_once_even_if_it_waits(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        counted = []
        leader = leader_of(rig)
        follower_fetched = type(leader).follower_fetched

        def counting(self: LeaderPartition, replica: int, **offsets: int) -> None:
            counted.append((replica, offsets["log_end_offset"], offsets["broker_epoch"]))
            follower_fetched(self, replica, **offsets)

        type(leader).follower_fetched = counting
        try:
            waiting = asyncio.ensure_future(read(client, follower(2, 0, epoch=12, max_wait_ms=MAX_WAIT)))
            await until(lambda: leader.parked_fetches)
            append(rig, b"a")
            assert values(await waiting) == [b"a"]
        finally:
            type(leader).follower_fetched = follower_fetched
        assert counted == [(2, 0, 12)]

    run(tmp_path, scenario)


def test_a_commit_does_not_wake_a_follower(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a")
        leader = leader_of(rig)
        waiting = asyncio.ensure_future(read(client, follower(3, 1, epoch=13, max_wait_ms=MAX_WAIT)))
        await until(lambda: leader.parked_fetches)
        await read(await rig.connect(), follower(2, 1, epoch=12))
        assert leader.log.high_watermark == 1
        await asyncio.sleep(0.05)
        assert not waiting.done()
        append(rig, b"b")
        row = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (values(row), row.high_watermark) == ([b"b"], 1)

    run(tmp_path, scenario)


def test_the_checks_of_a_followers_fetch_are_in_kafkas_order(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        async def code(request: fetch.FetchRequest) -> ErrorCode:
            return (await read(client, request)).error_code

        assert await code(follower(4, 99, current_leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
        assert await code(follower(4, 99, current_leader_epoch=6)) is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert await code(follower(4, 99, current_leader_epoch=5)) is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert await code(follower(4, 99)) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "not a replica"
        assert await code(follower(2, 99, current_leader_epoch=5)) is ErrorCode.OFFSET_OUT_OF_RANGE
        state = fetch.ReplicaState(replica_id=2)
        request = fetch_of(FOLLOWED, wants(99, current_leader_epoch=6), replica_state=state)
        assert await code(request) is ErrorCode.FENCED_LEADER_EPOCH, "the epoch is checked first"
        request = fetch_of(FOLLOWED, wants(99), replica_state=state)
        assert await code(request) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(tmp_path, scenario)


def test_a_follower_that_diverges_is_answered_at_once_and_not_counted(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a", b"b")
        before = dict(leader_of(rig).followers)
        row = await read(client, follower(2, 2, last_fetched_epoch=6, max_wait_ms=MAX_WAIT))
        assert row.error_code is ErrorCode.OFFSET_OUT_OF_RANGE, "the leader does not know this epoch"
        row = await read(client, follower(2, 2, last_fetched_epoch=4, max_wait_ms=MAX_WAIT))
        assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (4, 0)
        row = await read(client, follower(2, 3, last_fetched_epoch=5, max_wait_ms=MAX_WAIT))
        assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (5, 2)
        assert dict(leader_of(rig).followers) == before

    run(tmp_path, scenario)


def test_the_topic_id_of_a_recreated_topic_is_refused(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        leader_of(rig).log.local.topic_id = uuid.UUID(int=1)
        row = await read(client, follower(2, 0))
        assert row.error_code is ErrorCode.INCONSISTENT_TOPIC_ID

    run(tmp_path, scenario)


# The throttle of replication.


def test_a_throttled_replica_outside_the_isr_gets_nothing_while_the_rate_is_exceeded(tmp_path: Path) -> None:
    throttled = dataclasses.replace(LogConfig(), leader_replication_throttled_replicas=("0:1",))

    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a" * 1000)
        await read(client, follower(2, 1))  # commits the record, so broker 3 cannot join the ISR
        rig.leader_quota.reconfigure(broker_config().replaced({LEADER_RATE: "10"}))
        assert values(await read(client, follower(3, 0))), "the rate is checked before the fetch"
        assert rig.leader_quota.is_exceeded
        row = await read(client, follower(3, 0))
        assert (row.error_code, values(row)) == (ErrorCode.NONE, [])
        assert leader_of(rig).followers[BrokerId(3)].log_end_offset == 0, "its fetch counts"
        assert values(await read(client, follower(2, 0))), "a member of the ISR is never throttled"
        waiting = asyncio.ensure_future(read(client, follower(3, 0, max_wait_ms=200)))
        await until(lambda: leader_of(rig).parked_fetches)
        append(rig, b"b")
        assert values(await waiting) == [], "records that are held back do not end the wait"

    run(tmp_path, scenario, config=throttled)


def test_replicas_that_are_not_listed_are_not_throttled(tmp_path: Path) -> None:
    throttled = dataclasses.replace(LogConfig(), leader_replication_throttled_replicas=("0:3", "1:1"))

    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a" * 1000)
        rig.leader_quota.reconfigure(broker_config().replaced({LEADER_RATE: "10"}))
        for _ in range(2):
            assert values(await read(client, follower(3, 0)))
        assert rig.leader_quota.bytes_per_second == 0

    run(tmp_path, scenario, config=throttled)


# Consumers at a follower.


def test_a_consumer_reads_from_a_follower_up_to_its_high_watermark(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        replicate(rig, b"a", high_watermark=0)
        replicate(rig, b"b", high_watermark=1)
        row = await read(client, fetch_of(FOLLOWED, wants(0)))
        assert (values(row), row.high_watermark) == ([b"a"], 1)
        row = await read(client, fetch_of(FOLLOWED, wants(2)))
        assert (row.error_code, values(row)) == (ErrorCode.NONE, [])
        row = await read(client, fetch_of(FOLLOWED, wants(3)))
        assert row.error_code is ErrorCode.OFFSET_OUT_OF_RANGE

    run(tmp_path, scenario)


def test_the_followers_high_watermark_wakes_its_consumers(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        found = replicate(rig, b"a", high_watermark=0)
        waiting = asyncio.ensure_future(read(client, fetch_of(FOLLOWED, wants(0), max_wait_ms=MAX_WAIT)))
        await until(lambda: found.parked_fetches)
        replicate(rig, b"b", high_watermark=0)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        replicate(rig, high_watermark=1)
        row = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (values(row), row.high_watermark) == ([b"a"], 1)

    run(tmp_path, scenario)


def test_only_clients_that_know_followers_may_read_there(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        replicate(rig, b"a", high_watermark=1)
        row = await read(client, fetch_of(FOLLOWED, wants(0)), 10)
        assert row.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert values(await read(client, fetch_of(FOLLOWED, wants(0)), 11)) == [b"a"]
        for epoch, error in ((6, ErrorCode.FENCED_LEADER_EPOCH), (8, ErrorCode.UNKNOWN_LEADER_EPOCH)):
            row = await read(client, fetch_of(FOLLOWED, wants(0, current_leader_epoch=epoch)))
            assert row.error_code is error
            is_fenced = error is ErrorCode.FENCED_LEADER_EPOCH
            assert row.current_leader.leader_id == (2 if is_fenced else -1)

    run(tmp_path, scenario)


def test_the_end_of_the_leader_epoch_wakes_the_consumers_of_a_follower(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        found = replicate(rig, b"a", high_watermark=1)
        waiting = asyncio.ensure_future(read(client, fetch_of(FOLLOWED, wants(1), max_wait_ms=MAX_WAIT)))
        await until(lambda: found.parked_fetches)
        found.resign()
        row = await asyncio.wait_for(waiting, PATIENCE_S)
        assert values(row) == []

    run(tmp_path, scenario)


# The preferred read replica.


def from_rack(rack: str, offset: int, **fields: Any) -> fetch.FetchRequest:
    return fetch_of(LED, wants(offset), rack_id=rack, **{"max_wait_ms": MAX_WAIT, **fields})


def test_a_consumer_is_sent_to_the_follower_in_its_rack_without_records(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a", b"b")
        await read(client, follower(2, 2, epoch=12))
        row = await read(client, from_rack("east", 1))
        assert (row.preferred_read_replica, row.high_watermark, values(row)) == (2, 2, [])
        row = await read(client, from_rack("west", 0))
        assert (row.preferred_read_replica, values(row)) == (-1, [b"a", b"b"]), "the rack of the leader"
        row = await read(client, from_rack("north", 0))
        assert (row.preferred_read_replica, values(row)) == (-1, [b"a", b"b"]), "3 is not in the ISR"
        row = await read(client, from_rack("east", 3))
        assert row.error_code is ErrorCode.OFFSET_OUT_OF_RANGE, "2 does not have this offset"
        row = await read(client, from_rack("east", 1), 10)
        assert row.preferred_read_replica == -1, "these requests have no rack"

    run(tmp_path, scenario, brokers(racks={1: "west", 2: "east", 3: "north"}))


def test_no_consumer_is_sent_to_a_fenced_broker(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a")
        await read(client, follower(2, 1))
        row = await read(client, from_rack("east", 0))
        assert (row.preferred_read_replica, values(row)) == (-1, [b"a"])

    run(tmp_path, scenario, brokers(racks={2: "east"}, fenced=(2,)))


# Offsets and epochs.


def test_the_address_of_a_fenced_leader_is_left_out(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        for fenced, expected in (((), [2]), ((2,), [])):
            rig.set_metadata(brokers(fenced=fenced))
            request = fetch_of(FOLLOWED, wants(0, current_leader_epoch=6))
            response = await client.call(request, ApiKey.FETCH, 17)
            assert response.responses[0].partitions[0].current_leader.leader_id == 2
            assert [node.node_id for node in response.node_endpoints] == expected

    run(tmp_path, scenario)


async def offset_at(
    client: Client, topic: TopicImage, timestamp: int, *, replica: int = -1, version: int = 10, **fields: Any
) -> list_offsets.ListOffsetsPartitionResponse:
    part = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp, **fields)
    request = list_offsets.ListOffsetsRequest(
        replica_id=replica, topics=(list_offsets.ListOffsetsTopic(name=topic.name, partitions=(part,)),)
    )
    response = await client.call(request, ApiKey.LIST_OFFSETS, version)
    row: list_offsets.ListOffsetsPartitionResponse = response.topics[0].partitions[0]
    return row


def test_the_latest_offset_of_a_new_leader_is_not_available_until_it_has_committed(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a", b"b")
        await read(client, follower(2, 1, epoch=12))
        after = dataclasses.replace(
            LED, partitions={0: dataclasses.replace(LED.partitions[0], leader_epoch=6, partition_epoch=1)}
        )
        rig.set_metadata(dataclasses.replace(brokers(), topics=image_of(after, FOLLOWED).topics))
        assert (await offset_at(client, LED, -1)).error_code is ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await offset_at(client, LED, -1, version=4)).error_code is ErrorCode.LEADER_NOT_AVAILABLE
        assert (await offset_at(client, LED, -2)).offset == 0
        row = await offset_at(client, LED, 1_700_000_000_001)
        assert row.error_code is ErrorCode.OFFSET_NOT_AVAILABLE, "this record is not committed"
        assert (await offset_at(client, LED, 1)).offset == 0, "this one is"
        row = await offset_at(client, LED, -1, replica=2)
        assert (row.error_code, row.offset) == (ErrorCode.NONE, 2), "a follower asks for the log end"
        await read(client, follower(2, 2, epoch=12))
        assert (await offset_at(client, LED, -1)).offset == 2

    run(tmp_path, scenario)


def test_a_follower_answers_list_offsets_only_to_a_debugger(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        replicate(rig, b"a", b"b", high_watermark=1)
        for replica in (-1, 2):
            row = await offset_at(client, FOLLOWED, -1, replica=replica)
            assert row.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        row = await offset_at(client, FOLLOWED, -1, replica=-2)
        assert (row.error_code, row.offset) == (ErrorCode.NONE, 2)
        row = await offset_at(client, FOLLOWED, -1, current_leader_epoch=6)
        assert row.error_code is ErrorCode.FENCED_LEADER_EPOCH

    run(tmp_path, scenario)


def test_only_the_leader_answers_for_leader_epochs(tmp_path: Path) -> None:
    async def answer(client: Client, topic: TopicImage, known: int) -> Any:
        part = offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=known, leader_epoch=5
        )
        asked = offset_for_leader_epoch.OffsetForLeaderTopic(topic=topic.name, partitions=(part,))
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=2, topics=(asked,))
        response = await client.call(request, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)
        return response.topics[0].partitions[0]

    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a", b"b")
        row = await answer(client, LED, 5)
        assert (row.error_code, row.leader_epoch, row.end_offset) == (ErrorCode.NONE, 5, 2)
        assert (await answer(client, FOLLOWED, -1)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await answer(client, FOLLOWED, 6)).error_code is ErrorCode.FENCED_LEADER_EPOCH

    run(tmp_path, scenario)


def test_a_follower_describes_its_producers(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        replicate(rig, b"a", high_watermark=1)
        topic = describe_producers.TopicRequest(name=FOLLOWED.name, partition_indexes=(0,))
        request = describe_producers.DescribeProducersRequest(topics=(topic,))
        response = await client.call(request, ApiKey.DESCRIBE_PRODUCERS, 0)
        assert response.topics[0].partitions[0].error_code is ErrorCode.NONE

    run(tmp_path, scenario)


# DeleteRecords.


async def delete(
    client: Client, offset: int, timeout_ms: int = MAX_WAIT
) -> delete_records.DeleteRecordsPartitionResult:
    part = delete_records.DeleteRecordsPartition(partition_index=0, offset=offset)
    request = delete_records.DeleteRecordsRequest(
        topics=(delete_records.DeleteRecordsTopic(name=LED.name, partitions=(part,)),), timeout_ms=timeout_ms
    )
    response = await client.call(request, ApiKey.DELETE_RECORDS, 2)
    row: delete_records.DeleteRecordsPartitionResult = response.topics[0].partitions[0]
    return row


def test_delete_records_waits_until_every_live_replica_has_deleted_them(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a", b"b", b"c")
        peer = await rig.connect()
        for replica in (2, 3):
            await read(peer, follower(replica, 3, epoch=10 + replica))
        waiting = asyncio.ensure_future(delete(client, -1))
        await until(lambda: len(leader_of(rig).deletions))
        assert leader_of(rig).log.log_start_offset == 3, "the leader has deleted them"
        await read(peer, follower(2, 3, epoch=12, log_start_offset=3))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await read(peer, follower(3, 3, epoch=13, log_start_offset=3))
        row = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (row.error_code, row.low_watermark) == (ErrorCode.NONE, 3)
        row = await delete(client, 2)
        assert (row.error_code, row.low_watermark) == (ErrorCode.NONE, 3)

    run(tmp_path, scenario)


def test_delete_records_times_out_without_a_low_watermark(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a")
        await read(client, follower(2, 1, epoch=12))
        row = await delete(client, 1, timeout_ms=50)
        assert (row.error_code, row.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)

    run(tmp_path, scenario)


def test_delete_records_ends_with_the_leadership(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig, client: Client) -> None:
        append(rig, b"a")
        await read(client, follower(2, 1, epoch=12))
        waiting = asyncio.ensure_future(delete(client, 1))
        await until(lambda: len(leader_of(rig).deletions))
        leader_of(rig).resign()
        row = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (row.error_code, row.low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    run(tmp_path, scenario)


# Produce.


def test_the_error_of_one_partition_does_not_end_the_wait_of_another(tmp_path: Path) -> None:
    wide = topic_image("wide", 2, replicas=(1, 2))

    async def scenario(rig: BrokerRig, client: Client) -> None:
        rig.set_metadata(dataclasses.replace(brokers(), topics=image_of(wide).topics))
        parts = tuple(produce.PartitionProduceData(index=index, records=batch(b"a")) for index in (0, 1))
        topic = produce.TopicProduceData(name="wide", partition_data=parts)
        request = produce.ProduceRequest(acks=-1, timeout_ms=MAX_WAIT, topic_data=(topic,))
        waiting = asyncio.ensure_future(client.call(request, ApiKey.PRODUCE, 12))
        first, second = (rig.replicas.get("wide", index) for index in (0, 1))
        await until(lambda: len(first.commits) and len(second.commits))
        first.resign()
        await asyncio.sleep(0.05)
        assert not waiting.done()
        second.follower_fetched(2, log_start_offset=Offset(0), log_end_offset=Offset(1))
        rows = (await asyncio.wait_for(waiting, PATIENCE_S)).responses[0].partition_responses
        assert [row.error_code for row in rows] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
        assert rows[0].current_leader.leader_id == 1, "the hint of the present metadata (KIP-951)"

    run(tmp_path, scenario)


def test_a_committed_partition_keeps_its_success_while_others_wait(tmp_path: Path) -> None:
    wide = topic_image("wide", 2, replicas=(1, 2))

    async def scenario(rig: BrokerRig, client: Client) -> None:
        rig.set_metadata(dataclasses.replace(brokers(), topics=image_of(wide).topics))
        parts = tuple(produce.PartitionProduceData(index=index, records=batch(b"a")) for index in (0, 1))
        topic = produce.TopicProduceData(name="wide", partition_data=parts)
        request = produce.ProduceRequest(acks=-1, timeout_ms=300, topic_data=(topic,))
        waiting = asyncio.ensure_future(client.call(request, ApiKey.PRODUCE, 12))
        first, second = (rig.replicas.get("wide", index) for index in (0, 1))
        await until(lambda: len(first.commits) and len(second.commits))
        first.follower_fetched(2, log_start_offset=Offset(0), log_end_offset=Offset(1))
        first.resign()
        rows = (await asyncio.wait_for(waiting, PATIENCE_S)).responses[0].partition_responses
        assert [row.error_code for row in rows] == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]

    run(tmp_path, scenario)
