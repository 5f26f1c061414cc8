"""The offsets of a sink task: what it has taken, and what may be committed (WorkerSinkTask in Java)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kcli.model.topic_partition import TopicPartition

LOG = logging.getLogger("org.apache.kafka.connect.runtime.WorkerSinkTask")

Offsets = dict[TopicPartition, int]
"""By partition, the offset of the next record to read."""


@dataclass(slots=True)
class SinkOffsets:
    """`current` are the offsets after the records that `put` has taken, `committed` those of the last commit."""

    current: Offsets = field(default_factory=dict)
    committed: Offsets = field(default_factory=dict)

    def assigned(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.current |= offsets
        self.committed |= offsets

    def removed(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self.current.pop(partition, None)
            self.committed.pop(partition, None)

    def of(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {partition: self.current[partition] for partition in partitions if partition in self.current}

    def committable(
        self, name: str, offered: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]
    ) -> Offsets:
        """Returns the offsets to commit for `partitions`, from those that the task offers.

        An offset of a partition that the task does not have, or after the records that it was given, is ignored. The
        result is empty if nothing has changed since the last commit.
        """
        last = {
            partition: self.committed[partition] for partition in partitions if partition in self.committed
        }
        chosen = dict(last)
        for partition, offset in offered.items():
            if partition not in chosen:
                if partition not in self.current:
                    LOG.warning(
                        "%s Ignoring invalid task provided offset %s/%s -- partition not assigned, assignment=%s",
                        name, partition, offset, sorted(map(str, self.current)),
                    )  # fmt: skip
            elif offset > self.current[partition]:
                LOG.warning(
                    "%s Ignoring invalid task provided offset %s/%s -- not yet consumed, "
                    "taskOffset=%s currentOffset=%s",
                    name, partition, offset, offset, self.current[partition],
                )  # fmt: skip
            else:
                chosen[partition] = offset
        if chosen == last:
            return {}
        # librdkafka may have chosen the position of a partition, so that no offset is known before its first record.
        return {partition: offset for partition, offset in chosen.items() if offset >= 0}
