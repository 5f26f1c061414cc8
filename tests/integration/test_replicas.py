"""The replicas of one broker: which ones it leads and follows after each change of the metadata."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import (
    KafkaStorageException,
    NotLeaderOrFollowerException,
    UnknownTopicOrPartitionException,
)
from kcli.metadata.image import PartitionImage, TopicImage, Topics
from kcli.model.ids import BrokerId, Offset
from kcli.server.beans.bean import single_beans
from kcli.server.beans.partition_beans import partition_beans
from kcli.server.beans.replica_beans import replica_beans
from kcli.server.partitions import replicas as replicas_module
from kcli.server.partitions.followed_partition import FollowedPartition
from kcli.server.partitions.leader_partition import LeaderPartition
from rigs.data_path import NODE, BrokerRig, batch, topic_image
from rigs.leader_appends import append_batch
from rigs.loops import PATIENCE_S, until

OTHER = BrokerId(2)
BOTH = (BrokerId(NODE), OTHER)


class Rig(BrokerRig):
    def __init__(self, directory: Path, *topics: TopicImage) -> None:
        super().__init__(directory, *topics)
        self.told: list[tuple[str, int, bool]] = []
        self.replicas.subscribe(
            lambda leader, led: self.told.append((leader.topic, leader.leader_epoch, led))
        )

    def change(self, name: str, **changes: object) -> None:
        """Publishes another state of partition 0."""
        topic = self.metadata.topics.topic(name)
        assert topic is not None
        before = topic.partitions[0]
        partition: PartitionImage = replace(
            before, **{"partition_epoch": before.partition_epoch + 1, **changes}
        )
        self.put(replace(topic, partitions={0: partition}))

    def put(self, *topics: TopicImage) -> None:
        by_id = {**self.metadata.topics.by_id, **{each.topic_id: each for each in topics}}
        names = {each.name: each.topic_id for each in by_id.values()}
        self.publish(replace(self.metadata, topics=Topics(by_id, names)))

    def remove(self, name: str) -> None:
        by_id = {key: each for key, each in self.metadata.topics.by_id.items() if each.name != name}
        names = {each.name: each.topic_id for each in by_id.values()}
        self.publish(replace(self.metadata, topics=Topics(by_id, names)))

    def hands_over(self, name: str, leader: int, epoch: int) -> None:
        self.change(name, leader=leader, leader_epoch=epoch)

    def append(self, name: str, acks: int = 1) -> None:
        leader = self.replicas.get(name, 0)
        append_batch(leader, batch(b"a"), acks=acks, now_ms=self.clock.now_ms())


def run(directory: Path, scenario: Callable[[Rig], Awaitable[None]], *topics: TopicImage) -> None:
    async def main() -> None:
        async with Rig(directory, *topics) as rig:
            await scenario(rig)

    asyncio.run(main())


def pair(name: str, leader: int = NODE) -> TopicImage:
    return topic_image(name, replicas=BOTH, leader=leader)


def test_a_partition_of_another_leader_is_followed(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        followed = rig.replicas.hosted("t", 0)
        assert isinstance(followed, FollowedPartition)
        assert rig.fetchers.fetched == [followed]
        assert (followed.leader, followed.leader_epoch) == (OTHER, 0)
        assert followed.log is rig.logs.get("t", 0)
        assert not followed.log.leader_epochs.entries
        assert rig.replicas.find("t", 0) is None
        with pytest.raises(NotLeaderOrFollowerException):
            rig.replicas.get("t", 0)
        assert list(rig.replicas.followed) == [followed]
        assert rig.told == []

    run(tmp_path, scenario, pair("t", OTHER))


def test_a_partition_without_a_replica_here_is_not_hosted(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        assert rig.logs.get("t", 0) is None
        with pytest.raises(NotLeaderOrFollowerException):
            rig.replicas.hosted("t", 0)
        with pytest.raises(UnknownTopicOrPartitionException):
            rig.replicas.hosted("t", 1)

    run(tmp_path, scenario, topic_image("t", replicas=(OTHER,), leader=OTHER))


def test_the_log_stays_when_the_leadership_goes_and_comes_back(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.append("t")
        first = rig.replicas.get("t", 0)
        rig.hands_over("t", OTHER, 1)
        followed = rig.replicas.hosted("t", 0)
        assert isinstance(followed, FollowedPartition)
        assert not first.is_leader
        assert followed.log is first.log
        rig.hands_over("t", NODE, 2)
        second = rig.replicas.get("t", 0)
        assert not followed.is_current
        assert (second.log, second.leader_epoch, second.state.start_offset) == (first.log, 2, 1)
        assert rig.fetchers.fetched == []
        assert rig.fetchers.calls == [("follow", "t-0"), ("forget", "t-0")]
        assert rig.told == [("t", 0, False), ("t", 2, True)]
        rig.append("t")
        assert list(second.log.leader_epochs.entries) == [(0, 0), (2, 1)]

    run(tmp_path, scenario, pair("t"))


def test_a_leadership_begins_when_the_cut_of_the_log_is_durable(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        work: list[Callable[[], None]] = []
        rig.replicas = rig.make_replicas(work.append)
        rig.replicas.load(rig.metadata)
        followed = rig.replicas.hosted("t", 0)
        for batches in (batch(b"a"), batch(b"b")):
            followed.log.append(batches, leader_epoch=0, now_ms=0)
        followed.log.truncate_to(1)
        rig.hands_over("t", NODE, 1)
        assert rig.replicas.find("t", 0) is None
        followed.log.truncate_to(0)  # a second cut before the first one is durable
        while work:
            work.pop(0)()
            await asyncio.sleep(0)
        assert rig.replicas.get("t", 0).log is followed.log
        assert not followed.log.durability.has_unsynced_cut

    run(tmp_path, scenario, pair("t", OTHER))


def test_a_new_epoch_of_another_leader_starts_the_fetcher_again(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        first = rig.replicas.hosted("t", 0)
        rig.change("t", isr=BOTH)
        assert rig.replicas.hosted("t", 0) is first
        rig.hands_over("t", -1, 1)
        second = rig.replicas.hosted("t", 0)
        assert isinstance(second, FollowedPartition)
        assert (second.leader, second.is_current) == (-1, True)
        assert rig.fetchers.fetched == [second]
        assert [call for call, _ in rig.fetchers.calls] == ["follow", "forget", "follow"]

    run(tmp_path, scenario, pair("t", OTHER))


def test_a_delta_deletes_then_leads_then_follows(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        calls = rig.fetchers.calls
        calls.clear()
        rig.replicas.subscribe(lambda leader, led: calls.append(("lead" if led else "resign", str(leader))))
        after = {name: rig.metadata.topics.topic(name) for name in ("led", "kept", "gone")}
        moved = []
        for name, changes in (
            ("led", {"leader": OTHER}),
            ("kept", {"leader": NODE}),
            ("gone", {"replicas": (OTHER,), "isr": (OTHER,)}),
        ):
            topic = after[name]
            assert topic is not None
            partition = replace(topic.partitions[0], leader_epoch=1, partition_epoch=1, **changes)
            moved.append(replace(topic, partitions={0: partition}))
        rig.put(*moved)
        assert calls == [
            ("forget", "gone-0"),
            ("forget", "kept-0"),
            ("lead", "kept-0"),
            ("resign", "led-0"),
            ("follow", "led-0"),
        ]
        assert rig.logs.get("gone", 0) is None

    run(tmp_path, scenario, pair("led"), pair("kept", OTHER), pair("gone", OTHER))


def test_a_deleted_topic_is_not_followed_any_more(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        followed = rig.replicas.hosted("t", 0)
        rig.remove("t")
        assert rig.fetchers.fetched == []
        assert isinstance(followed, FollowedPartition)
        assert not followed.is_current
        assert rig.logs.get("t", 0) is None
        with pytest.raises(UnknownTopicOrPartitionException):
            rig.replicas.hosted("t", 0)

    run(tmp_path, scenario, pair("t", OTHER))


def test_requests_continue_to_wait_in_the_next_epoch_of_the_same_leader(tmp_path: Path) -> None:
    """A removed replica raises the leader epoch. Records that wait for their commit are still in the log."""

    async def scenario(rig: Rig) -> None:
        leader = rig.replicas.get("t", 0)
        rig.append("t", acks=-1)
        waiting = asyncio.ensure_future(leader.wait_committed(Offset(1), 60))
        await until(lambda: len(leader.commits))
        rig.hands_over("t", NODE, 1)
        assert rig.replicas.get("t", 0) is leader
        assert (leader.leader_epoch, leader.is_leader) == (1, True)
        assert rig.told == [("t", 1, True)]
        leader.follower_fetched(OTHER, log_start_offset=0, log_end_offset=1)
        await waiting

    run(tmp_path, scenario, pair("t"))


def test_progress_of_followers_is_unknown_after_an_epoch_of_which_the_leader_never_heard(
    tmp_path: Path,
) -> None:
    """Another broker may have led in between, and the follower may have cut its log."""

    async def scenario(rig: Rig) -> None:
        leader = rig.replicas.get("t", 0)
        leader.follower_fetched(OTHER, log_start_offset=0, log_end_offset=0)
        rig.hands_over("t", NODE, 1)
        assert leader.followers[OTHER].log_end_offset == 0
        rig.hands_over("t", NODE, 3)
        assert (leader.leader_epoch, leader.followers[OTHER].log_end_offset) == (3, -1)

    run(tmp_path, scenario, pair("t"))


def test_a_wait_for_a_commit_ends_with_the_leadership(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        leader = rig.replicas.get("t", 0)
        rig.append("t", acks=-1)
        waiting = asyncio.ensure_future(leader.wait_committed(Offset(1), 60))
        await until(lambda: len(leader.commits))
        rig.hands_over("t", OTHER, 1)
        for late in (waiting, leader.wait_committed(Offset(1), 60)):
            with pytest.raises(NotLeaderOrFollowerException):
                await late

    run(tmp_path, scenario, pair("t"))


def test_added_and_removed_replicas_change_the_followers(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        leader = rig.replicas.get("t", 0)
        leader.follower_fetched(OTHER, log_start_offset=0, log_end_offset=0)
        rig.change("t", replicas=(NODE, OTHER, 3))
        assert {key: each.log_end_offset for key, each in leader.followers.items()} == {2: 0, 3: -1}
        rig.change("t", replicas=(NODE, 3), isr=(NODE,))
        assert list(leader.followers) == [3]

    run(tmp_path, scenario, pair("t"))


def test_a_topic_config_reaches_followed_logs(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.config_of["t"] = replace(rig.config_of[""], segment_bytes=1 << 20)
        rig.replicas.reconfigure({"t"})
        assert rig.replicas.hosted("t", 0).log.config.segment_bytes == 1 << 20

    run(tmp_path, scenario, pair("t", OTHER))


@pytest.mark.parametrize("leader", [NODE, OTHER])
def test_replicas_in_a_failed_directory_are_offline(tmp_path: Path, leader: int) -> None:
    async def scenario(rig: Rig) -> None:
        replica = rig.replicas.hosted("t", 0)
        directory = rig.logs.directories[0]
        directory.failed(OSError("broken"))
        rig.replicas.directory_failed(directory)
        for find in (rig.replicas.get, rig.replicas.hosted):
            with pytest.raises(KafkaStorageException):
                find("t", 0)
        assert rig.fetchers.fetched == []
        assert rig.replicas.offline_count == 1
        assert not (replica.is_leader if isinstance(replica, LeaderPartition) else replica.is_current)
        # The controller moves the leadership, and the replica stays offline.
        rig.hands_over("t", OTHER, 5)
        with pytest.raises(KafkaStorageException):
            rig.replicas.hosted("t", 0)
        rig.remove("t")
        assert rig.replicas.offline_count == 0

    run(tmp_path, scenario, pair("t", leader))


def test_a_followed_log_may_move_to_another_directory(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        followed = rig.replicas.hosted("t", 0)
        copy = rig.logs.create("copy", 0, None)
        rig.replicas.log_moved("t", 0, copy)
        assert followed.log is copy
        assert not copy.leader_epochs.entries
        rig.replicas.log_lost("t", 0)
        with pytest.raises(KafkaStorageException):
            rig.replicas.hosted("t", 0)

    run(tmp_path, scenario, pair("t", OTHER))


def test_after_the_stop_nothing_is_led_or_followed(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        leader = rig.replicas.get("t", 0)
        rig.append("t", acks=-1)
        waiting = asyncio.ensure_future(leader.wait_committed(Offset(1), 60))
        await until(lambda: len(leader.commits))
        rig.replicas.stop()
        with pytest.raises(NotLeaderOrFollowerException):
            await waiting
        assert rig.fetchers.fetched == []
        rig.hands_over("f", NODE, 1)
        rig.hands_over("t", OTHER, 1)
        assert (len(rig.replicas), rig.replicas.followed_count) == (0, 0)
        rig.remove("t")
        assert rig.logs.get("t", 0) is None

    run(tmp_path, scenario, pair("t"), pair("f", OTHER))


def test_every_new_replica_is_reported_once(tmp_path: Path) -> None:
    """The broker reports the log directories of these replicas to the controller."""

    async def scenario(rig: Rig) -> None:
        hosted: list[tuple[str, int]] = []
        rig.replicas.subscribe_hosted(lambda topic, partition: hosted.append((topic, partition)))
        rig.put(topic_image("many", 40, replicas=BOTH, leader=OTHER))
        await rig.replicas.applied()
        assert hosted == [("many", number) for number in range(40)]
        rig.change("t", isr=(NODE,))
        assert len(hosted) == 40

    run(tmp_path, scenario, pair("t"))


def beans_of(rig: Rig) -> dict[str, object]:
    """Name of the object without its domain -> value."""
    sources: Any = rig
    return {
        each.object_name.partition(":")[2]: each.attributes["Value"]
        for several in (*replica_beans(sources), *partition_beans(sources))
        if several is not None
        for each in single_beans(several)
    }


def test_the_beans_of_replicas(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.config_of["t"] = replace(rig.config_of[""], min_insync_replicas=2)
        rig.replicas.reconfigure(None)
        rig.change("t", isr=(NODE,))
        beans = beans_of(rig)
        counts = {
            "PartitionCount": 3,
            "LeaderCount": 2,
            "UnderReplicatedPartitions": 1,
            "UnderMinIsrPartitionCount": 1,
            "AtMinIsrPartitionCount": 0,
            "OfflineReplicaCount": 0,
            "ReassigningPartitions": 0,
        }
        assert {name: beans[f"type=ReplicaManager,name={name}"] for name in counts} == counts
        of = {
            name: [beans[f"type=Partition,name={name},topic={topic},partition=0"] for topic in ("t", "f")]
            for name in ("UnderReplicated", "InSyncReplicasCount", "ReplicasCount", "UnderMinIsr", "AtMinIsr")
        }
        assert of == {
            "UnderReplicated": [1, 0],
            "InSyncReplicasCount": [1, 0],
            "ReplicasCount": [2, 0],
            "UnderMinIsr": [1, 0],
            "AtMinIsr": [0, 0],
        }
        # A replica that a reassignment adds is not missing yet (KIP-455).
        rig.change("t", adding=(OTHER,))
        beans = beans_of(rig)
        assert beans["type=ReplicaManager,name=UnderReplicatedPartitions"] == 0
        assert beans["type=ReplicaManager,name=ReassigningPartitions"] == 1
        rig.replicas.log_lost("f", 0)
        assert beans_of(rig)["type=ReplicaManager,name=OfflineReplicaCount"] == 1

    run(tmp_path, scenario, pair("t"), pair("u"), pair("f", OTHER))


def test_the_counts_of_a_topic_go_with_its_last_replica(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        topics = rig.replicas.traffic.topics
        rig.append("t")
        rig.append("u")
        rig.change("t", leader=OTHER, leader_epoch=1)
        assert topics["t"].messages_in == 1, "the broker still has a replica"
        rig.change("t", replicas=(OTHER,), isr=(OTHER,))
        assert list(topics) == ["u"]
        rig.remove("u")
        assert list(topics) == []
        assert rig.replicas.traffic.elsewhere.messages_in == 2

    run(tmp_path, scenario, pair("t"), pair("u"))


def short(rig: Rig, monkeypatch: pytest.MonkeyPatch, call: str, path_part: str, count: int) -> list[str]:
    """Lets the next calls of the disk fail for lack of descriptors. Returns the list of the paths of failed calls."""
    monkeypatch.setattr(replicas_module, "SHORTAGE_PAUSE_S", 0.0)
    real, failed = getattr(rig.disk, call), []

    def limited(path: str, *args: Any, **options: Any) -> Any:
        if path_part in path and len(failed) < count:
            failed.append(path)
            raise OSError(errno.EMFILE, "no more", path)
        return real(path, *args, **options)

    monkeypatch.setattr(rig.disk, call, limited)
    return failed


@pytest.mark.parametrize("leader", [NODE, OTHER])
def test_a_new_replica_waits_for_descriptors(
    leader: BrokerId, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the replica was offline until the broker started again."""

    async def scenario(rig: Rig) -> None:
        failed = short(rig, monkeypatch, "open", "/u-0/", 5)
        rig.put(pair("u", leader), pair("v", leader))
        await asyncio.wait_for(rig.replicas.applied(), PATIENCE_S)
        assert len(failed) == 5
        for name in ("u", "v"):
            assert rig.replicas.hosted(name, 0).log is rig.logs.get(name, 0)
        assert rig.logs.directories[0].error is None

    run(tmp_path, scenario, pair("t"))


def test_the_log_of_a_deleted_partition_is_deleted_after_a_shortage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(rig: Rig) -> None:
        failed = short(rig, monkeypatch, "rename", "/t-0", 2)
        rig.remove("t")
        await asyncio.wait_for(rig.replicas.applied(), PATIENCE_S)
        assert len(failed) == 2
        assert rig.logs.get("t", 0) is None
        assert not (tmp_path / "t-0").exists()
        assert rig.logs.directories[0].open_logs == 0

    run(tmp_path, scenario, pair("t"))
