"""The throttled replicas of a topic: `*` for all replicas, or a list of pairs `partition:broker` (KIP-73).

The values of leader.replication.throttled.replicas and follower.replication.throttled.replicas are such lists. A broker
uses only the pairs with its own id. It uses the first list for partitions that it leads, and the second list for
partitions that it follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcli.model.ids import BrokerId
from kcli.model.java_text import parse_int, trim

ALL_REPLICAS = "*"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """The partitions of one topic whose replicas on one broker are throttled."""

    is_all: bool = False
    partitions: frozenset[int] = frozenset()

    def __contains__(self, partition: int) -> bool:
        return self.is_all or partition in self.partitions


def throttled_replicas(entries: Iterable[str], broker: BrokerId) -> ThrottledReplicas:
    """The throttled replicas on `broker`, from the entries of a valid list."""
    partitions = set()
    for entry in entries:
        text = trim(entry)
        if text == ALL_REPLICAS:
            return ThrottledReplicas(is_all=True)
        partition, _, replica = text.partition(":")
        if partition and parse_int(replica) == broker:
            partitions.add(parse_int(partition))
    return ThrottledReplicas(partitions=frozenset(partitions))
