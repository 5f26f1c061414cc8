"""The files of all replicas of a cluster, and their comparison with the committed records."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from kcli.model.topic_partition import TopicPartition
from simulation.checks.partition import Partition, directory_of
from simulation.checks.replica_log import Content, ReplicaBatch, latest_values, read_disk, stored_records
from simulation.world.cluster import SimNode


class ReplicaFiles:
    """Reads the disks of all nodes. Call its methods when all replicas are in sync, except `has_contents`."""

    def __init__(
        self,
        machines: Mapping[int, SimNode],
        partitions: Mapping[TopicPartition, Partition],
        *,
        retained: Container[str],
        compacted: Container[str],
    ) -> None:
        """`retained` and `compacted` are the topics from which retention and compaction remove records."""
        self._machines = machines
        self._partitions = partitions
        self._retained = retained
        self._compacted = compacted

    def check_equal(self) -> int:
        """Checks that the files of all replicas have exactly the committed batches. Returns their number."""
        compared = 0
        for partition in self._partitions.values():
            assert partition.image is not None
            if partition.name.topic in self._compacted:
                self.latest_values(partition.name)
                continue
            for node_id in partition.image.replicas:
                machine = self._machines[node_id]
                found = read_disk(machine.disk, directory_of(machine, partition.name), partition.name)
                expected, batches = partition.committed.batches, found.batches
                if partition.name.topic in self._retained:
                    start = max(partition.log_start, found.start)
                    expected = [batch for batch in expected if batch.base_offset >= start]
                    batches = [batch for batch in batches if batch.base_offset >= start]
                assert batches == expected, (
                    f"{partition.name} on {node_id}: the files have {len(found.batches)} batches up to {found.end}, "
                    f"{len(partition.committed.batches)} up to {partition.end} are committed"
                )
                compared += len(found.batches)
        return compared

    def latest_values(self, name: TopicPartition) -> dict[bytes, tuple[int, bytes]]:
        """The offset and value of the last record of each key. Checks that all replicas have the last committed
        records. Compaction may remove a record without a value."""
        partition = self._partitions[name]
        assert partition.image is not None
        expected = {key: last for key, last in partition.latest.items() if last is not None}
        for machine in map(self._machines.__getitem__, partition.image.replicas):
            found = latest_values(machine.disk, directory_of(machine, name), name)
            for key, last in expected.items():
                assert found.get(key) == last or (last[1] is None and key not in found), (
                    f"{name} on {machine.name}: {key!r} was committed last as {last}, it is {found.get(key)}"
                )
        return {key: (offset, value) for key, (offset, value) in expected.items() if value is not None}

    def removed_batches(self, topic: str) -> int:
        """The largest number of committed batches that a replica of a topic does not have any more."""
        removed = 0
        for name in [each for each in self._partitions if each.topic == topic]:
            committed = self._partitions[name].committed.batches
            for node_id in self._partitions[name].replicas:
                machine = self._machines[node_id]
                found = read_disk(machine.disk, directory_of(machine, name), name).batches
                removed = max(removed, len(committed) - len(found))
        return removed

    def has_contents(self, name: TopicPartition, batch: ReplicaBatch, contents: Sequence[Content]) -> bool:
        """Whether the files have a batch with these contents. Compaction may remove any of its records."""
        for node_id in self._partitions[name].replicas:
            machine = self._machines[node_id]
            records = stored_records(machine.disk, directory_of(machine, name), name, batch.base_offset)
            sent = dict(enumerate(contents, batch.base_offset))
            if any(sent.get(record.offset) != (record.key, record.value) for record in records or ()):
                return False
            if name.topic not in self._compacted and records is not None and len(records) != len(sent):
                return False
        return batch.next_offset - batch.base_offset == len(contents)
