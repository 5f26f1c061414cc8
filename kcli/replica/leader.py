"""The state of a partition's leader: how far its records are committed, and whether it may take new ones.

The high watermark is the smallest log end of the in-sync replicas. On one leader it never goes back, and it stands
still while fewer replicas are in sync than min.insync.replicas asks for (KIP-966). A partition with one replica has an
ISR of one: every append is committed at once.

All of it is values. The caller keeps the present `LeaderState`, one `FollowerState` per follower and the high watermark
(in the log), and replaces each of them by what these functions return.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kcli.errors import ErrorCode
from kcli.model.ids import NO_OFFSET, BrokerId, LeaderEpoch, Offset
from kcli.model.request_values import ACKS_ALL
from kcli.replica.isr import Isr, effective_min_isr


@dataclass(frozen=True, slots=True)
class FollowerState:
    """A follower's log as its last fetch described it: it has every record below `log_end_offset`."""

    log_start_offset: Offset = NO_OFFSET
    log_end_offset: Offset = NO_OFFSET


@dataclass(frozen=True, slots=True)
class LeaderState:
    """One term of leadership, as the metadata and the topic's config describe it. A new leader epoch is a new term."""

    node_id: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: Isr

    def with_isr(self, members: tuple[BrokerId, ...]) -> LeaderState:
        return replace(self, isr=Isr(members, self.isr.required))

    def with_min_insync_replicas(self, count: int) -> LeaderState:
        required = effective_min_isr(count, replicas=len(self.replicas))
        return replace(self, isr=Isr(self.isr.members, required))

    def new_followers(self) -> dict[BrokerId, FollowerState]:
        """The followers at the beginning of the term. Their log ends are unknown, which holds the high watermark
        back."""
        return {replica: FollowerState() for replica in self.replicas if replica != self.node_id}

    def accepts(self, acks: int) -> bool:
        """Whether records may be appended. Only acks=all asks for enough in-sync replicas."""
        return acks != ACKS_ALL or self.isr.is_sufficient

    def high_watermark(
        self, current: Offset, log_end_offset: Offset, followers: Mapping[BrokerId, FollowerState]
    ) -> Offset:
        """The new high watermark, from the current one, the end of the leader's own log and its followers."""
        isr = self.isr
        if not isr.is_sufficient:
            return current
        slowest = log_end_offset
        if len(isr.members) > 1:
            for replica, follower in followers.items():
                if follower.log_end_offset < slowest and replica in isr.members:
                    slowest = follower.log_end_offset
        return slowest if slowest > current else current

    def produce_outcome(self, offset: Offset, high_watermark: Offset) -> ErrorCode:
        """The answer to a produce with acks=all that waited until now for everything before `offset`.

        NOT_ENOUGH_REPLICAS_AFTER_APPEND: the records are committed, but replicas have left the ISR since.
        """
        if high_watermark < offset:
            return ErrorCode.REQUEST_TIMED_OUT
        return ErrorCode.NONE if self.isr.is_sufficient else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def begin_term(
    *,
    node_id: BrokerId,
    leader_epoch: LeaderEpoch,
    replicas: tuple[BrokerId, ...],
    isr: tuple[BrokerId, ...],
    min_insync_replicas: int,
) -> LeaderState:
    assert node_id in replicas, f"node {node_id} cannot lead a partition on {replicas}"
    required = effective_min_isr(min_insync_replicas, replicas=len(replicas))
    return LeaderState(node_id, leader_epoch, replicas, Isr(isr, required))
