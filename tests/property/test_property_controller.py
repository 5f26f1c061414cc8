"""Any history of a small cluster: partitions stay sane, and log, image and snapshot tell the same story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.controller.api import (
    ALTER_PARTITION,
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    UNREGISTER_BROKER,
)
from kcli.controller.leadership import elect_leaderless, elect_preferred
from kcli.controller.partition_index import PartitionIndex
from kcli.metadata.image import MetadataImage
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot import image_records
from kcli.protocol.messages import alter_partition as al
from kcli.protocol.messages import alter_partition_reassignments as ar
from kcli.protocol.messages import create_partitions as cp
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.messages import elect_leaders as el
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.protocol.messages import unregister_broker as ub
from kcli.protocol.records.metadata import (
    ClearElrRecord,
    PartitionChangeRecord,
    decode_metadata_record,
    encode_metadata_record,
    write_version_for,
)
from rigs.controller import FEATURES, ControllerRig
from rigs.examples import examples

BROKERS = st.integers(1, 4)
NAMES = st.sampled_from(["a", "b", "c.d"])

STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.just("grow"), NAMES, st.integers(1, 6)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("configure"), NAMES, st.sampled_from(["1", "2", "3"])),
    st.tuples(st.just("restart"), BROKERS, st.booleans()),
    st.tuples(st.just("unfence"), BROKERS),
    st.tuples(st.just("fence"), BROKERS),
    st.tuples(st.just("leave"), BROKERS),
    st.tuples(st.just("silence"), BROKERS),
    st.tuples(st.just("shrink"), NAMES),
    st.tuples(st.just("expand"), NAMES),
    st.tuples(st.just("reassign"), NAMES, st.permutations([1, 2, 3, 4]), st.integers(1, 4)),
    st.tuples(st.just("cancel"), NAMES),
    st.tuples(st.just("elect"), st.sampled_from([0, 1])),
    st.tuples(st.just("allow_unclean"), NAMES, st.booleans()),
    st.tuples(st.just("unregister"), BROKERS),
    st.tuples(st.just("fail_directory"), BROKERS),
    st.tuples(st.just("balance")),
)


class History:
    """A cluster with everything that was written to its log."""

    def __init__(self, elr: bool) -> None:
        self.rig = ControllerRig({**FEATURES, "eligible.leader.replicas.version": int(elr)})
        self.lives = dict.fromkeys(range(1, 5), 1)
        self.batches = []
        replay = self.rig.replay

        def recorded(records: Iterable[Any]) -> None:
            records = list(records)
            if records:
                self.batches.append((records, self.rig.controller.next_offset + len(records) - 1))
            replay(records)

        self.rig.replay = recorded
        self.before = self.rig.image
        for broker_id in self.lives:
            self.rig.add_brokers(broker_id, directories=2)

    def step(self, step: tuple[Any, ...]) -> None:
        kind, *arguments = step
        getattr(self, kind)(*arguments)

    def create(self, name: str, partitions: int, replication_factor: int) -> None:
        self.rig.create(name, partitions, replication_factor)

    def grow(self, name: str, count: int) -> None:
        topic = cp.CreatePartitionsTopic(name=name, count=count, assignments=None)
        self.rig.obey(self.rig.decide(CREATE_PARTITIONS, cp.CreatePartitionsRequest(topics=(topic,))))

    def delete(self, name: str) -> None:
        request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name=name),))
        self.rig.obey(self.rig.decide(DELETE_TOPICS, request, api_version=6))

    def configure(self, name: str, value: str, key: str = "min.insync.replicas") -> None:
        config = ic.AlterableConfig(name=key, config_operation=0, value=value)
        resource = ic.AlterConfigsResource(resource_type=2, resource_name=name, configs=(config,))
        request = ic.IncrementalAlterConfigsRequest(resources=(resource,))
        self.rig.obey(self.rig.decide(INCREMENTAL_ALTER_CONFIGS, request))

    def allow_unclean(self, name: str, allowed: bool) -> None:
        self.configure(name, str(allowed).lower(), "unclean.leader.election.enable")

    def restart(self, broker_id: int, clean: bool) -> None:
        """A new life once the old session is over."""
        self.rig.now_ms += 60_000
        self.lives[broker_id] += 1
        known = self.rig.image.brokers.get(broker_id)
        previous = known.epoch if clean and known is not None else -1
        self.rig.register(
            broker_id, incarnation=self.lives[broker_id], previous_epoch=previous, directories=2
        )
        self.rig.heartbeat(broker_id)

    def unregister(self, broker_id: int) -> None:
        if broker_id in self.rig.image.brokers:
            request = ub.UnregisterBrokerRequest(broker_id=broker_id)
            self.rig.obey(self.rig.decide(UNREGISTER_BROKER, request))

    def fail_directory(self, broker_id: int) -> None:
        known = self.rig.image.brokers.get(broker_id)
        if known is not None:
            self.rig.heartbeat(broker_id, offline=known.directories[:1], fence=known.fenced)

    def reassign(self, name: str, order: list[int], count: int) -> None:
        self._reassign(name, tuple(order[:count]))

    def cancel(self, name: str) -> None:
        self._reassign(name, None)

    def _reassign(self, name: str, replicas: tuple[int, ...] | None) -> None:
        asked = ar.ReassignablePartition(partition_index=0, replicas=replicas)
        request = ar.AlterPartitionReassignmentsRequest(
            topics=(ar.ReassignableTopic(name=name, partitions=(asked,)),)
        )
        self.rig.obey(self.rig.decide(ALTER_PARTITION_REASSIGNMENTS, request))

    def elect(self, kind: int) -> None:
        request = el.ElectLeadersRequest(election_type=kind, topic_partitions=None)
        self.rig.obey(self.rig.decide(ELECT_LEADERS, request))

    def balance(self) -> None:
        self.rig.obey(self.rig.last_step(elect_preferred(self.rig.controller)))
        self.rig.obey(self.rig.last_step(elect_leaderless(self.rig.controller)))

    def unfence(self, broker_id: int) -> None:
        self._beat(broker_id)

    def fence(self, broker_id: int) -> None:
        self._beat(broker_id, fence=True)

    def leave(self, broker_id: Any) -> None:
        self._beat(broker_id, shut_down=True)

    def _beat(self, broker_id: int, **wants: Any) -> None:
        if broker_id in self.rig.image.brokers:
            self.rig.heartbeat(broker_id, **wants)

    def silence(self, broker_id: int) -> None:
        """Everybody but one is heard of."""
        self.rig.now_ms += 8_000
        for other in self.lives:
            if other != broker_id:
                self._beat(other)
        self.rig.now_ms += 1_500
        while self.rig.fence_expired():
            pass

    def shrink(self, name: str) -> None:
        self._alter(name, lambda partition: (partition.leader,))

    def expand(self, name: str) -> None:
        self._alter(name, lambda partition: [each for each in partition.replicas if self._is_active(each)])

    def _is_active(self, broker_id: int) -> bool:
        broker = self.rig.image.brokers.get(broker_id)
        return broker is not None and broker.active

    def _alter(self, name: str, isr_of: Callable[..., Any]) -> None:
        topic = self.rig.image.topics.topic(name)
        if topic is None or topic.partitions[0].leader < 0:
            return
        partition = topic.partitions[0]
        asked = al.RequestPartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=tuple(al.BrokerState(broker_id=each) for each in isr_of(partition)),
        )
        request = al.AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=self.rig.image.brokers[partition.leader].epoch,
            topics=(al.RequestTopicData(topic_id=topic.topic_id, partitions=(asked,)),),
        )
        self.rig.obey(self.rig.decide(ALTER_PARTITION, request))


def check_partitions(image: MetadataImage, elr: bool) -> None:
    for topic in image.topics:
        assert sorted(topic.partitions) == list(range(len(topic.partitions)))
        for partition in topic.partitions.values():
            replicas = set(partition.replicas)
            assert len(replicas) == len(partition.replicas) == len(partition.directories)
            assert set(partition.isr) <= replicas and len(set(partition.isr)) == len(partition.isr)
            assert set(partition.elr) <= replicas and not set(partition.elr) & set(partition.isr)
            assert set(partition.adding) <= replicas and set(partition.removing) <= replicas
            assert partition.isr or partition.elr or partition.last_known_elr
            if partition.leader >= 0:
                assert partition.leader in partition.isr
                assert image.brokers[partition.leader].active
            if not elr:
                assert partition.isr and not partition.elr and not partition.last_known_elr


def check_epochs(before: MetadataImage, after: MetadataImage, records: list[Any]) -> None:
    """Epochs of a partition never go back, and a new leader means a new leader epoch. Each record is one partition
    epoch."""
    changes = Counter(
        (record.topic_id, record.partition_id)
        for record in records
        if isinstance(record, PartitionChangeRecord)
    )
    clears = sum(isinstance(record, ClearElrRecord) for record in records)
    for topic_id, topic in after.topics.by_id.items():
        old = before.topics.by_id.get(topic_id)
        for number, partition in topic.partitions.items():
            was = None if old is None else old.partitions.get(number)
            if was is None:
                continue
            assert partition.leader_epoch >= was.leader_epoch
            changed = changes[topic_id, number]
            assert changed <= partition.partition_epoch - was.partition_epoch <= changed + clears
            if partition != was:
                assert partition.partition_epoch > was.partition_epoch
            if partition.leader != was.leader:
                assert partition.leader_epoch > was.leader_epoch


def replayed(batches: list[Any], image: MetadataImage) -> MetadataImage:
    """The image after these batches, each record through its bytes."""
    replayer = ImageReplayer(image)
    for records, last_offset in batches:
        values = [encode_metadata_record(record, write_version_for(record, 27)) for record in records]
        decoded = [decode_metadata_record(value)[0] for value in values]
        replayer.replay(decoded, last_offset=last_offset, epoch=1, timestamp_ms=0)
    return replayer.image


def same(left: MetadataImage, right: MetadataImage) -> bool:
    return all(
        getattr(left, name) == getattr(right, name)
        for name in ("topics", "brokers", "configs", "features", "offset")
    )


@settings(max_examples=examples(60), deadline=None)
@given(st.booleans(), st.lists(STEPS, max_size=25))
def test_any_history_keeps_partitions_sane_and_replays_to_the_same_image(elr: bool, steps: list[Any]) -> None:
    history = History(elr)
    for step in steps:
        before, known = history.rig.image, len(history.batches)
        history.step(step)
        written = [record for records, _ in history.batches[known:] for record in records]
        check_partitions(history.rig.image, elr)
        check_epochs(before, history.rig.image, written)
        assert history.rig.controller.index == PartitionIndex(history.rig.image)
    image = history.rig.image
    assert same(replayed(history.batches, history.before), image)
    snapshot = [(list(image_records(image)), image.offset)]
    assert same(replayed(snapshot, MetadataImage()), image)
