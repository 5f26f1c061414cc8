"""Watches the replicas of a simulated cluster, and raises AssertionError for a broken promise of replication.

The watch reads every batch of every replica once, at its append. The watch also reads the disks of nodes that do not
run. The committed records of a partition are all records below the high watermark of any leader. The names of the
promises are those of the TLA+ specifications of Kafka's replication. A cluster is settled when each partition has a
leader, all replicas are in sync, and their logs are equal.

* A leader epoch of a partition has one leader. Within a leader epoch, the high watermark never goes back.
* The controller's leader is in the ISR, and the ISR is a part of the replicas. No broker is in ISR and ELR. Leader
  epochs never go back.
* ReplicationQuorumSuperset: the maximal ISR of the leader contains the controller's ISR.
* StrongIsr: every member of the leader's maximal ISR has all records below the leader's high watermark.
* LeaderCandidateCompleteness: every member of ISR and ELR has all committed records, and so has a new leader.
* LogMatching: two replicas that have the same batch (leader epoch and offset) are equal up to this batch.
* No replica has a high watermark above the committed records. The leader epoch cache of a replica is in order, and
  agrees with the batches of the replica. A replica appends no batch of a leader epoch that its broker does not know.
* A leader counts no fetch of a follower that does not know the current leader epoch.
* The sequence numbers of each producer are contiguous in the committed records.
* The last stable offset of a replica is not above its high watermark, and not after the begin of an open transaction.
* An answer to a producer or to a consumer contains only committed records, and they never change.
* Offsets are dense, and no producer id is given twice.
* The last committed record of each key of a compacted topic is on all replicas at the end.

A loss of power may remove all records that were not flushed, if a story says so (`lost_records`). Then the promises
begin again with the records that are left. Still, no leader epoch has two different batches at an offset.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

from kcli.errors import KafkaError
from kcli.metadata.image import MetadataImage, PartitionImage, TopicImage
from kcli.model.ids import NO_LEADER
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC, GROUP_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import BatchHeader, advance_sequence
from kcli.replica.leader import LeaderState
from kcli.server.node import Node
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.roles.broker_role import BrokerRole
from kcli.storage.log.log import PartitionLog
from simulation.checks.partition import (
    Partition,
    Progress,
    Replica,
    directory_of,
    has_all_before,
    is_in_sync,
    text_of_end,
)
from simulation.checks.replica_files import ReplicaFiles
from simulation.checks.replica_log import (
    Content,
    ReplicaBatch,
    ReplicaLog,
    read_disk,
    read_log,
    read_more,
    stored_records,
)
from simulation.world.cluster import SimCluster, SimNode


class ReplicationWatch:
    """The state of all replicas of a cluster. Call `check` after every iteration of the event loop, and `died` after a
    node died. The class is long, because each promise is judged with the state that the other promises leave."""

    def __init__(
        self,
        cluster: SimCluster,
        *,
        loses_on_unclean_election: Iterable[str] = (),
        loses_by_retention: Iterable[str] = (),
        compacted: Iterable[str] = (),
        rewrites: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Gets four groups of topics: topics that allow unclean leader elections, topics whose old records are
        deleted, compacted topics, and topics whose batches the broker changes (`rewrites`). Each broker compacts its
        replicas on its own. So the replicas of a compacted topic have different batches, which cannot be compared."""
        self.image = MetadataImage()
        """The newest committed metadata that any node has shown."""
        self.partitions: dict[TopicPartition, Partition] = {}
        self.losses = 0
        """The number of losses of power that may have removed committed records of any partition. An answer to an
        earlier request proves nothing any more."""
        self.isr_changes = 0
        self.committed_batches = 0
        self._producer_ids: set[int] = set()
        self._alive: dict[int, Node] = {}
        # The log ends of followers as their leaders know them, by partition, leader epoch and follower.
        self._fetched: dict[tuple[uuid.UUID, int, int, int], int] = {}
        self._machines = cluster.nodes
        self._unclean = frozenset(loses_on_unclean_election)
        self._retained = frozenset(loses_by_retention)
        self._compacted = frozenset(compacted)
        self._rewrites = rewrites
        self.files = ReplicaFiles(
            self._machines, self.partitions, retained=self._retained, compacted=self._compacted
        )
        self._topics: dict[uuid.UUID, TopicImage] = {}
        self._states: dict[LeaderPartition, LeaderState] = {}
        self._progress: dict[PartitionLog, Progress] = {}
        """The last progress of each log that was read. Most logs have not changed since the last turn."""
        # Brokers that lost unflushed records, with the broker epoch of that time. Until such a broker registers again,
        # the controller still counts on its records.
        self._weakened: dict[int, int] = {}

    # After every turn.

    def check(self, acted: Sequence[SimNode] | None = None) -> None:
        """Reads everything that is new, and checks the partitions that changed. If `acted` is given, reads only these
        nodes, because no other node has acted in the last iteration of the event loop."""
        changed: dict[TopicPartition, None] = {}
        for node_id in [each for each in self._alive if self._machines[each].alive is None]:
            self.died(self._machines[node_id])
        machines = self._machines.values() if acted is None else acted
        for machine in machines:
            node = machine.alive
            if node is not None:
                self._alive[machine.node_id] = node
                if node.loader.image.offset > self.image.offset:
                    self._take_image(node.loader.image, changed)
        for machine in machines:
            if machine.alive is not None and machine.alive.broker is not None:
                self._read_broker(machine.node_id, machine.alive.broker, changed)
        for name in changed:
            if name in self.partitions:
                self._check_partition(self.partitions[name])

    def _take_image(self, image: MetadataImage, changed: dict[TopicPartition, None]) -> None:
        self.image = image
        for broker_id, epoch in list(self._weakened.items()):
            if broker_id in image.brokers and image.brokers[broker_id].epoch != epoch:
                del self._weakened[broker_id]
        self._forget_deleted(image)
        for topic in image.topics:
            if self._topics.get(topic.topic_id) is topic:
                continue
            self._topics[topic.topic_id] = topic
            for index, after in topic.partitions.items():
                name = TopicPartition(topic.name, index)
                partition = self.partitions.get(name)
                if partition is None or partition.topic_id != topic.topic_id:
                    partition = self.partitions[name] = Partition(name, topic.topic_id)
                if after != partition.image:
                    self._take_partition_image(partition, after)
                    changed[name] = None

    def _forget_deleted(self, image: MetadataImage) -> None:
        existing = {topic.topic_id for topic in image.topics}
        for topic_id in [each for each in self._topics if each not in existing]:
            del self._topics[topic_id]
            for name in [name for name, each in self.partitions.items() if each.topic_id == topic_id]:
                del self.partitions[name]

    def _take_partition_image(self, partition: Partition, after: PartitionImage) -> None:
        before, name = partition.image, partition.name
        assert after.leader == NO_LEADER or after.leader in after.isr, (
            f"{name}: the leader is not in the ISR: {after}"
        )
        assert set(after.isr) <= set(after.replicas), (
            f"{name}: the ISR is not a part of the replicas: {after}"
        )
        assert not set(after.isr) & set(after.elr), f"{name}: a broker is in ISR and ELR: {after}"
        assert after.isr or after.elr or after.last_known_elr, f"{name}: no broker can ever lead it: {after}"
        if before is not None:
            self.isr_changes += before.isr != after.isr
            assert after.leader_epoch >= before.leader_epoch, (
                f"{name}: the leader epoch went back: {before}, {after}"
            )
            assert after.partition_epoch > before.partition_epoch, f"{name}: equal epochs: {before}, {after}"
            if after.leader != before.leader and after.leader != NO_LEADER:
                assert after.leader_epoch > before.leader_epoch, (
                    f"{name}: a new leader without a new epoch: {after}"
                )
        partition.image = after

    def _read_broker(self, node_id: int, broker: BrokerRole, changed: dict[TopicPartition, None]) -> None:
        for log in broker.replicas.logs.logs.values():
            progress = (log.log_end_offset, log.local.truncations, log.high_watermark, log.log_start_offset)
            if self._progress.get(log) == progress:
                continue
            partition = self._partition_of(log)
            if partition is None:
                continue
            replica = partition.replicas.get(node_id)
            if log.directory.error is not None:
                if replica is not None and replica.log is log:
                    self._read_failed(partition, self._machines[node_id], replica)
                    self._progress[log] = progress
                continue
            if replica is None or replica.log is not log or replica.progress != progress:
                end = 0 if replica is None or replica.log is not log else replica.batches.end
                self._read_replica(partition, node_id, log, progress)
                changed[partition.name] = None
                if end:
                    self._check_appended(partition, node_id, end)
            self._progress[log] = progress
        for leader in broker.replicas:
            if self._states.get(leader) is not leader.state:
                self._states[leader] = leader.state
                changed[TopicPartition(leader.topic, leader.partition)] = None

    def _partition_of(self, log: PartitionLog) -> Partition | None:
        """The partition of a log. None for metadata, and for a log whose topic is deleted or not known yet."""
        if log.topic == CLUSTER_METADATA_TOPIC:
            return None
        partition = self.partitions.get(TopicPartition(log.topic, log.partition))
        return partition if partition is not None and log.topic_id == partition.topic_id else None

    # Replicas.

    def _read_replica(
        self, partition: Partition, node_id: int, log: PartitionLog, progress: Progress
    ) -> None:
        replica = partition.replicas.get(node_id)
        same = replica is not None and replica.log is log and replica.progress is not None
        if replica is None or not same or replica.progress[1] != progress[1]:  # type: ignore[index]
            found = read_log(log, is_compacted=log.topic in self._compacted)
            replica = partition.replicas[node_id] = Replica(found, log)
            news = replica.batches.batches
        else:
            end = replica.batches.end
            read_more(log, replica.batches, is_compacted=log.topic in self._compacted)
            news = replica.batches.between(end, replica.batches.end)
        replica.progress = progress
        self._check_bounds(partition, node_id, log)
        self._check_epochs(partition, node_id, replica, news)
        if partition.name.topic not in self._compacted:
            self._check_matching(partition, node_id, replica, news)

    def _read_failed(self, partition: Partition, machine: SimNode, replica: Replica) -> None:
        """Reads a replica in a failed directory from its files. The replica may have appended a batch just before the
        failure, in the same iteration of the event loop. The leader may still learn of this append.
        """
        replica.batches = read_disk(machine.disk, directory_of(machine, partition.name), partition.name)

    def _check_bounds(self, partition: Partition, node_id: int, log: PartitionLog) -> None:
        offsets = (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset)
        assert list(offsets) == sorted(offsets), (
            f"{partition.name} on {node_id}: start, last stable offset, high watermark, end: {offsets}"
        )
        for producer_id, first in partition.replicas[node_id].batches.open.items():
            assert log.last_stable_offset <= max(first, log.log_start_offset), (
                f"{partition.name} on {node_id}: the last stable offset is {log.last_stable_offset}, but the "
                f"transaction of producer {producer_id} from {first} on is open"
            )

    def _check_epochs(
        self, partition: Partition, node_id: int, replica: Replica, news: list[ReplicaBatch]
    ) -> None:
        log = replica.log
        assert log is not None
        entries = log.leader_epochs.entries
        if entries is not replica.epochs:
            replica.epochs = entries  # type: ignore[assignment]
            for (epoch, start), (later, later_start) in itertools.pairwise(entries):
                assert epoch < later and start < later_start, (
                    f"{partition.name} on {node_id}: the leader epoch cache is not in order: {entries}"
                )
        first_known = log.log_start_offset
        if partition.name.topic in self._retained:
            # After a loss of power, segments that retention had removed may be back, without their entries in the
            # leader epoch cache. All their records are committed, so no other log can differ from them.
            first_known = entries[0][1] if entries else log.log_end_offset
        for batch in news:
            if batch.base_offset < first_known:
                continue
            known = log.leader_epochs.epoch_for_offset(batch.base_offset)  # type: ignore[arg-type]
            assert known == batch.leader_epoch, (
                f"{partition.name} on {node_id}: {batch}, but the leader epoch cache is {entries}"
            )

    def _check_appended(self, partition: Partition, node_id: int, end: int) -> None:
        """Checks that the broker knows the leader epochs of the batches that were appended from `end` on."""
        known = self._known_epoch(self._machines[node_id], partition)
        batches = partition.replicas[node_id].batches
        for batch in batches.between(end, batches.end):
            assert known is None or batch.leader_epoch <= known, (
                f"{partition.name} on {node_id}: {batch} was appended, but {known} is the newest known epoch"
            )

    def _check_matching(
        self, partition: Partition, node_id: int, replica: Replica, news: list[ReplicaBatch]
    ) -> None:
        start = partition.log_start if partition.name.topic in self._retained else 0
        for batch in news:
            before = replica.batches.before(batch.base_offset)
            if batch.base_offset <= start:
                # The leader has deleted its records before this batch, so it cannot find out that a follower has other
                # records there. The follower deletes these records when it learns the log start offset of the leader.
                before = None
            key = (batch.leader_epoch, batch.base_offset)
            known, known_before = partition.matching.setdefault(key, (batch, before))
            assert known == batch, f"{partition.name} on {node_id}: {batch}, another replica has {known}"
            if known_before is None:
                partition.matching[key] = (batch, before)
            assert before is None or known_before in (None, before), (
                f"{partition.name} on {node_id}: {batch} follows {before}, on another replica {known_before}"
            )

    # Partitions.

    def _check_partition(self, partition: Partition) -> None:
        image = partition.image
        assert image is not None
        is_unclean = partition.name.topic in self._unclean
        if is_unclean:
            self._notice_loss(partition, image)
        for node_id, leader in self._leaders(partition):
            self._check_term(partition, node_id, leader)
            # After an unclean election, the former leader may still commit records. These records are lost.
            if not is_unclean or leader.leader_epoch == image.leader_epoch:
                self._check_commits(partition, node_id, leader)
        for node_id, leader in self._leaders(partition):
            if node_id == image.leader and leader.leader_epoch == image.leader_epoch:
                self._check_true_leader(partition, image, node_id, leader)
        if partition.name.topic in self._unclean:
            return  # the members of the ISR after an unclean election may lack committed records
        for node_id in (*image.isr, *image.elr):
            if node_id not in self._weakened:
                self._check_complete(partition, node_id)
        for node_id, replica in partition.replicas.items():
            if replica.log is not None and replica.log.directory.error is None:
                self._take_unseen_commits(partition, image, replica.log.high_watermark)
                assert replica.log.high_watermark <= partition.end, (
                    f"{partition.name}: the high watermark on {node_id} is {replica.log.high_watermark}, "
                    f"only records before {partition.end} are committed"
                )

    def _take_unseen_commits(self, partition: Partition, image: PartitionImage, high_watermark: int) -> None:
        """Adds records that a leader committed although the watch never saw its high watermark.

        The leader moved its high watermark and ended in the same iteration of the event loop, but its followers got
        the high watermark. Or the leader was the only member of its ISR, and learned in the same iteration that the
        controller has fenced it: it is then in the ELR, and the ISR is empty. Such records are committed if every
        member of the ISR (or of the ELR, if the ISR is empty) has them, and if the last leader knows this high
        watermark or has died meanwhile.
        """
        if high_watermark <= partition.end or not partition.leaders:
            return
        leader = partition.replicas.get(partition.leaders[max(partition.leaders)])
        if leader is not None and leader.log is not None and leader.log.high_watermark < high_watermark:
            return
        members = image.isr or image.elr
        replicas = [partition.replicas.get(member) for member in members]
        holder = replicas[0] if replicas else None
        if holder is None:
            return
        last = holder.batches.before(high_watermark)
        if all(each is not None and self._has(partition, each, high_watermark, last) for each in replicas):
            for batch in holder.batches.between(partition.end, high_watermark):
                self._commit(partition, members[0], batch)
            if partition.name.topic in self._compacted:
                # No batch ends at the high watermark if compaction has removed the batches before it.
                partition.committed.end = max(partition.end, high_watermark)

    def _take_latest(self, partition: Partition, node_id: int, batch: ReplicaBatch) -> None:
        """Reads the keys of a committed batch. A transaction may be aborted later, so its keys are not compared."""
        machine = self._machines[node_id]
        directory = directory_of(machine, partition.name)
        records = stored_records(machine.disk, directory, partition.name, batch.base_offset)
        for record in records or ():
            key = bytes(record.key or b"")
            if batch.is_transactional:
                partition.latest[key] = None
            elif key not in partition.latest or partition.latest[key] is not None:
                partition.latest[key] = record.offset, record.value

    def _leaders(self, partition: Partition) -> Iterator[tuple[int, LeaderPartition]]:
        for machine in self._machines.values():
            node = machine.alive
            if node is None or node.broker is None:
                continue
            leader = node.broker.replicas.find(*partition.name)
            if leader is not None and leader.is_leader and leader.log.topic_id == partition.topic_id:
                yield machine.node_id, leader

    def _check_term(self, partition: Partition, node_id: int, leader: LeaderPartition) -> None:
        """Checks that a leader epoch has one leader, whose high watermark never goes back."""
        epoch, high_watermark = leader.leader_epoch, leader.log.high_watermark
        known = partition.leaders.setdefault(epoch, node_id)
        assert known == node_id, f"{partition.name}: the leaders {known} and {node_id} in epoch {epoch}"
        before = partition.high_watermarks.get(epoch, -1)
        assert high_watermark >= before, (
            f"{partition.name} on {node_id}: the high watermark went back from {before} to {high_watermark}"
        )
        partition.high_watermarks[epoch] = high_watermark

    def _check_commits(self, partition: Partition, node_id: int, leader: LeaderPartition) -> None:
        """Compares the log of a leader with the committed records, and adds the new committed records."""
        high_watermark = leader.log.high_watermark
        replica = partition.replicas.get(node_id)
        if replica is None or leader.log.directory.error is not None:
            return
        if partition.losses and high_watermark < partition.end:
            return
        shared = min(high_watermark, partition.end)
        ours, theirs = replica.batches.before(shared), partition.committed.before(shared)
        is_equal = ours == theirs or partition.name.topic in self._compacted
        assert is_equal or ours is None or theirs is None, (
            f"{partition.name} on leader {node_id}: {ours} is below the high watermark, committed was {theirs}"
        )
        for batch in replica.batches.between(partition.end, high_watermark):
            self._commit(partition, node_id, batch)

    def _commit(self, partition: Partition, node_id: int, batch: ReplicaBatch) -> None:
        topic = partition.name.topic
        is_next = batch.base_offset == partition.end or not partition.committed.batches
        assert is_next or topic in self._compacted, (
            f"{partition.name} on {node_id}: {batch} follows an end of {partition.end}"
        )
        self.committed_batches += 1
        partition.committed.append(batch)
        partition.by_base[batch.base_offset] = batch
        if topic in self._compacted:
            self._take_latest(partition, node_id, batch)
        if batch.producer_id < 0 or batch.is_control or batch.base_sequence < 0:
            return
        if topic == GROUP_METADATA_TOPIC:
            return  # a group coordinator writes each batch of a transaction with sequence 0, as in Kafka
        producer = (batch.producer_id, batch.producer_epoch)
        last = partition.sequences.get(producer)
        expected = 0 if last is None else advance_sequence(last, 1)
        assert batch.base_sequence == expected or partition.losses, (
            f"{partition.name} on {node_id}: {batch} of producer {producer} has sequence {batch.base_sequence}, "
            f"expected {expected}"
        )
        partition.sequences[producer] = batch.last_sequence

    def _check_true_leader(
        self, partition: Partition, image: PartitionImage, node_id: int, leader: LeaderPartition
    ) -> None:
        """Checks the broker that is the leader both in its own metadata and in the controller's."""
        replica = partition.replicas.get(node_id)
        if replica is None or leader.log.directory.error is not None:
            return
        maximal = leader.state.maximal_isr
        assert set(maximal) >= set(image.isr), (
            f"{partition.name}: the leader {node_id} counts on {maximal}, the controller on {image}"
        )
        high_watermark = leader.log.high_watermark
        last = replica.batches.before(high_watermark)
        self._check_fetches(partition, leader)
        is_behind = leader.state.partition_epoch < image.partition_epoch
        for member in maximal:
            # The controller removes a broker that has lost power from the ISR, and the leader learns this a moment
            # later.
            if member in self._weakened or (is_behind and member not in image.isr):
                continue
            other = partition.replicas.get(member)
            assert other is not None or not high_watermark, f"{partition.name}: {member} has no log"
            assert other is None or self._has(partition, other, high_watermark, last), (
                f"{partition.name}: the high watermark of leader {node_id} is {high_watermark} after {last}; "
                f"{member}, a member of its ISR {maximal}, has {text_of_end(other.batches, high_watermark)}"
            )

    def _check_fetches(self, partition: Partition, leader: LeaderPartition) -> None:
        """Checks that the leader counts no fetch of a follower that does not know the current leader epoch yet."""
        epoch = leader.leader_epoch
        for replica, follower in leader.followers.items():
            place = (partition.topic_id, partition.name.partition, epoch, replica)
            before = self._fetched.get(place)
            self._fetched[place] = follower.log_end_offset
            if before is None or before == follower.log_end_offset:
                continue
            known = self._known_epoch(self._machines[replica], partition)
            assert known is None or known >= epoch, (
                f"{partition.name}: the leader in epoch {epoch} counts a fetch of {replica}, which knows epoch {known}"
            )

    def _known_epoch(self, machine: SimNode, partition: Partition) -> int | None:
        """The newest leader epoch that a broker knows. None if it hosts no replica at the moment."""
        if machine.alive is None or machine.alive.broker is None:
            return None
        try:
            return machine.alive.broker.replicas.hosted(*partition.name).leader_epoch
        except KafkaError:
            return None

    def _notice_loss(self, partition: Partition, image: PartitionImage) -> None:
        """Drops the committed records that a leader lacks after an unclean election."""
        for node_id, leader in self._leaders(partition):
            replica = partition.replicas.get(node_id)
            if (
                node_id == image.leader
                and leader.leader_epoch == image.leader_epoch
                and replica is not None
                and leader.log.directory.error is None
                and not has_all_before(replica.batches, partition.end, partition.last)
            ):
                self._lose(partition, replica)

    def _lose(self, partition: Partition, replica: Replica) -> None:
        """Drops the committed records that an unclean leader does not have."""
        partition.losses += 1
        partition.committed = ReplicaLog(partition.committed.start)
        partition.by_base.clear()
        partition.sequences.clear()
        partition.latest.clear()
        for batch in replica.batches.batches:
            if replica.log is not None and batch.next_offset <= replica.log.high_watermark:
                self._commit(partition, replica.log.partition, batch)

    def _check_complete(self, partition: Partition, node_id: int) -> None:
        replica = partition.replicas.get(node_id)
        assert replica is not None or not partition.end, (
            f"{partition.name}: {node_id} has no log, {partition.end} records are committed: {partition.image}"
        )
        assert replica is None or self._has(partition, replica, partition.end, partition.last), (
            f"{partition.name}: {node_id} lacks committed records, it has "
            f"{text_of_end(replica.batches, partition.end)} and not {partition.last}: {partition.image}"
        )

    def _has(self, partition: Partition, replica: Replica, end: int, last: ReplicaBatch | None) -> bool:
        """Whether a replica has all records before `end`. Compaction may have removed the last batch before `end`.

        If the leader has deleted all records before `end`, it cannot find out that a follower has other records there.
        The follower deletes these records when it learns the log start offset of the leader.
        """
        topic = partition.name.topic
        is_removed = topic in self._compacted or (topic in self._retained and end <= partition.log_start)
        return has_all_before(replica.batches, end, None if is_removed else last)

    # Events.

    def died(self, machine: SimNode, *, lost_power: bool = False, is_durable: bool = True) -> None:
        """Reads the replicas of a dead node from the disk of the node. Call `check` before the node dies.

        If `is_durable` is False, a loss of power may have removed acknowledged records.
        """
        self._alive.pop(machine.node_id, None)
        if lost_power and not is_durable and machine.node_id in self.image.brokers:
            self._weakened[machine.node_id] = self.image.brokers[machine.node_id].epoch
        for partition in self.partitions.values():
            replica = partition.replicas.get(machine.node_id)
            if replica is None:
                continue
            failed = replica.log is not None and replica.log.directory.error is not None
            replica.log = replica.progress = None
            found = read_disk(machine.disk, directory_of(machine, partition.name), partition.name)
            is_equal = found.batches[-1:] == replica.batches.batches[-1:]
            if partition.name.topic in self._retained | self._compacted and not found.batches:
                is_equal = True  # all segments but an empty one were deleted
            if partition.name.topic in self._retained and not replica.batches.batches:
                is_equal = (
                    found.end == replica.batches.end
                )  # the log was shorter, and its files were not yet deleted
            if partition.name.topic in self._compacted:
                is_equal = found.end == replica.batches.end
            assert lost_power or failed or is_equal, (
                f"{partition.name} on {machine.name}: the disk ends with {found.batches[-1:]}, the log ended with "
                f"{replica.batches.batches[-1:]}"
            )
            replica.batches = found

    def lost_records(self) -> None:
        """Notices that any record that was not flushed may be gone, because the only broker has lost power. Call it
        after `died`."""
        self.losses += 1
        for partition in self.partitions.values():
            partition.losses += 1
            partition.committed = ReplicaLog()
            partition.by_base.clear()
            partition.sequences.clear()
            partition.latest.clear()

    # Reports of clients.

    def producer_id_given(self, producer_id: int) -> None:
        assert producer_id not in self._producer_ids, f"producer id {producer_id} was given twice"
        self._producer_ids.add(producer_id)

    def acknowledged(
        self, name: TopicPartition, base_offset: int, crc: int, contents: Sequence[Content] = ()
    ) -> None:
        """Checks the answer to a producer with acks=all. The broker may have compressed the batch again, or changed its
        timestamps (`rewrites`). Then the batch has another checksum, but the same contents."""
        partition = self.partitions[name]
        if name.topic in self._unclean:
            return
        batch = partition.by_base.get(base_offset)
        assert batch is not None, (
            f"{name}: {base_offset} is acknowledged, but {partition.end} is the committed end"
        )
        assert batch.crc == crc or (
            self._rewrites(name.topic) and self.files.has_contents(name, batch, contents)
        ), f"{name}: the acknowledged batch at {base_offset} is not the committed {batch}"

    def read(self, name: TopicPartition, header: BatchHeader) -> None:
        """Checks a batch that a consumer has read."""
        partition = self.partitions[name]
        batch = partition.by_base.get(header.base_offset)
        if name.topic in self._unclean:
            return
        if name.topic in self._compacted:
            assert batch is not None and batch.next_offset == header.next_offset, (
                f"{name}: a consumer read {header}, committed was {batch}"
            )
            return
        assert batch is not None, (
            f"{name}: a consumer read {header.base_offset}, but {partition.end} is the committed end"
        )
        assert batch == ReplicaBatch.of(header), f"{name}: a consumer read {header}, committed is {batch}"

    # At the end.

    def is_settled(self, topic: str | None = None) -> bool:
        """Whether every partition has a leader, all replicas are in sync and equal, and no transaction is open. If
        `topic` is given, only the partitions of this topic count."""
        return all(
            self._is_settled(partition)
            for name, partition in self.partitions.items()
            if topic in (None, name.topic)
        )

    def life_of(self, node_id: int) -> int:
        """The life of a broker. 0 for a broker that does not exist, such as NO_LEADER."""
        machine = self._machines.get(node_id)
        return 0 if machine is None else machine.life

    def is_led_by(self, partition: Partition, node_id: int) -> bool:
        """Whether a broker is the leader of a partition, in its own metadata and in the newest metadata."""
        image = partition.image
        return (
            image is not None
            and image.leader == node_id
            and self._known_epoch(self._machines[node_id], partition) == image.leader_epoch
        )

    def is_in_sync(self) -> bool:
        """Whether every partition has a leader, and all its replicas are in the ISR and have all their records."""
        if self._weakened:
            return False
        return all(is_in_sync(partition.image) for partition in self.partitions.values())

    def unsettled(self) -> str:
        """Describes the partitions for which `is_settled` is not true."""
        lines = []
        for partition in self.partitions.values():
            if not self._is_settled(partition):
                ends = {
                    node_id: (
                        each.batches.end,
                        each.log and each.log.high_watermark,
                        each.log and each.log.last_stable_offset,
                    )
                    for node_id, each in partition.replicas.items()
                }
                lines.append(
                    f"{partition.name}: {partition.image}; end, high watermark, stable offset: {ends}"
                )
        return "\n".join(lines)

    def _is_settled(self, partition: Partition) -> bool:
        image = partition.image
        if image is None or not is_in_sync(image):
            return False
        logs = [self._live_log(partition, node_id) for node_id in image.replicas]
        return all(
            log is not None
            and log.high_watermark == log.log_end_offset == partition.end
            # A coordinator that has lost its records does not know all open transactions.
            and (log.last_stable_offset == log.high_watermark or self.losses)
            for log in logs
        )

    def _live_log(self, partition: Partition, node_id: int) -> PartitionLog | None:
        replica = partition.replicas.get(node_id)
        return None if replica is None else replica.log

    def log_start(self, topic: str) -> int:
        """The largest log start offset of the partitions of a topic."""
        partitions = [each for name, each in self.partitions.items() if name.topic == topic]
        return max((partition.log_start for partition in partitions), default=0)
