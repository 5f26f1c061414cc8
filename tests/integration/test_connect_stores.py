"""The internal topics of Connect on a real broker: their creation, what workers see of each other, and transactions."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest

from kcli.client.admin.topics import NewTopic
from kcli.client.topic_table.writers import TransactionalWriter
from kcli.config.definition import ConfigError
from kcli.connect.decisions.config_state import SessionKey
from kcli.connect.model import RestartRequest, State, Status, TargetState, TaskId
from kcli.connect.stores.configs import Configs
from kcli.connect.stores.store import TaskProducer
from kcli.errors import InvalidReplicationFactorException, ProducerFencedException
from kcli.formats.connect.errors import ConnectException
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record
from rigs.connect_cluster import ConnectCluster, connect_cluster
from rigs.connect_stores import Changes
from rigs.loops import on_a_loop, until

CONFIG = {"connector.class": "FileStreamSource", "name": "a"}
KEY = SessionKey(b"k" * 32, "HmacSHA256", 1)


async def configs_of(cluster: ConnectCluster, changes: Changes, **properties: str) -> Configs:
    configs = (await cluster.topics(**properties)).configs()
    await configs.start(changes)
    cluster.at_end(configs.stop)
    return configs


@on_a_loop
async def test_topics_are_created_with_the_settings_of_the_worker(tmp_path: Path) -> None:
    async with connect_cluster(tmp_path) as cluster:
        topics = await cluster.topics(config_storage_segment_bytes="1048576")
        for store in (topics.offsets(), topics.statuses()):
            await store.start()
            await store.stop()
        await configs_of(cluster, Changes(), config_storage_segment_bytes="1048576")
        admin = await cluster.admin()
        described = await admin.describe_topics(["configs", "offsets", "status"])
        assert {name: len(topic.partitions) for name, topic in described.items()} == {
            "configs": 1,
            "offsets": 3,
            "status": 2,
        }
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in described]
        for resource, settings in (await admin.describe_configs(resources)).items():
            assert isinstance(settings, tuple)
            values = {each.name: each.value for each in settings}
            assert values["cleanup.policy"] == "compact"
            assert (values["segment.bytes"] == "1048576") is (resource.name == "configs")


@on_a_loop
async def test_topics_that_may_lose_records_are_refused(tmp_path: Path) -> None:
    async with connect_cluster(tmp_path) as cluster:
        admin = await cluster.admin()
        compacted = {"cleanup.policy": "compact"}
        created = await admin.create_topics(
            [
                NewTopic(name="configs", partitions=2, replication_factor=1, configs=compacted),
                NewTopic(name="status", partitions=1, replication_factor=1),
            ]
        )
        assert set(created.values()) == {None}
        with pytest.raises(ConfigError) as several:
            await configs_of(cluster, Changes())
        assert str(several.value) == (
            "Topic 'configs' supplied via the 'config.storage.topic' property is required to have a single partition "
            "in order to guarantee consistency of connector configurations, but found 2 partitions."
        )
        with pytest.raises(ConfigError) as deleted:
            await (await cluster.topics()).statuses().start()
        assert str(deleted.value).startswith(
            "Topic 'status' supplied via the 'status.storage.topic' property is required to have "
            "'cleanup.policy=compact' to guarantee consistency and durability of connector and task statuses, but "
            "found the topic currently has 'cleanup.policy=delete'. Continuing would likely result in eventually "
            "losing connector and task statuses and problems restarting this Connect cluster in the future."
        )


@on_a_loop
async def test_a_start_waits_for_enough_brokers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with connect_cluster(tmp_path) as cluster:
        cluster.config = dataclasses.replace(cluster.config, default_api_timeout_ms=200)
        statuses = (await cluster.topics(status_storage_replication_factor="3")).statuses()
        with (
            caplog.at_level(logging.INFO, "kcli.connect.stores"),
            pytest.raises(InvalidReplicationFactorException),
        ):
            await statuses.start()
        assert "'status' topic creation failed due to" in caplog.text


@on_a_loop
async def test_workers_see_the_configurations_of_each_other(tmp_path: Path) -> None:
    async with connect_cluster(tmp_path) as cluster:
        changes, of_other = Changes(), Changes()
        first, second = await configs_of(cluster, changes), await configs_of(cluster, of_other)
        await first.put_connector("a", CONFIG, TargetState.PAUSED)
        await first.put_task_configs("a", [{"n": "0"}, {"n": "1"}])
        await second.put_target_state("a", TargetState.STARTED)
        await first.put_restart_request(RestartRequest("a", include_tasks=True))
        await second.put_logger_level("root", "DEBUG")
        await second.refresh()
        await first.refresh()
        assert first.state == second.state
        assert first.state.offset == 8
        assert first.state.target_states == {"a": TargetState.STARTED}
        assert changes.seen == of_other.seen
        third = Changes()
        assert (await configs_of(cluster, third)).state == first.state
        assert third.seen == []
        await first.remove_connector("a")
        await second.refresh()
        assert second.state.connectors == {}


@on_a_loop
async def test_a_leader_with_exactly_once_writes_groups_in_transactions(tmp_path: Path) -> None:
    async with connect_cluster(tmp_path) as cluster:
        enabled = {"exactly_once_source_support": "enabled"}
        leader = await configs_of(cluster, Changes(), **enabled)
        with pytest.raises(ConnectException, match="without claiming write privileges first"):
            await leader.put_session_key(KEY)
        await leader.claim()
        await leader.claim()
        await leader.put_session_key(KEY)
        await leader.put_connector("a", CONFIG, TargetState.STOPPED)
        await leader.put_target_state("a", TargetState.STARTED)
        await leader.put_task_configs("a", [{}, {}])
        await leader.put_task_count_record("a", 2)
        records = [(each.offset, each.key) for each in await cluster.records("configs", committed=True)]
        # Each transaction ends with a marker, which has an offset too. The target state is no transaction.
        assert records == [
            (0, b"session-key"),
            (2, b"target-state-a"),
            (3, b"connector-a"),
            (5, b"target-state-a"),
            (6, b"task-a-0"),
            (7, b"task-a-1"),
            (9, b"commit-a"),
            (11, b"tasks-fencing-a"),
        ]
        assert leader.state.offset == 12
        assert leader.state.task_count_records == {"a": 2}


@on_a_loop
async def test_a_new_leader_fences_the_one_before(tmp_path: Path) -> None:
    async with connect_cluster(tmp_path) as cluster:
        preparing = {"exactly_once_source_support": "preparing"}
        first = await configs_of(cluster, Changes(), **preparing)
        second = await configs_of(cluster, Changes(), **preparing)
        await first.claim()
        await first.put_session_key(KEY)
        await second.claim()
        assert second.state.session_key == KEY, "read before the claim returns"
        with pytest.raises(ConnectException, match="Failed to perform fencable send to config topic"):
            await first.put_connector("a", CONFIG, None)
        with pytest.raises(ConnectException, match="without claiming"):
            await first.put_connector("a", CONFIG, None)
        await second.put_connector("b", CONFIG, None)
        await first.put_target_state("b", TargetState.PAUSED)
        await first.claim()
        await first.put_connector("c", CONFIG, None)
        await second.refresh()
        assert list(second.state.connectors) == ["b", "c"]
        assert second.state.target_states["b"] is TargetState.PAUSED
        await second.claim()
        await first.claim()
        await first.remove_connector(
            "c"
        )  # with a new writer, because the other leader has fenced the old one


@on_a_loop
async def test_many_large_task_configurations_need_several_batches(tmp_path: Path) -> None:
    async with connect_cluster(tmp_path) as cluster:
        for support in ("disabled", "enabled"):
            configs = await configs_of(cluster, Changes(), exactly_once_source_support=support)
            await configs.claim()
            await configs.put_connector(support, CONFIG, None)
            await configs.put_task_configs(support, [{"text": "x" * 200_000}] * 9)
            assert len(configs.state.task_ids(support)) == 9


@on_a_loop
async def test_statuses_are_written_in_the_background(tmp_path: Path) -> None:
    async with connect_cluster(tmp_path) as cluster:
        first, second = (await cluster.topics()).statuses(), (await cluster.topics()).statuses()
        for store in (first, second):
            await store.start()
            cluster.at_end(store.stop)
        running = Status(State.RUNNING, "w1", 3, version="1.0")
        for number in range(50):
            first.put(TaskId("a", number), running)
        first.put_topic(TaskId("a", 0), "t")
        await first.flush()
        assert dict(first.tasks("a")) == dict.fromkeys(range(50), running)
        await until(lambda: len(second.tasks("a")) == 50 and list(second.topics("a")) == ["t"])
        second.put(TaskId("a", 1), Status(State.UNASSIGNED, "w2", 2), safely=True)
        second.put(TaskId("a", 0), Status(State.DESTROYED, "w2", 4))
        await second.flush()
        await until(lambda: len(first.tasks("a")) == 49)
        assert first.get(TaskId("a", 1)) == running


@on_a_loop
async def test_a_connector_with_its_own_offsets_topic_falls_back_to_the_workers(tmp_path: Path) -> None:
    async with connect_cluster(tmp_path) as cluster:
        topics = await cluster.topics()
        workers = topics.offsets()
        await workers.start()
        cluster.at_end(workers.stop)
        old, new = b'["a",{"f":"1"}]', b'["a",{"f":"2"}]'
        await workers.put({old: b"1"})
        own = topics.connector_offsets("own", "c", cluster.config, await cluster.admin(), workers)
        await own.start()
        assert own.get(old) == b"1"
        await own.put({new: b"2"})
        await own.put({old: None})
        await own.stop()
        await workers.refresh()
        assert (workers.get(old), workers.get(new)) == (None, b"2")
        assert {(each.key, each.value) for each in await cluster.records("own")} == {
            (new, b"2"),
            (old, None),
        }


@on_a_loop
async def test_offsets_that_a_user_changes_under_exactly_once_are_written_in_a_transaction(
    tmp_path: Path,
) -> None:
    async with connect_cluster(tmp_path) as cluster:
        offsets = (await cluster.topics()).offsets()
        await offsets.start()
        cluster.at_end(offsets.stop)
        producer = TaskProducer("g-a-0", "connector-producer-a-0")
        zombie = TransactionalWriter(await cluster.client(), producer.transactional_id)
        await zombie.claim()
        entries = {f'["a",{{"f":"{number}"}}]'.encode(): b"1" for number in range(9)}
        await offsets.put(entries, producer)
        assert all(offsets.get(key) == value for key, value in entries.items())
        assert {change.key for change in await cluster.records("offsets", committed=True)} == entries.keys()
        with pytest.raises(ProducerFencedException):
            await zombie.write({TopicPartition("offsets", 0): [Record(timestamp_ms=0, key=b"z", value=b"z")]})
