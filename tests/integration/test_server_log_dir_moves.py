"""AlterReplicaLogDirs over a real broker: partitions move between directories while they are written and read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kcli.controller.api import DELETE_TOPICS, INCREMENTAL_ALTER_CONFIGS
from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import alter_replica_log_dirs as ar
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.protocol.wire.api import ApiKey
from kcli.server.coordinators.loader import load
from kcli.server.partitions.log_dir_moves import RATE_KEY, MoveThrottle
from kcli.storage.directory import LogDirectory
from kcli.storage.log.log import AppendResult
from rigs.data_path import batch
from rigs.directories import create, real, registered, with_two_directories
from rigs.leader_appends import append_batch
from rigs.logs import ManualClock, batch_of
from rigs.loops import until
from rigs.node import RunningNode, connect
from rigs.wire_client import Client


async def alter(client: Client, path: str, topic: str, *numbers: int) -> list[ErrorCode]:
    request = ar.AlterReplicaLogDirsRequest(
        dirs=(
            ar.AlterReplicaLogDir(
                path=path, topics=(ar.AlterReplicaLogDirTopic(name=topic, partitions=numbers),)
            ),
        )
    )
    response = await client.call(request, ApiKey.ALTER_REPLICA_LOG_DIRS, 2)
    return [each.error_code for each in response.results[0].partitions]


async def limit(node: RunningNode, rate: int) -> None:
    change = ic.AlterConfigsResource(
        resource_type=4,
        resource_name="1",
        configs=(ic.AlterableConfig(name=RATE_KEY, config_operation=0, value=str(rate)),),
    )
    await node.controller.send(
        INCREMENTAL_ALTER_CONFIGS, ic.IncrementalAlterConfigsRequest(resources=(change,))
    )


def append(node: RunningNode, topic: str, number: int, *values: bytes) -> AppendResult:
    return append_batch(
        node.broker.replicas.get(topic, number), batch(*values), acks=-1, now_ms=node.clock.now_ms()
    )


def elsewhere(node: RunningNode, topic: str, number: int) -> LogDirectory:
    here = node.logs.get(topic, number).directory
    return next(each for each in node.logs.directories if each is not here)


def test_a_partition_moves_while_it_is_written(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node)
        await create(node, "t", 1)
        for _ in range(20):
            append(node, "t", 0, b"x" * 200_000)
        target = elsewhere(node, "t", 0)
        assert await alter(client, target.path, "t", 0) == [ErrorCode.NONE]
        written = 20
        while node.logs.get("t", 0).directory is not target:
            append(node, "t", 0, b"y")
            written += 1
            await asyncio.sleep(0.001)
        append(node, "t", 0, b"z")
        log = node.logs.get("t", 0)
        assert log.log_end_offset == log.high_watermark == written + 1
        assert node.broker.replicas.get("t", 0).log is log
        assert not list(node.logs.futures)
        await until(lambda: registered(node, "t") == real(node, "t") == {0: target.id})
        client.close()

    with_two_directories(tmp_path, story)


def test_a_throttled_move_shows_itself_and_can_be_called_back(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node)
        await create(node, "t", 1)
        for _ in range(4):
            append(node, "t", 0, b"x" * 700_000)
        await limit(node, 1)
        home, target = node.logs.get("t", 0).directory, elsewhere(node, "t", 0)
        assert await alter(client, target.path, "t", 0) == [ErrorCode.NONE]
        await until(lambda: node.logs.futures.logs[TopicPartition("t", 0)].log_end_offset == 1)
        assert await alter(client, target.path, "t", 0) == [ErrorCode.NONE], "asked again, nothing changes"
        (shown,) = [each for each in node.logs.describe() if each.path == target.path]
        assert [(each.offset_lag, each.is_future) for each in shown.partitions] == [(3, True)]
        assert await alter(client, home.path, "t", 0) == [ErrorCode.NONE]
        assert not list(node.logs.futures)
        assert node.logs.get("t", 0).directory is home
        await until(lambda: registered(node, "t") == real(node, "t"))
        client.close()

    with_two_directories(tmp_path, story)


def test_a_move_continues_after_a_restart(tmp_path: Path) -> None:
    places = {}

    async def first(node: RunningNode) -> None:
        client = await connect(node)
        await create(node, "t", 1)
        for _ in range(4):
            append(node, "t", 0, b"x" * 700_000)
        await limit(node, 1)
        places["target"] = elsewhere(node, "t", 0).path
        await alter(client, places["target"], "t", 0)
        await until(lambda: node.logs.futures.logs[TopicPartition("t", 0)].log_end_offset == 1)
        client.close()

    async def second(node: RunningNode) -> None:
        assert node.logs.futures.logs[TopicPartition("t", 0)].directory.path == places["target"]
        await limit(node, 1 << 40)
        await until(lambda: node.logs.get("t", 0).directory.path == places["target"])
        assert node.logs.get("t", 0).log_end_offset == 4

    with_two_directories(tmp_path, first)
    with_two_directories(tmp_path, second)


def test_a_swap_cut_in_two_is_finished_at_the_next_start(tmp_path: Path) -> None:
    places = {}

    async def first(node: RunningNode) -> None:
        client = await connect(node)
        await create(node, "t", 1)
        append(node, "t", 0, b"x")
        places["target"] = elsewhere(node, "t", 0).path
        # What a crash leaves: told, the old log set aside, the copy not renamed yet.
        promote: Any = lambda topic, number: node.logs.remove(node.logs.logs[TopicPartition(topic, number)])  # noqa: E731
        node.logs.futures.promote = promote
        node.broker.replicas.log_moved = lambda *_: None
        await alter(client, places["target"], "t", 0)
        await until(lambda: node.logs.get("t", 0) is None)
        client.close()

    async def second(node: RunningNode) -> None:
        assert node.logs.get("t", 0).directory.path == places["target"]
        assert node.logs.get("t", 0).log_end_offset == 1
        append(node, "t", 0, b"y")

    with_two_directories(tmp_path, first)
    with_two_directories(tmp_path, second)


def test_invalid_moves_are_refused_with_their_codes(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node)
        await create(node, "t", 2)
        await until(lambda: registered(node, "t") == real(node, "t"))
        good, bad = node.logs.directories
        assert await alter(client, "/no/such/dir", "t", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert await alter(client, good.path, "nope", 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await create(node, "nope", 1)
        assert node.logs.get("nope", 0).directory is good, "the choice was remembered"
        assert await alter(client, good.path, "t" * 240, 0) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        bad.failed(OSError("the disk is gone"))
        await until(lambda: bad.id not in node.metadata.brokers[1].directories)
        in_bad = next(number for number, place in registered(node, "t").items() if place == bad.id)
        assert await alter(client, bad.path, "t", 1 - in_bad) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert await alter(client, good.path, "t", in_bad) == [ErrorCode.KAFKA_STORAGE_ERROR]
        client.close()

    with_two_directories(tmp_path, story)


def test_a_topic_deleted_on_its_way_takes_its_copy_along(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node)
        await create(node, "t", 1)
        append(node, "t", 0, b"x" * 700_000)
        append(node, "t", 0, b"x" * 700_000)
        await limit(node, 1)
        await alter(client, elsewhere(node, "t", 0).path, "t", 0)
        request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name="t"),), timeout_ms=5000)
        await node.controller.send(DELETE_TOPICS, request)
        await until(lambda: node.logs.get("t", 0) is None)
        assert not list(node.logs.futures)
        client.close()

    with_two_directories(tmp_path, story)


def test_the_directory_it_moves_to_breaks_and_the_partition_stays(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node)
        node.logs.placement.prefer("t", 0, node.logs.directories[0].path)
        await create(node, "t", 1)
        append(node, "t", 0, b"x" * 700_000)
        append(node, "t", 0, b"x" * 700_000)
        target = elsewhere(node, "t", 0)
        assert target.path != node.config.metadata_log_dir, "its failure would be the end of the node"
        await limit(node, 1)
        await alter(client, target.path, "t", 0)
        target.failed(OSError("the disk is gone"))
        await until(lambda: not list(node.logs.futures))
        append(node, "t", 0, b"y")
        client.close()

    with_two_directories(tmp_path, story)


def test_a_log_in_a_broken_directory_is_not_replaced_by_an_empty_one_at_start(tmp_path: Path) -> None:
    places = {}

    async def first(node: RunningNode) -> None:
        await create(node, "t", 2)
        await until(lambda: registered(node, "t") == real(node, "t"))
        places.update(real(node, "t"))

    async def second(node: RunningNode) -> None:
        bad = next(each for each in node.logs.directories if each.error is not None)
        for number in places:
            assert (node.logs.get("t", number) is None) == (
                bad.id == places[number]
                or (bad.id is None and (places[number] not in {each.id for each in node.logs.directories}))
            )
        await until(
            lambda: (
                sorted(partition.leader for partition in node.metadata.topics.topic("t").partitions.values())
                == [-1, 1]
            )
        )

    with_two_directories(tmp_path, first)
    # A high watermark checkpoint that says nonsense: the directory goes offline at start.
    (tmp_path / "b" / "replication-offset-checkpoint").write_text("nonsense\n")
    with_two_directories(tmp_path, second)


def test_a_coordinator_loads_while_its_log_moves(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        await create(node, "t", 1)
        leader = node.broker.replicas.get("t", 0)
        for nth in range(4):
            leader.append(batch_of([b"%d" % nth]), acks=-1, now_ms=node.clock.now_ms())
        first = leader.log
        copy = node.logs.futures.begin("t", 0, elsewhere(node, "t", 0))
        node.logs.futures.append(copy, first, first.read(0, 1 << 20, end_offset=4).read(), 0)
        seen = []

        def replay(key: bytes, value: bytes | None, offset: int, producer_id: int) -> None:
            seen.append(value)
            if len(seen) == 2:
                node.broker.replicas.log_moved("t", 0, node.logs.futures.promote("t", 0))

        await load(leader, replay=replay, end_transaction=lambda *_: None, buffer_bytes=1)
        assert seen == [b"0", b"1", b"2", b"3"]
        assert leader.log is not first

    with_two_directories(tmp_path, story)


class TestThrottle:
    def test_the_throttle_waits_for_the_bytes_that_were_copied(self) -> None:
        clock = ManualClock()
        throttle = MoveThrottle(clock, lambda: 100)
        assert throttle.wait_seconds() == 0
        throttle.copied(50)
        assert throttle.wait_seconds() == 0.5
        clock.ms += 400
        assert abs(throttle.wait_seconds() - 0.1) < 1e-6
        clock.ms += 200
        assert throttle.wait_seconds() == 0

    def test_long_waits_come_in_pieces_and_a_new_rate_counts(self) -> None:
        clock, rate = ManualClock(), [1]
        throttle = MoveThrottle(clock, lambda: rate[0])
        throttle.copied(1_000_000)
        assert throttle.wait_seconds() == 1
        rate[0] = 1_000_000
        clock.ms += 1_000
        assert throttle.wait_seconds() == 0

    def test_a_rate_of_zero_stops_after_the_first_slice(self) -> None:
        clock = ManualClock()
        throttle = MoveThrottle(clock, lambda: 0)
        throttle.copied(1)
        clock.ms += 3_600_000
        assert throttle.wait_seconds() == 1
