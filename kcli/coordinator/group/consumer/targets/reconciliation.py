"""One step of a member from its present assignment towards its target (KIP-848).

A partition never has two owners. A member that must give up a partition stays the owner of the partition until a
heartbeat of the member no longer lists it. Until then, the state of this member is UNREVOKED_PARTITIONS. The next owner
of the partition waits in the state UNRELEASED_PARTITIONS. When a member has no more partitions to give up, it moves to
the epoch of its target.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from kcli.coordinator.group.consumer.state.assignment import NOTHING, Assignment, overlaps
from kcli.coordinator.group.consumer.state.member import ConsumerMember, MemberState
from kcli.errors import FencedMemberEpochException

OwnersOf = Callable[[uuid.UUID], Mapping[int, str]]

_NONE: frozenset[int] = frozenset()


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    owned: Assignment | None,
    owners_of: OwnersOf,
) -> ConsumerMember:
    """Moves a member one step towards its target. Returns the changed member, or the same member if nothing changes.

    `owned`: the partitions that the member reports, or None if the request has no such list. `owners_of`: returns,
    for each partition of a topic, the member that owns the partition or has not given it up yet.
    """
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
        case MemberState.UNREVOKED_PARTITIONS:
            # The next owner may get a partition only after this member has reported that it no longer reads the
            # partition.
            if owned is None or overlaps(owned, member.pending_revocation):
                return member
        case MemberState.UNKNOWN:
            member = replace(member, epoch=target_epoch)
        case MemberState.UNRELEASED_PARTITIONS:
            pass
    return _next(member, target_epoch, target, owned, owners_of)


def check_state(member: ConsumerMember, owned: Assignment | None) -> None:
    """Raises FENCED_MEMBER_EPOCH if a newer Kafka wrote a state of the member that this version does not know. But a
    member that reports an empty list of owned partitions is accepted."""
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        raise FencedMemberEpochException(
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin."
        )


def _next(
    member: ConsumerMember,
    target_epoch: int,
    target: Assignment,
    owned: Assignment | None,
    owners_of: OwnersOf,
) -> ConsumerMember:
    retained: dict[uuid.UUID, frozenset[int]] = {}
    revoked: dict[uuid.UUID, frozenset[int]] = {}
    for topic_id, partitions in member.assigned.items():
        targeted = target.get(topic_id, _NONE)
        if partitions & targeted:
            retained[topic_id] = partitions & targeted
        if partitions - targeted:
            revoked[topic_id] = partitions - targeted
    # If the member reports that it reads none of these partitions, they are free without another heartbeat.
    if revoked and (owned is None or overlaps(owned, revoked)):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=retained,
            pending_revocation=revoked,
        )
    assigned, is_waiting = _with_free(member, retained, target, owners_of)
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        pending_revocation=NOTHING,
    )


def _with_free(
    member: ConsumerMember, retained: Assignment, target: Assignment, owners_of: OwnersOf
) -> tuple[Assignment, bool]:
    """Returns an assignment and a flag. The assignment has the retained partitions and the free partitions of the
    target. The flag is True if some partitions of the target are not free yet."""
    assigned = dict(retained)
    is_waiting = False
    for topic_id, targeted in target.items():
        missing = targeted - retained.get(topic_id, _NONE)
        if not missing:
            continue
        owners, own_id = owners_of(topic_id), member.member_id
        free = frozenset([partition for partition in missing if owners.get(partition, own_id) == own_id])
        is_waiting = is_waiting or len(free) < len(missing)
        if free:
            assigned[topic_id] = assigned.get(topic_id, _NONE) | free
    return assigned, is_waiting
