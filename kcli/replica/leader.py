"""The state of a partition's leader. This state shows which records are committed, and whether the leader may accept
new records.

The high watermark is the smallest log end offset of the replicas that could be elected. Replicas that could be elected
are the maximal ISR (isr.py), and the replicas that will soon join the ISR. The high watermark never goes back while the
leader stays the same, and does not move while the ISR is smaller than min.insync.replicas (KIP-966). If a partition has
only one replica, its ISR has one member, so every append is committed at once.

A follower joins the ISR as soon as it has every committed record. A follower leaves the ISR if it has not caught up
with the log end of the leader for `replica.lag.time.max.ms`. If a follower fetches from the log end, it has caught up
at the time of this fetch. But a follower of a busy leader may never reach the present log end. So the leader remembers
its log end at each fetch. If the next fetch of the follower reaches that log end, the follower had caught up at the
time of the earlier fetch.

The functions of this module change no state. The caller keeps the present `LeaderState`, one `FollowerState` per
follower, and the high watermark (in the log). The caller replaces each of these values by the value that a function
returns. Times are monotonic and in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace

from kcli.errors import ErrorCode
from kcli.model.ids import NO_BROKER_EPOCH, NO_OFFSET, BrokerId, LeaderEpoch, Offset
from kcli.model.request_values import ACKS_ALL
from kcli.replica.isr import Isr, IsrChange, effective_min_isr, expansion, reduction

NEVER_MS = -(1 << 62)
"""The time of an event that has never happened, because it is before every monotonic time."""


@dataclass(frozen=True, slots=True)
class FollowerState:
    """The state of a follower after its last fetch: the follower has every record below `log_end_offset`.

    `caught_up_ms` is the last time at which the follower is known to have had the whole log. `fetched_ms` is the time
    of the last fetch, and `leader_end_offset` the log end offset of the leader at that time. The broker epoch is not
    known before the first fetch, and if the requests contain no epoch (before Fetch v15).
    """

    log_start_offset: Offset = NO_OFFSET
    log_end_offset: Offset = NO_OFFSET
    broker_epoch: int = NO_BROKER_EPOCH
    caught_up_ms: int = NEVER_MS
    fetched_ms: int = NEVER_MS
    leader_end_offset: Offset = NO_OFFSET

    @property
    def has_fetched(self) -> bool:
        return self.log_end_offset != NO_OFFSET

    def fetched(
        self,
        *,
        log_start_offset: Offset,
        log_end_offset: Offset,
        broker_epoch: int,
        leader_end_offset: Offset,
        now_ms: int,
    ) -> FollowerState:
        """The state after a fetch from `log_end_offset`, while the log of the leader ended at `leader_end_offset`."""
        caught_up_ms = self.caught_up_ms
        if log_end_offset >= leader_end_offset:
            caught_up_ms = now_ms
        # The follower has all records that the leader had at the fetch before. While a leader gets records all the
        # time, a follower that keeps up never reaches the present log end.
        elif log_end_offset >= self.leader_end_offset and self.fetched_ms > caught_up_ms:
            caught_up_ms = self.fetched_ms
        return FollowerState(
            log_start_offset, log_end_offset, broker_epoch, caught_up_ms, now_ms, leader_end_offset
        )

    def has_caught_up(self, leader_end_offset: Offset, now_ms: int, lag_time_max_ms: int) -> bool:
        """Whether the follower has the whole log, or had it at most `lag_time_max_ms` ago."""
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_time_max_ms

    def in_next_term(self, *, in_isr: bool, leader_end_offset: Offset, now_ms: int) -> FollowerState:
        """The state in a new leader epoch of the same leader. The follower keeps its log end offset. If the follower is
        in the ISR, it gets a full `replica.lag.time.max.ms` to catch up again."""
        caught_up_ms = now_ms if in_isr else NEVER_MS
        return replace(
            self, caught_up_ms=caught_up_ms, fetched_ms=now_ms, leader_end_offset=leader_end_offset
        )

    def outside_isr(self) -> FollowerState:
        """The state after the follower has left the ISR. The follower is about to join again only after it has caught
        up again.

        The controller removes a replica whose log directory has failed, although its broker is alive. Without this
        rule, the high watermark would wait for this replica for `replica.lag.time.max.ms` or longer.
        """
        return replace(self, caught_up_ms=NEVER_MS, fetched_ms=NEVER_MS)


Followers = Mapping[BrokerId, FollowerState]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderState:
    """The leader in one leader epoch, with values from the metadata and the topic's configuration.

    `start_offset` is the log end offset at which the leader epoch began. `change` is the change of the ISR that is in
    flight.
    """

    node_id: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    start_offset: Offset
    replicas: tuple[BrokerId, ...]
    isr: Isr
    min_insync_replicas: int
    change: IsrChange | None = None

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        return self.isr.members if self.change is None else self.change.maximal

    # Changes.

    def with_partition(
        self, *, replicas: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], partition_epoch: int
    ) -> LeaderState:
        """The state after the metadata has a newer state of the partition. A change in flight is dropped."""
        required = effective_min_isr(self.min_insync_replicas, replicas=len(replicas))
        return replace(
            self, replicas=replicas, isr=Isr(isr, required), partition_epoch=partition_epoch, change=None
        )

    def with_min_insync_replicas(self, count: int) -> LeaderState:
        required = effective_min_isr(count, replicas=len(self.replicas))
        return replace(self, min_insync_replicas=count, isr=Isr(self.isr.members, required))

    def expanded(self, replica: BrokerId) -> LeaderState:
        """The state after the leader has proposed that the replica joins."""
        assert self.change is None, "one change is in flight at a time"
        return replace(self, change=expansion(self.isr, replica))

    def reduced(self, leaving: tuple[BrokerId, ...]) -> LeaderState:
        """The state after the leader has proposed that these replicas leave."""
        assert self.change is None, "one change is in flight at a time"
        assert self.node_id not in leaving, "a leader is always in sync with itself"
        return replace(self, change=reduction(self.isr, leaving))

    def given_up(self) -> LeaderState:
        """The state after the controller has refused the change in flight."""
        return replace(self, change=None)

    # Followers.

    def new_followers(self, now_ms: int) -> dict[BrokerId, FollowerState]:
        """The states of the followers when a new leader begins. Their log end offsets are unknown, so the high
        watermark cannot move until the followers in the ISR have fetched."""
        return {
            replica: self.new_follower(replica, now_ms)
            for replica in self.replicas
            if replica != self.node_id
        }

    def new_follower(self, replica: BrokerId, now_ms: int) -> FollowerState:
        return FollowerState(caught_up_ms=now_ms if replica in self.isr.members else NEVER_MS)

    def may_join(self, replica: BrokerId, follower: FollowerState, high_watermark: Offset) -> bool:
        """Whether the follower has every committed record, and every record from before this leader epoch. The caller
        checks that the follower's broker is alive."""
        end = follower.log_end_offset
        return (
            self.change is None
            and replica not in self.isr.members
            and end >= high_watermark
            # The high watermark of a new leader may be too low at first. So a member of the ISR must also have the
            # records from before this epoch, which may be committed (KAFKA-7128).
            and end >= self.start_offset
        )

    def laggards(
        self, followers: Followers, log_end_offset: Offset, now_ms: int, lag_time_max_ms: int
    ) -> tuple[BrokerId, ...]:
        """The members of the ISR that must leave the ISR, because they have not caught up for `lag_time_max_ms`. Empty
        while a change of the ISR is in flight."""
        if self.change is not None:
            return ()
        return tuple(
            member
            for member in self.isr.members
            if member != self.node_id
            and not followers[member].has_caught_up(log_end_offset, now_ms, lag_time_max_ms)
        )

    def joining(
        self,
        followers: Followers,
        is_eligible: Callable[[BrokerId, FollowerState], bool],
        now_ms: int,
        lag_time_max_ms: int,
    ) -> list[BrokerId]:
        """The replicas that will soon join the ISR: eligible replicas that had caught up a short time ago. The high
        watermark waits for these replicas. Without this wait, the high watermark of a busy leader would stay ahead of
        the replicas, and the replicas could never join the ISR."""
        maximal = self.maximal_isr
        return [
            replica
            for replica, follower in followers.items()
            if replica not in maximal
            and now_ms - follower.caught_up_ms <= lag_time_max_ms
            and is_eligible(replica, follower)
        ]

    # Commits.

    def accepts(self, acks: int) -> bool:
        """Whether the leader may append records that were sent with these `acks`. With acks=all the ISR must be large
        enough."""
        return acks != ACKS_ALL or self.isr.is_sufficient

    def high_watermark(
        self,
        current: Offset,
        log_end_offset: Offset,
        followers: Followers,
        joining: Container[BrokerId] = (),
    ) -> Offset:
        """The new high watermark, computed from the current high watermark and the log end offsets of leader and
        followers."""
        # If the ISR is below min.insync.replicas, no record is committed, so that a committed record is always on
        # enough replicas (KIP-966).
        if not self.isr.is_sufficient:
            return current
        slowest = log_end_offset
        if followers:
            maximal = self.maximal_isr
            for replica, follower in followers.items():
                if follower.log_end_offset < slowest and (replica in maximal or replica in joining):
                    slowest = follower.log_end_offset
        # Consumers have read up to the high watermark, so it never goes back, even if a follower reports a shorter log.
        return slowest if slowest > current else current

    def produce_outcome(self, offset: Offset, high_watermark: Offset) -> ErrorCode:
        """The error code for a Produce request with acks=all. The request waited until the records before `offset` were
        committed, or until its time limit.

        NOT_ENOUGH_REPLICAS_AFTER_APPEND means that the records are committed, but the maximal ISR has become too small
        since the append.
        """
        if high_watermark < offset:
            return ErrorCode.REQUEST_TIMED_OUT
        if len(self.maximal_isr) >= self.isr.required:
            return ErrorCode.NONE
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def begin_term(
    *,
    node_id: BrokerId,
    leader_epoch: LeaderEpoch,
    partition_epoch: int,
    start_offset: Offset,
    replicas: tuple[BrokerId, ...],
    isr: tuple[BrokerId, ...],
    min_insync_replicas: int,
) -> LeaderState:
    assert node_id in replicas, f"node {node_id} cannot lead a partition on {replicas}"
    required = effective_min_isr(min_insync_replicas, replicas=len(replicas))
    return LeaderState(
        node_id=node_id,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        start_offset=start_offset,
        replicas=replicas,
        isr=Isr(isr, required),
        min_insync_replicas=min_insync_replicas,
    )
