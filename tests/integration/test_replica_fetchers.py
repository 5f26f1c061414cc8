"""A follower copies the logs of leaders over a simulated network: data, divergence, out of range, failures."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.config.features import metadata_version_of_release
from kcli.errors import ErrorCode
from kcli.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from kcli.model.request_values import EARLIEST, LATEST
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.fetch import FetchResponse
from kcli.protocol.wire.api import ApiKey
from kcli.replica.follower import Phase
from kcli.server.beans.fetcher_beans import fetcher_beans
from kcli.server.partitions.replication_quota import FOLLOWER_RATE
from kcli.storage.log.log import PartitionLog
from rigs.leader_server import FetcherWorld, batches, on_a_simulated_network
from rigs.logs import append_replicated, batch_of, contents


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
        append_replicated(copy, piece, leader_epoch=1, now_ms=0)
        led3 = new.lead("t", 0, copy, epoch=2)
        for batch in batches(3, first=100):
            new.append(led3, batch)
        log.high_watermark = Offset(6)
        followed = world.follow(log, leader=3, epoch=2)
        await world.until(lambda: followed.log.high_watermark == 9)
        assert same(log, copy)
        assert log.leader_epochs.entries == [(1, 0), (2, 6)]
        assert world.cuts == [{log: 6}]

    on_a_simulated_network(story)


def test_a_new_leader_epoch_waits_until_the_cut_of_the_old_one_is_durable() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"), epoch=1)
        for batch in batches(10):
            leader.append(led, batch)
        log = world.log("follower")
        for _ in log.replicate(led.log.read(0, 1 << 20, end_offset=8).read(), leader_epoch=1, now_ms=0):
            pass
        log.truncate_to(6)
        world.follow(log, epoch=1)
        await world.until(lambda: log.log_end_offset == 10)
        assert world.cuts == [{log: 6}]

    on_a_simulated_network(story)


def test_a_leader_with_a_shorter_log_makes_the_follower_truncate() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"), epoch=4)
        leader.append(led, batch_of([b"a", b"b"]))
        log = world.log("follower")
        for nth in range(5):
            batch = batch_of([b"x"], base_offset=nth)
            append_replicated(log, batch, leader_epoch=4, now_ms=0)
        log.set_high_watermark(5)  # a log without epochs drops at once what is not committed
        world.follow(log, epoch=4)
        await world.until(lambda: log.log_end_offset == 2)
        assert [
            request.topics[0].partitions[0].timestamp for request in leader.sent(ApiKey.LIST_OFFSETS)
        ] == [LATEST]
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
        append_replicated(log, batch_of([b"x"], leader_epoch=1), leader_epoch=1, now_ms=0)
        log.set_high_watermark(1)
        world.follow(log, epoch=4)
        await world.until(lambda: log.log_end_offset == 52)
        assert log.log_start_offset == 50
        assert [
            request.topics[0].partitions[0].timestamp for request in leader.sent(ApiKey.LIST_OFFSETS)
        ] == [
            LATEST,
            EARLIEST,
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
        # The old endpoint still works, and a request waits there.
        moved_at = world.loop.time()
        await leader.start(port=9292)
        world.register(2, port=9292)
        await world.until(lambda: followed.log.log_end_offset == 2 and len(leader.connections) == 1)
        leader.append(led, batch_of([b"c"]))
        await world.until(lambda: followed.log.high_watermark == 3)
        assert world.loop.time() - moved_at < 0.7, "a move is no failure, so no pause follows"

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


def test_a_leader_that_learns_its_epoch_a_moment_later_is_asked_again_after_a_moment() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"), epoch=5)
        leader.append(led, batch_of([b"a"]))
        followed = world.follow(world.log("follower"), epoch=6)
        await world.until(lambda: len(leader.sent(ApiKey.FETCH)) == 1)
        led.epoch, learned_at = 6, world.loop.time()
        await world.until(lambda: followed.log.log_end_offset == 1)
        assert world.loop.time() - learned_at < 0.1, "replica.fetch.backoff.ms is a second"

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


def test_a_throttled_partition_is_fetched_at_the_limit() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = {topic: leader.lead(topic, 0, world.log("leader", topic)) for topic in ("t", "free")}
        for _ in range(120):
            for each in led.values():
                leader.append(each, batch_of([b"x" * 25_000]))
        world.config.update(default={FOLLOWER_RATE: "100000"}, own={})
        listed = {"follower_replication_throttled_replicas": ("3:1", "0:1", "0:2")}
        throttled = world.follow(world.log("follower", **listed))
        free = world.follow(world.log("follower", "free"), topic="free")
        await world.until(lambda: same(free.log, led["free"].log), limit_s=5)
        assert world.loop.time() < 2
        await world.until(lambda: world.loop.time() > 5)
        # At the start, ten windows of a second count as passed (replication.quota.window.num).
        assert 1_000_000 < throttled.log.size_bytes < 1_700_000
        world.config.update(default={}, own={})
        await world.until(lambda: same(throttled.log, led["t"].log), limit_s=3)

    on_a_simulated_network(story, **{"replica.fetch.max.bytes": "100000"})


def test_a_replica_that_has_caught_up_is_not_throttled() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"))
        followed = world.follow(world.log("follower", follower_replication_throttled_replicas=("*",)))
        await world.until(lambda: len(leader.requests) > 1)
        world.config.update(default={FOLLOWER_RATE: "1"}, own={})
        leader.append(led, batch_of([b"x" * 5000]))
        await world.until(lambda: followed.log.high_watermark == 1, limit_s=2)

    on_a_simulated_network(story)


def test_the_number_of_fetchers_may_change() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = [leader.lead(f"t{nth}", 0, world.log("leader", f"t{nth}")) for nth in range(12)]
        followed = [world.follow(world.log("follower", f"t{nth}"), topic=f"t{nth}") for nth in range(12)]

        async def all_copied(count: int) -> None:
            for each in led:
                leader.append(each, batch_of([b"x"]))
            await world.until(lambda: all(each.log.high_watermark == count for each in followed))

        await all_copied(1)
        for nth, fetchers in enumerate((3, 2, 1), start=2):
            world.config.update(default={"num.replica.fetchers": str(fetchers)}, own={})
            assert len(list(world.fetchers)) == fetchers
            await all_copied(nth)
            assert len(leader.connections) == fetchers
        assert {client for client in leader.clients if client} == {f"broker-1-fetcher-{n}" for n in range(3)}

    on_a_simulated_network(story)


def test_a_partition_that_cannot_be_handled_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        bad = leader.lead("bad", 0, world.log("leader", "bad"))
        good = leader.lead("t", 0, world.log("leader"))
        log = world.log("follower", "bad")
        replicate = PartitionLog.replicate

        def broken(of: PartitionLog, *arguments: Any, **fields: Any) -> Any:
            return 1 / 0 if of is log else replicate(of, *arguments, **fields)

        monkeypatch.setattr(PartitionLog, "replicate", broken)
        world.follow(log, topic="bad")
        followed = world.follow(world.log("follower"))
        for each in (bad, good):
            leader.append(each, batch_of([b"x"]))
        await world.until(lambda: followed.log.high_watermark == 1)
        (fetcher,) = world.fetchers
        phases = {key.topic: each.state.phase for key, each in fetcher.followings.items()}
        assert phases == {"bad": Phase.FAILED, "t": Phase.FETCHING}

    on_a_simulated_network(story)


def test_a_bad_disk_fails_its_partition() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"))
        followed = world.follow(world.log("follower"))
        followed.log.directory.failed(OSError(5, "Input/output error"))
        leader.append(led, batch_of([b"x"]))
        (fetcher,) = world.fetchers
        await world.until(lambda: fetcher.followings[TopicPartition("t", 0)].state.phase is Phase.FAILED)

    on_a_simulated_network(story)


def test_a_partition_with_much_data_does_not_starve_another() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        leader.grants_sessions = False
        large = leader.lead("large", 0, world.log("leader", "large"))
        small = leader.lead("small", 0, world.log("leader", "small"))
        for _ in range(60):
            leader.append(large, batch_of([b"x" * 5000]))
        leader.append(small, batch_of([b"x"]))
        copies = {
            topic: world.follow(world.log("follower", topic), topic=topic) for topic in ("large", "small")
        }
        await world.until(lambda: copies["small"].log.log_end_offset == 1)
        assert copies["large"].log.log_end_offset < 10

    limits = {"replica.fetch.response.max.bytes": "6000", "replica.fetch.max.bytes": "6000"}
    on_a_simulated_network(story, **limits)


def test_batches_of_a_newer_epoch_than_the_fetch_are_not_taken() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"), epoch=4)
        leader.append(led, batch_of([b"a"]))
        led.log.append_leader_epoch(LeaderEpoch(5))
        newer = batch_of([b"b"], base_offset=1, leader_epoch=5)
        append_replicated(led.log, newer, leader_epoch=LeaderEpoch(5), now_ms=0)
        log = world.log("follower")
        world.follow(log, epoch=4)
        await world.until(lambda: world.loop.time() > 3)
        assert log.log_end_offset == 1
        led.epoch = 5
        world.follow(log, epoch=5)
        await world.until(lambda: log.log_end_offset == 2)
        assert log.leader_epochs.entries == [(4, 0), (5, 1)]

    on_a_simulated_network(story)


def test_a_log_that_moves_to_another_directory_is_continued_there() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"))
        leader.append(led, batch_of([b"a"]))
        followed = world.follow(world.log("follower"))
        await world.until(lambda: followed.log.high_watermark == 1)
        copy = world.log("other-directory")
        piece = followed.log.read(Offset(0), 1000, end_offset=Offset(1)).read()
        append_replicated(copy, piece, leader_epoch=LeaderEpoch(0), now_ms=0)
        followed.log = copy
        leader.append(led, batch_of([b"b"]))
        await world.until(lambda: copy.high_watermark == 2)
        assert same(copy, led.log)

    on_a_simulated_network(story)


def test_nothing_is_fetched_after_the_stop() -> None:
    async def story(world: FetcherWorld) -> None:
        leader = await world.leader(2)
        leader.lead("t", 0, world.log("leader"))
        followed = world.follow(world.log("follower"))
        await world.until(lambda: len(leader.requests) > 1)
        await world.fetchers.stop()
        await world.until(lambda: not leader.connections)
        world.fetchers.forget(followed)
        world.follow(world.log("follower", "late"), topic="late")
        assert not list(world.fetchers)

    on_a_simulated_network(story)


def test_the_versions_follow_from_the_metadata_version() -> None:
    async def story(world: FetcherWorld) -> None:
        world.publish(features={"metadata.version": metadata_version_of_release("3.5-IV0").level})
        leader = await world.leader(2)
        leader.lead("t", 0, world.log("leader"))
        world.follow(world.log("follower"))
        await world.until(lambda: len(leader.requests) > 1)
        _, version, request = leader.requests[0]
        assert (version, request.replica_id) == (14, 1)

    on_a_simulated_network(story)


@pytest.mark.parametrize("seed", range(1, 9))
def test_after_any_elections_and_failures_the_follower_has_the_leaders_log(seed: int) -> None:
    rng = random.Random(seed)

    async def story(world: FetcherWorld) -> None:
        nodes = {node: await world.leader(node) for node in (2, 3)}
        logs = {node: world.log(f"leader-{node}") for node in nodes}
        log, epoch, node = world.log("follower"), 0, 2
        for _ in range(8):
            epoch += 1
            led = nodes[node].lead("t", 0, logs[node], epoch)
            world.follow(log, leader=node, epoch=epoch)
            for _ in range(rng.randrange(6)):
                values = [b"%d" % rng.randrange(1000)] * rng.randint(1, 3)
                nodes[node].append(led, batch_of(values))
                await asyncio.sleep(rng.random() * 0.01)
                if rng.random() < 0.2:
                    world.network.cut(0.5)
            if rng.random() < 0.3:
                led.log.delete_records_before(Offset(rng.randint(0, led.log.high_watermark)))
            if rng.random() < 0.5:
                await world.until(lambda log=log, led=led: log.log_end_offset == led.log.log_end_offset)  # type: ignore[misc]
            led.leads = False
            node = rng.choice((2, 3))
            copy_prefix(led.log, logs[node], rng)
        led = nodes[node].lead("t", 0, logs[node], epoch + 1)
        nodes[node].append(led, batch_of([b"the last"]))
        while led.log.log_end_offset <= log.log_start_offset:  # the follower need not have older records
            nodes[node].append(led, batch_of([b"the very last"]))
        world.follow(log, leader=node, epoch=epoch + 1)
        await world.until(lambda: log.leader_epochs.latest_epoch == epoch + 1)
        await world.until(lambda: log.high_watermark == log.log_end_offset == led.log.log_end_offset)
        start = max(log.log_start_offset, led.log.log_start_offset)
        assert [each for each in contents(log) if each[0] >= start] == [
            each for each in contents(led.log) if each[0] >= start
        ]

    on_a_simulated_network(story, seed=seed)


def copy_prefix(source: PartitionLog, target: PartitionLog, rng: random.Random) -> None:
    """Gives the next leader a part of the log of the last leader, as an unclean election does."""
    if source is target:
        return
    end = Offset(rng.randint(source.log_start_offset, source.log_end_offset))
    target.truncate_fully_and_start_at(source.log_start_offset)
    while target.log_end_offset < end:
        piece = source.read(target.log_end_offset, 1 << 20, end_offset=end).read()
        if not piece:
            break
        append_replicated(target, piece, leader_epoch=NO_LEADER_EPOCH, now_ms=0)
    target.set_high_watermark(target.log_end_offset)


def test_the_beans_have_kafkas_names() -> None:
    async def story(world: FetcherWorld) -> None:
        broker: Any = SimpleNamespace(clock=world.clock, fetchers=world.fetchers)
        none = {bean.object_name: bean.attributes["Value"] for bean in fetcher_beans(broker)}
        manager = "kafka.server:type=ReplicaFetcherManager,name={},clientId=Replica"
        names = ("MaxLag", "MinFetchRate", "FailedPartitionsCount", "DeadThreadCount")
        assert none == {manager.format(name): 0 for name in names}
        leader = await world.leader(2)
        led = leader.lead("t", 0, world.log("leader"))
        leader.lead("fenced", 0, world.log("leader", "fenced"), epoch=9)
        leader.append(led, batch_of([b"a" * 1000]))
        world.follow(world.log("follower", "fenced"), topic="fenced", epoch=3)
        followed = world.follow(world.log("follower"))
        leader.rewrite = two_records_ahead
        await world.until(lambda: followed.log.high_watermark == 1)
        (fetcher,) = world.fetchers
        await world.until(lambda: fetcher.followings[TopicPartition("fenced", 0)].state.phase is Phase.FAILED)
        found = {bean.object_name: bean.attributes for bean in fetcher_beans(broker)}
        assert found[manager.format("FailedPartitionsCount")] == {"Value": 1}
        thread = "clientId=ReplicaFetcherThread-0-2"
        lag = found[f"kafka.server:type=FetcherLagMetrics,name=ConsumerLag,{thread},topic=t,partition=0"]
        assert lag == found[manager.format("MaxLag")] == {"Value": 2}
        stats = f"kafka.server:type=FetcherStats,name={{}},{thread},brokerHost=leader-2,brokerPort=9092"
        assert found[stats.format("RequestsPerSec")]["Count"] == len(leader.sent(ApiKey.FETCH)) - 1
        assert float(found[stats.format("BytesPerSec")]["Count"]) > followed.log.size_bytes

    on_a_simulated_network(story)


def two_records_ahead(response: Any) -> Any:
    """The answer of a leader that has committed two more records than it sends."""
    topics = tuple(
        replace(
            topic,
            partitions=tuple(
                replace(part, high_watermark=part.high_watermark + 2) for part in topic.partitions
            ),
        )
        for topic in response.responses
    )
    return replace(response, responses=topics)
