"""The in-sync replicas of a partition (ISR), and the changes that its leader proposes.

The metadata contains the committed ISR. The leader proposes a change to the controller with AlterPartition (KIP-497),
and at most one change is in flight. The maximal ISR is the set of replicas that may be in the ISR of the controller
while a change is in flight. A joining replica belongs to the maximal ISR immediately. A leaving replica belongs to the
maximal ISR until the change is committed. If every replica of the maximal ISR has a record, every replica that the
controller could elect has this record.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from kcli.errors import ErrorCode
from kcli.model.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Isr:
    """The committed in-sync replicas of a partition.

    `members` are the brokers of the in-sync replicas, from the metadata. `required` is the smallest size of the ISR
    with which the leader accepts records with acks=all and moves the high watermark.
    """

    members: tuple[BrokerId, ...]
    required: int

    @property
    def is_sufficient(self) -> bool:
        return len(self.members) >= self.required


@dataclass(frozen=True, slots=True, eq=False)
class IsrChange:
    """A change in flight: the proposed ISR, and the maximal ISR while the change is in flight.

    Two changes are never equal, because an answer to an older change must not end a newer change with the same members.
    """

    members: tuple[BrokerId, ...]
    maximal: tuple[BrokerId, ...]

    @property
    def expands(self) -> bool:
        return len(self.members) == len(self.maximal)


def expansion(isr: Isr, replica: BrokerId) -> IsrChange:
    """The change that adds a replica to the ISR. From now on, the high watermark waits for the replica."""
    members = (*isr.members, replica)
    return IsrChange(members, maximal=members)


def reduction(isr: Isr, leaving: tuple[BrokerId, ...]) -> IsrChange:
    """The change that removes replicas from the ISR. The high watermark waits for these replicas until the change is
    committed."""
    return IsrChange(tuple(member for member in isr.members if member not in leaving), maximal=isr.members)


class Reaction(Enum):
    """The reaction of the leader to the controller's refusal of a change."""

    GIVE_UP = auto()
    """The change is dropped, and from now on only the committed ISR counts. The next fetch or check may propose another
    change."""
    AWAIT_METADATA = auto()
    """The change stays in flight until the metadata has a newer state of the partition."""
    SEND_AGAIN = auto()


_GIVEN_UP = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
_OUTDATED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Errors after which the leader must wait for metadata, because the controller has a newer state of the partition, or
may have one."""


def reaction_to(error: ErrorCode) -> Reaction:
    if error in _GIVEN_UP:
        return Reaction.GIVE_UP
    return Reaction.AWAIT_METADATA if error in _OUTDATED else Reaction.SEND_AGAIN


def effective_min_isr(min_insync_replicas: int, *, replicas: int) -> int:
    """min.insync.replicas, but at most the number of the partition's replicas (KIP-966)."""
    return min(min_insync_replicas, replicas)
