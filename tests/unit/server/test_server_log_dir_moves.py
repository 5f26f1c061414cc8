"""AlterReplicaLogDirs over a real broker: partitions move between directories while they are written and read."""

from __future__ import annotations

import asyncio

from server_rig import Client, batch
from test_server_directories import create, real, told, with_broker
from until import until

from kcli.errors import ErrorCode
from kcli.protocol.messages import alter_replica_log_dirs as ar
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.protocol.wire.api import ApiKey
from kcli.server.coordinators.loader import load
from kcli.server.partitions.log_dir_moves import RATE_KEY, Throttle
from kcli.server.requests.context import RequestContext
from kcli.storage.log.log import AppendOrigin
from kcli.testing.rigs.logs import ManualClock, batch_of


async def connected(broker):
    return Client(*await asyncio.open_connection("127.0.0.1", broker.sockets.listeners["PLAINTEXT"].port))


async def alter(client, path, topic, *numbers):
    request = ar.AlterReplicaLogDirsRequest(
        dirs=(
            ar.AlterReplicaLogDir(
                path=path, topics=(ar.AlterReplicaLogDirTopic(name=topic, partitions=numbers),)
            ),
        )
    )
    response = await client.call(request, ApiKey.ALTER_REPLICA_LOG_DIRS, 2)
    return [each.error_code for each in response.results[0].partitions]


async def limit(broker, rate):
    change = ic.AlterConfigsResource(
        resource_type=4,
        resource_name="1",
        configs=(ic.AlterableConfig(name=RATE_KEY, config_operation=0, value=str(rate)),),
    )
    await broker.quorum.incremental_alter_configs(ic.IncrementalAlterConfigsRequest(resources=(change,)))


def append(broker, topic, number, *values):
    return broker.replicas.get(topic, number).append(
        batch(*values), acks=-1, origin=AppendOrigin.CLIENT, now_ms=broker.clock.now_ms()
    )


def elsewhere(broker, topic, number):
    here = broker.logs.get(topic, number).directory
    return next(each for each in broker.logs.directories if each is not here)


def test_a_partition_moves_while_it_is_written(tmp_path):
    async def story(broker):
        client = await connected(broker)
        await create(broker, "t", 1)
        for _ in range(20):
            append(broker, "t", 0, b"x" * 200_000)
        target = elsewhere(broker, "t", 0)
        assert await alter(client, target.path, "t", 0) == [ErrorCode.NONE]
        written = 20
        while broker.logs.get("t", 0).directory is not target:
            append(broker, "t", 0, b"y")
            written += 1
            await asyncio.sleep(0.001)
        append(broker, "t", 0, b"z")
        log = broker.logs.get("t", 0)
        assert log.log_end_offset == log.high_watermark == written + 1
        assert broker.replicas.get("t", 0).log is log
        assert not list(broker.logs.futures)
        await until(lambda: told(broker, "t") == real(broker, "t") == {0: target.id})
        client.close()

    with_broker(tmp_path, story)


def test_a_throttled_move_shows_itself_and_can_be_called_back(tmp_path):
    async def story(broker):
        client = await connected(broker)
        await create(broker, "t", 1)
        for _ in range(4):
            append(broker, "t", 0, b"x" * 700_000)
        await limit(broker, 1)
        home, target = broker.logs.get("t", 0).directory, elsewhere(broker, "t", 0)
        assert await alter(client, target.path, "t", 0) == [ErrorCode.NONE]
        await until(lambda: broker.logs.futures.logs["t", 0].log_end_offset == 1)
        assert await alter(client, target.path, "t", 0) == [ErrorCode.NONE], "asked again, nothing changes"
        (shown,) = [each for each in broker.logs.describe() if each.path == target.path]
        assert [(each.offset_lag, each.is_future) for each in shown.partitions] == [(3, True)]
        assert await alter(client, home.path, "t", 0) == [ErrorCode.NONE]
        assert not list(broker.logs.futures)
        assert broker.logs.get("t", 0).directory is home
        await until(lambda: told(broker, "t") == real(broker, "t"))
        client.close()

    with_broker(tmp_path, story)


def test_a_move_goes_on_after_a_restart(tmp_path):
    places = {}

    async def first(broker):
        client = await connected(broker)
        await create(broker, "t", 1)
        for _ in range(4):
            append(broker, "t", 0, b"x" * 700_000)
        await limit(broker, 1)
        places["target"] = elsewhere(broker, "t", 0).path
        await alter(client, places["target"], "t", 0)
        await until(lambda: broker.logs.futures.logs["t", 0].log_end_offset == 1)
        client.close()

    async def second(broker):
        assert broker.logs.futures.logs["t", 0].directory.path == places["target"]
        await limit(broker, 1 << 40)
        await until(lambda: broker.logs.get("t", 0).directory.path == places["target"])
        assert broker.logs.get("t", 0).log_end_offset == 4

    with_broker(tmp_path, first)
    with_broker(tmp_path, second)


def test_a_swap_cut_in_two_is_finished_at_the_next_start(tmp_path):
    places = {}

    async def first(broker):
        client = await connected(broker)
        await create(broker, "t", 1)
        append(broker, "t", 0, b"x")
        places["target"] = elsewhere(broker, "t", 0).path
        # What a crash leaves: told, the old log set aside, the copy not renamed yet.
        broker.logs.futures.promote = lambda topic, number: broker.logs.remove(
            broker.logs.logs[topic, number]
        )
        broker.replicas.log_moved = lambda *_: None
        await alter(client, places["target"], "t", 0)
        await until(lambda: broker.logs.get("t", 0) is None)
        client.close()

    async def second(broker):
        assert broker.logs.get("t", 0).directory.path == places["target"]
        assert broker.logs.get("t", 0).log_end_offset == 1
        append(broker, "t", 0, b"y")

    with_broker(tmp_path, first)
    with_broker(tmp_path, second)


def test_refusals(tmp_path):
    async def story(broker):
        client = await connected(broker)
        await create(broker, "t", 2)
        await until(lambda: told(broker, "t") == real(broker, "t"))
        good, bad = broker.logs.directories
        assert await alter(client, "/no/such/dir", "t", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert await alter(client, good.path, "nope", 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await create(broker, "nope", 1)
        assert broker.logs.get("nope", 0).directory is good, "the choice was remembered"
        assert await alter(client, good.path, "t" * 240, 0) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        bad.failed(OSError("the disk is gone"))
        await until(lambda: bad.id not in broker.metadata.brokers[1].directories)
        in_bad = next(number for number, place in told(broker, "t").items() if place == bad.id)
        assert await alter(client, bad.path, "t", 1 - in_bad) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert await alter(client, good.path, "t", in_bad) == [ErrorCode.KAFKA_STORAGE_ERROR]
        client.close()

    with_broker(tmp_path, story)


def test_a_topic_deleted_on_its_way_takes_its_copy_along(tmp_path):
    async def story(broker):
        client = await connected(broker)
        await create(broker, "t", 1)
        append(broker, "t", 0, b"x" * 700_000)
        append(broker, "t", 0, b"x" * 700_000)
        await limit(broker, 1)
        await alter(client, elsewhere(broker, "t", 0).path, "t", 0)
        context = RequestContext(broker, 20, 6, 1, None, "PLAINTEXT", "h")
        request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name="t"),))
        await broker.quorum.delete_topics(request, context)
        await until(lambda: broker.logs.get("t", 0) is None)
        assert not list(broker.logs.futures)
        client.close()

    with_broker(tmp_path, story)


def test_the_directory_it_moves_to_breaks_and_the_partition_stays(tmp_path):
    async def story(broker):
        client = await connected(broker)
        broker.logs.prefer("t", 0, broker.logs.directories[0].path)
        await create(broker, "t", 1)
        append(broker, "t", 0, b"x" * 700_000)
        append(broker, "t", 0, b"x" * 700_000)
        target = elsewhere(broker, "t", 0)
        assert target.path != broker.config.metadata_log_dir, "its failure would be the end of the node"
        await limit(broker, 1)
        await alter(client, target.path, "t", 0)
        target.failed(OSError("the disk is gone"))
        await until(lambda: not list(broker.logs.futures))
        append(broker, "t", 0, b"y")
        client.close()

    with_broker(tmp_path, story)


def test_a_log_in_a_broken_directory_is_not_replaced_by_an_empty_one_at_start(tmp_path):
    places = {}

    async def first(broker):
        await create(broker, "t", 2)
        await until(lambda: told(broker, "t") == real(broker, "t"))
        places.update(real(broker, "t"))

    async def second(broker):
        bad = next(each for each in broker.logs.directories if each.error is not None)
        for number in places:
            assert (broker.logs.get("t", number) is None) == (
                bad.id == places[number]
                or (bad.id is None and (places[number] not in {each.id for each in broker.logs.directories}))
            )
        await until(
            lambda: (
                sorted(
                    partition.leader for partition in broker.metadata.topics.topic("t").partitions.values()
                )
                == [-1, 1]
            )
        )

    with_broker(tmp_path, first)
    # A high watermark checkpoint that says nonsense: the directory goes offline at start.
    (tmp_path / "b" / "replication-offset-checkpoint").write_text("nonsense\n")
    with_broker(tmp_path, second)


def test_a_coordinator_loads_while_its_log_moves(tmp_path):
    async def story(broker):
        await create(broker, "t", 1)
        leader = broker.replicas.get("t", 0)
        for nth in range(4):
            leader.append(
                batch_of([b"%d" % nth]),
                acks=-1,
                origin=AppendOrigin.COORDINATOR,
                now_ms=broker.clock.now_ms(),
            )
        first = leader.log
        copy = broker.logs.futures.begin("t", 0, elsewhere(broker, "t", 0))
        broker.logs.futures.take_in(copy, first, first.read(0, 1 << 20, end_offset=4).read(), 0)
        seen = []

        def replay(_key, value, _offset, _producer_id):
            seen.append(value)
            if len(seen) == 2:
                broker.replicas.log_moved("t", 0, broker.logs.futures.promote("t", 0))

        await load(leader, replay=replay, end_transaction=lambda *_: None, buffer_bytes=1)
        assert seen == [b"0", b"1", b"2", b"3"]
        assert leader.log is not first

    with_broker(tmp_path, story)


class TestThrottle:
    def test_what_was_copied_is_waited_for(self):
        clock = ManualClock()
        throttle = Throttle(clock, lambda: 100)
        assert throttle.wait_seconds() == 0
        throttle.copied(50)
        assert throttle.wait_seconds() == 0.5
        clock.ms += 400
        assert abs(throttle.wait_seconds() - 0.1) < 1e-6
        clock.ms += 200
        assert throttle.wait_seconds() == 0

    def test_long_waits_come_in_pieces_and_a_new_rate_counts(self):
        clock, rate = ManualClock(), [1]
        throttle = Throttle(clock, lambda: rate[0])
        throttle.copied(1_000_000)
        assert throttle.wait_seconds() == 1
        rate[0] = 1_000_000
        clock.ms += 1_000
        assert throttle.wait_seconds() == 0

    def test_a_rate_of_zero_stops_after_the_first_slice(self):
        clock = ManualClock()
        throttle = Throttle(clock, lambda: 0)
        throttle.copied(1)
        clock.ms += 3_600_000
        assert throttle.wait_seconds() == 1
