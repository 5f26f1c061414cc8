"""Which partitions somebody has: by topic id. Values are shared and never changed in place."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

Assignment = Mapping[uuid.UUID, frozenset[int]]

NOTHING: Assignment = {}


def assignment(partitions: Iterable[tuple[uuid.UUID, Iterable[int]]]) -> Assignment:
    """Leaves out topics without partitions; a topic that is named twice has both."""
    found: dict[uuid.UUID, frozenset[int]] = {}
    for topic_id, numbers in partitions:
        merged = found.get(topic_id, frozenset()).union(numbers)
        if merged:
            found[topic_id] = merged
    return found


def is_subset(part: Assignment, whole: Assignment) -> bool:
    return all(partitions <= whole.get(topic_id, frozenset()) for topic_id, partitions in part.items())


def overlaps(one: Assignment, other: Assignment) -> bool:
    return any(
        not partitions.isdisjoint(other.get(topic_id, frozenset())) for topic_id, partitions in one.items()
    )


def size(of: Assignment) -> int:
    return sum(map(len, of.values()))
