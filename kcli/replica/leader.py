"""The state of a partition's leader. It shows which records are committed, and whether the leader may accept new
records.

The high watermark is the smallest log end offset of the in-sync replicas. It never goes back while the leader stays the
same. It does not move while the ISR is smaller than min.insync.replicas (KIP-966). A partition with one replica has an
ISR of one, so every append is committed at once.

The functions of this module change no state. The caller keeps the present `LeaderState`, one `FollowerState` per
follower and the high watermark (in the log), and replaces each value by the one that a function returns.
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
    """The state of a follower after its last fetch: the follower has every record below `log_end_offset`."""

    log_start_offset: Offset = NO_OFFSET
    log_end_offset: Offset = NO_OFFSET
    caught_up_ms: int = 0


@dataclass(frozen=True, slots=True)
class LeaderState:
    """The leader in one leader epoch, with values from the metadata and the topic's configuration."""

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
        """The followers when the leader epoch begins. Their log end offsets are unknown, so the high watermark cannot
        move until they fetch."""
        return {replica: FollowerState() for replica in self.replicas if replica != self.node_id}

    def accepts(self, acks: int) -> bool:
        """Whether records may be appended. With acks=all the ISR must be large enough."""
        return acks != ACKS_ALL or self.isr.is_sufficient

    def high_watermark(
        self, current: Offset, log_end_offset: Offset, followers: Mapping[BrokerId, FollowerState]
    ) -> Offset:
        """The new high watermark, computed from the current one and the log end offsets of leader and followers."""
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
        """The error code for a produce with acks=all that waited for the records before `offset` to be committed.

        NOT_ENOUGH_REPLICAS_AFTER_APPEND means that the records are committed, but the ISR has become too small since
        the append.
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
