"""Indexes the partitions of an image, for example by the brokers in their ISR.

When a broker starts or stops, the controller looks only at the partitions that may change, not at every partition of
the cluster. The active controller updates its index with each delta.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage, PartitionImage, is_real_directory
from kcli.model.ids import FIRST_LEADER_EPOCH, NO_LEADER, BrokerId

K = TypeVar("K", bound=Hashable)

PartitionKey = tuple[uuid.UUID, int]
"""The topic id and the number of a partition."""

Keys = dict[PartitionKey, None]
"""A set of partitions, in the order in which they were added."""

_NOWHERE = PartitionImage((), (), NO_LEADER, FIRST_LEADER_EPOCH, 0)
"""Stands for a partition before its creation and after its deletion."""


class PartitionIndex:
    """Finds partitions by the brokers in their ISR or ELR, and by their directories, leader and reassignment."""

    def __init__(self, image: MetadataImage) -> None:
        self.leaderless: Keys = {}
        self.not_preferred: Keys = {}
        """The partitions whose leader is not their first replica."""
        self.reassigning: Keys = {}
        self._in_isr: dict[BrokerId, Keys] = {}
        self._in_elr: dict[BrokerId, Keys] = {}
        self._in_directory: dict[uuid.UUID, Keys] = {}
        self._leaderships: Counter[BrokerId] = Counter()
        for topic in image.topics.by_id.values():
            for number, partition in topic.partitions.items():
                self._change((topic.topic_id, number), None, partition)

    def update(self, delta: MetadataDelta) -> None:
        for diff in delta.partitions_changed():
            self._change((diff.topic_id, diff.partition), diff.before, diff.after)

    def in_isr(self, broker_id: BrokerId) -> Sequence[PartitionKey]:
        return tuple(self._in_isr.get(broker_id, ()))

    def in_elr(self, broker_id: BrokerId) -> Sequence[PartitionKey]:
        return tuple(self._in_elr.get(broker_id, ()))

    def in_directory(self, directory: uuid.UUID) -> Sequence[PartitionKey]:
        """The partitions with a replica in this directory of a broker."""
        return tuple(self._in_directory.get(directory, ()))

    def leads(self, broker_id: BrokerId) -> bool:
        return self._leaderships[broker_id] > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionIndex) and self._tables == other._tables

    __hash__ = None  # type: ignore[assignment]  # not hashable, because it changes

    @property
    def _tables(self) -> tuple[object, ...]:
        return (
            self.leaderless,
            self.not_preferred,
            self.reassigning,
            self._in_isr,
            self._in_elr,
            self._in_directory,
            self._leaderships,
        )

    def _change(self, key: PartitionKey, before: PartitionImage | None, after: PartitionImage | None) -> None:
        old, new = before or _NOWHERE, after or _NOWHERE
        if old.isr != new.isr:
            _move(self._in_isr, key, old.isr, new.isr)
        if old.elr != new.elr:
            _move(self._in_elr, key, old.elr, new.elr)
        if old.directories != new.directories:
            _move(
                self._in_directory,
                key,
                filter(is_real_directory, old.directories),
                filter(is_real_directory, new.directories),
            )
        if old.leader != new.leader:
            self._leaderships[old.leader] -= 1
            self._leaderships[new.leader] += 1
        _mark(self.leaderless, key, after is not None and new.leader == NO_LEADER)
        _mark(self.not_preferred, key, after is not None and new.leader != new.replicas[0])
        _mark(self.reassigning, key, bool(new.adding or new.removing))


def _move(index: dict[K, Keys], key: PartitionKey, old: Iterable[K], new: Iterable[K]) -> None:
    for entry in old:
        keys = index[entry]
        del keys[key]
        if not keys:
            del index[entry]
    for entry in new:
        index.setdefault(entry, {})[key] = None


def _mark(keys: Keys, key: PartitionKey, is_member: bool) -> None:
    if is_member:
        keys[key] = None
    else:
        keys.pop(key, None)
