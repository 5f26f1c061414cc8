"""A follower copies the logs of leaders over a simulated network: data, divergence, out of range, failures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcli.errors import ErrorCode
from kcli.model.ids import Offset
from kcli.protocol.messages.fetch import FetchResponse
from kcli.protocol.wire.api import ApiKey
from kcli.replica.follower import Phase
from kcli.storage.log.log import PartitionLog
from kcli.testing.rigs.logs import batch_of, contents
from rigs.leader_server import FetcherWorld, batches, on_a_simulated_network


def same(follower: PartitionLog, leader: PartitionLog) -> bool:
    return follower.log_end_offset == leader.log_end_offset and contents(follower) == contents(leader)


def test_a_follower_copies_the_log_and_learns_the_high_watermark() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"), epoch=3)
        for batch in batches(20):
            leader.append(led, batch)
        followed = world.follow(world.log("follower"), epoch=3)
        await world.until(lambda: followed.log.high_watermark == 20)
        leader.append(led, batch_of([b"late"]))
        await world.until(lambda: followed.log.high_watermark == 21)
        assert same(followed.log, led.log)
        assert followed.log.leader_epochs.entries == [(3, 0)]
        assert followed.traffic.replication_bytes_in == led.log.size_bytes
        key, version, request = leader.requests[0]
        assert (key, version, leader.clients[0]) == (ApiKey.FETCH, 18, "broker-1-fetcher-0")
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 77)
        assert (request.session_epoch, request.max_wait_ms, request.min_bytes) == (0, 500, 1)
        assert (request.max_bytes, request.topics[0].partitions[0].partition_max_bytes) == (10485760, 1048576)
        assert [each.session_epoch for each in leader.sent(ApiKey.FETCH)[1:3]] == [1, 2]

    on_a_simulated_network(story)


def test_an_idle_session_lists_no_partition() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"))
        leader.append(led, batch_of([b"a"]))
        followed = world.follow(world.log("follower"))
        await world.until(lambda: followed.log.log_end_offset == 1)
        asked = len(leader.requests)
        await world.until(lambda: len(leader.requests) > asked + 2)
        assert all(not request.topics for request in leader.sent(ApiKey.FETCH)[asked + 1 :])

    on_a_simulated_network(story)


def test_a_diverging_log_is_truncated_to_the_last_common_record() -> None:
    async def story(world: FetcherWorld) -> None:
        log = world.log("follower")
        old = await world.leader(2)
        led = old.lead("t", 0, world.log("old"), epoch=1)
        for batch in batches(10):
            old.append(led, batch)
        followed = world.follow(log, epoch=1)
        await world.until(lambda: log.log_end_offset == 10)
        # The next leader has only six of these records, and then its own.
        new = await world.leader(3)
        copy = world.log("new")
        piece = led.log.read(0, 1 << 20, end_offset=6).read()
        copy.append(piece, leader_epoch=1, origin=led_origin(), now_ms=0)
        led3 = new.lead("t", 0, copy, epoch=2)
        for batch in batches(3, first=100):
            new.append(led3, batch)
        log.high_watermark = Offset(6)
        followed = world.follow(log, leader=3, epoch=2)
        await world.until(lambda: followed.log.high_watermark == 9)
        assert same(log, copy)
        assert log.leader_epochs.entries == [(1, 0), (2, 6)]

    on_a_simulated_network(story)


def led_origin() -> Any:
    from kcli.storage.log.log import AppendOrigin

    return AppendOrigin.REPLICATION


def test_a_leader_with_a_shorter_log_makes_the_follower_truncate() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"), epoch=4)
        leader.append(led, batch_of([b"a", b"b"]))
        log = world.log("follower")
        for nth in range(5):
            batch = batch_of([b"x"], base_offset=nth, leader_epoch=4)
            log.append(batch, leader_epoch=4, origin=led_origin(), now_ms=0)
        world.follow(log, epoch=4)
        await world.until(lambda: log.log_end_offset == 2)
        leader.append(led, batch_of([b"c"]))
        await world.until(lambda: log.log_end_offset == 3)

    on_a_simulated_network(story)


def test_a_follower_before_the_leaders_start_begins_again_there() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"), epoch=4)
        led.log.truncate_fully_and_start_at(50)
        leader.append(led, batch_of([b"a", b"b"]))
        log = world.log("follower")
        log.append(batch_of([b"x"], leader_epoch=1), leader_epoch=1, origin=led_origin(), now_ms=0)
        log.set_high_watermark(1)
        world.follow(log, epoch=4)
        await world.until(lambda: log.log_end_offset == 52)
        assert log.log_start_offset == 50
        assert [
            request.topics[0].partitions[0].timestamp for request in leader.sent(ApiKey.LIST_OFFSETS)
        ] == [
            -1,
            -2,
        ]

    on_a_simulated_network(story)


def test_the_log_start_offset_follows_the_leader() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"))
        for batch in batches(5):
            leader.append(led, batch)
        followed = world.follow(world.log("follower"))
        await world.until(lambda: followed.log.high_watermark == 5)
        led.log.delete_records_before(3)
        leader.changed()
        await world.until(lambda: followed.log.log_start_offset == 3)

    on_a_simulated_network(story)


def test_a_leader_that_restarts_is_fetched_from_again() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"))
        followed = world.follow(world.log("follower"))
        await world.until(lambda: len(leader.requests) > 1)
        leader.stop()
        leader.append(led, batch_of([b"a"]))
        await leader.start()
        await world.until(lambda: followed.log.high_watermark == 1)

    on_a_simulated_network(story)


def test_a_cut_network_costs_time_and_nothing_else() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"))
        followed = world.follow(world.log("follower"))
        await world.until(lambda: len(leader.requests) > 1)
        world.network.cut_link("leader-2", "follower")
        leader.append(led, batch_of([b"a"]))
        await world.until(lambda: world.loop.time() > 40)
        assert followed.log.log_end_offset == 0
        world.network.mend_links()
        await world.until(lambda: followed.log.high_watermark == 1)

    on_a_simulated_network(story)


def test_a_leader_at_another_endpoint_is_found() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2, registered=False)
        led = leader.lead("t", 0, world.log("leader"))
        leader.append(led, batch_of([b"a"]))
        followed = world.follow(world.log("follower"))
        await world.until(lambda: world.loop.time() > 3)
        assert not leader.requests
        world.register(2)
        await world.until(lambda: followed.log.high_watermark == 1)
        leader.stop()
        await leader.start(port=9192)
        leader.append(led, batch_of([b"b"]))
        world.register(2, port=9192)
        await world.until(lambda: followed.log.high_watermark == 2)

    on_a_simulated_network(story)


def test_a_fenced_epoch_waits_for_new_metadata() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"), epoch=5)
        leader.append(led, batch_of([b"a"]))
        log = world.log("follower")
        world.follow(log, epoch=4)
        (fetcher,) = world.fetchers
        await world.until(lambda: next(iter(fetcher.followings.values())).state.phase is Phase.FAILED)
        asked = len(leader.requests)
        await world.until(lambda: world.loop.time() > 10)
        assert len(leader.requests) == asked
        world.follow(log, epoch=5)
        await world.until(lambda: log.log_end_offset == 1)

    on_a_simulated_network(story)


def test_an_epoch_that_the_leader_does_not_know_yet_is_asked_again() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"), epoch=5)
        leader.append(led, batch_of([b"a"]))
        followed = world.follow(world.log("follower"), epoch=6)
        await world.until(lambda: world.loop.time() > 3)
        assert followed.log.log_end_offset == 0
        led.epoch = 6
        await world.until(lambda: followed.log.log_end_offset == 1)
        assert len(leader.sent(ApiKey.FETCH)) < 12, "a pause of a second is between two requests"

    on_a_simulated_network(story)


def test_damaged_records_are_fetched_again() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"))
        leader.append(led, batch_of([b"abc"]))
        damaged = 0

        def damage(response: Any) -> Any:
            nonlocal damaged
            if not isinstance(response, FetchResponse) or not response.responses or damaged == 2:
                return response
            (topic,) = response.responses
            (part,) = topic.partitions
            if not part.records:
                return response
            damaged += 1
            records = part.records[:-1] + bytes([part.records[-1] ^ 1])
            part = replace(part, records=records)
            return replace(response, responses=(replace(topic, partitions=(part,)),))

        leader.rewrite = damage
        followed = world.follow(world.log("follower"))
        await world.until(lambda: followed.log.log_end_offset == 1)
        assert damaged == 2
        assert world.loop.time() > 2, "a pause follows each damaged answer"

    on_a_simulated_network(story)


def test_hostile_answers_never_end_the_fetcher() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"))
        answers: list[Any] = [
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            b"\x7f\xff\xff\xff",
            b"\0\0\0\x08\0\0\0\x63\0\0\0\0",
            b"\0\0\0\x08\0\0\0\x05\0\xff\xff\xff",
            FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
            FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH),
            None,
        ]
        left = list(answers)
        leader.rewrite = lambda response: left.pop(0) if left else response
        leader.append(led, batch_of([b"a"]))
        followed = world.follow(world.log("follower"))
        await world.until(lambda: followed.log.log_end_offset == 1, limit_s=120)
        assert not left
        assert not any(fetcher.is_dead for fetcher in world.fetchers)

    on_a_simulated_network(story)


def test_the_last_partition_ends_the_connection() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        leader.lead("t", 0, world.log("leader"))
        followed = world.follow(world.log("follower"))
        await world.until(lambda: len(leader.requests) > 1)
        world.fetchers.forget(followed)
        await world.until(lambda: not leader.connections)
        assert not list(world.fetchers)

    on_a_simulated_network(story)
