"""Sets of partitions by topic id, which are never changed in place, because several objects share them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping

Assignment = Mapping[uuid.UUID, frozenset[int]]

NOTHING: Assignment = {}


def assignment(partitions: Iterable[tuple[uuid.UUID, Iterable[int]]]) -> Assignment:
    """Makes an assignment. Topics without partitions are left out. If a topic occurs twice, its partitions are
    combined."""
    by_topic: dict[uuid.UUID, frozenset[int]] = {}
    for topic_id, numbers in partitions:
        merged = by_topic.get(topic_id, frozenset()).union(numbers)
        if merged:
            by_topic[topic_id] = merged
    return by_topic


def disjoint(assignments: Iterable[Assignment]) -> Iterator[Assignment]:
    """Yields each assignment without the partitions that an earlier assignment has."""
    taken: dict[uuid.UUID, set[int]] = {}
    for assigned in assignments:
        yield assignment(
            (topic_id, partitions - taken.get(topic_id, set())) for topic_id, partitions in assigned.items()
        )
        for topic_id, partitions in assigned.items():
            taken.setdefault(topic_id, set()).update(partitions)


def is_subset(part: Assignment, whole: Assignment) -> bool:
    return all(partitions <= whole.get(topic_id, frozenset()) for topic_id, partitions in part.items())


def overlaps(one: Assignment, other: Assignment) -> bool:
    return any(
        not partitions.isdisjoint(other.get(topic_id, frozenset())) for topic_id, partitions in one.items()
    )


def size(of: Assignment) -> int:
    return sum(map(len, of.values()))
