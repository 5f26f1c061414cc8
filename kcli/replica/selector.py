"""The replica from which a consumer should read: the leader, or a follower in the rack of the consumer (KIP-392)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kcli.model.ids import BrokerId, Offset


@dataclass(frozen=True, slots=True)
class Candidate:
    """A follower from which the consumer may read. `caught_up_ms` is the last time at which the follower had all
    records."""

    broker: BrokerId
    rack: str | None
    log_end_offset: Offset
    caught_up_ms: int


Selector = Callable[[str, str | None, Iterable[Candidate]], BrokerId | None]
"""A function that chooses the replica for a consumer. Its arguments are the rack of the consumer, the rack of the
leader, and the followers that the consumer can use. It returns a follower, or None if the consumer should read from the
leader."""


def leader_only(_rack: str, _leader_rack: str | None, _candidates: Iterable[Candidate]) -> BrokerId | None:
    return None


def rack_aware(rack: str, leader_rack: str | None, candidates: Iterable[Candidate]) -> BrokerId | None:
    """Chooses the follower in the consumer's rack that has the most records. If the leader is in the consumer's rack,
    or if no follower is in this rack, the consumer reads from the leader."""
    if not rack or rack == leader_rack:
        return None
    near = [candidate for candidate in candidates if candidate.rack == rack]
    if not near:
        return None
    return max(
        near, key=lambda replica: (replica.log_end_offset, replica.caught_up_ms, replica.broker)
    ).broker


_PACKAGE = "org.apache.kafka.common.replica."

SELECTORS: dict[str, Selector] = {
    _PACKAGE + "LeaderSelector": leader_only,
    _PACKAGE + "RackAwareReplicaSelector": rack_aware,
}
"""The selectors by the names of their Java classes, which are the values of replica.selector.class."""
