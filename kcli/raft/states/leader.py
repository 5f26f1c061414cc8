"""The state Leader: the log end of each replica, and the high watermark that follows from these log ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kcli.model.ids import NO_OFFSET, BrokerId, LeaderEpoch, Offset
from kcli.raft.voters import ReplicaKey, Voter, VoterSet

NEVER = -math.inf

OBSERVER_TIMEOUT_S = 300.0
"""An observer that has not fetched for this time is forgotten, as in Kafka."""
MAX_OBSERVERS = 1000
"""The most observers whose progress is kept. Above this limit, the observer with the oldest Fetch is forgotten. There
is a limit, because a client can pretend to be many observers by changing its directory id. A cluster has a few hundred
nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The log end of a replica on its disk, and the time of its last Fetch.

    `caught_up_at`: the last time at which the replica had the whole log. `leader_end`: the end of the leader's log at
    `fetched_at`.
    """

    end_offset: Offset = NO_OFFSET
    fetched_at: float = NEVER
    caught_up_at: float = NEVER
    leader_end: Offset = NO_OFFSET

    def fetched(self, end_offset: Offset, leader_end: Offset, now: float) -> Progress:
        """The progress after the replica requested the records from `end_offset` on, which shows that it has all
        earlier records."""
        caught_up_at = self.caught_up_at
        if end_offset >= leader_end:
            caught_up_at = now
        elif end_offset >= self.leader_end > NO_OFFSET:
            caught_up_at = max(caught_up_at, self.fetched_at)
        return Progress(
            end_offset=end_offset, fetched_at=now, caught_up_at=caught_up_at, leader_end=leader_end
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The node leads `epoch`, whose first record is at `epoch_start_offset`.

    The high watermark is the end offset that a majority of the voters has on disk. The high watermark is unknown until
    a majority has a record of this epoch. Until then a later leader could still overwrite a record of an older epoch,
    even if a majority has the record (Raft, section 5.4.2).

    `progress`: the progress of every replica, by the `ReplicaKey` of the voter or observer. `heard`: the voters that
    fetched since the last check. If a majority has not fetched before `check_deadline`, the leader resigns, because the
    other voters may have elected another leader. At `begin_deadline` the leader sends BeginQuorumEpoch. `reported`: in
    kraft.version 0, the endpoints and versions that each voter has reported with UpdateRaftVoter.
    """

    epoch: LeaderEpoch
    leader_id: BrokerId
    epoch_start_offset: Offset
    check_deadline: float
    begin_deadline: float
    high_watermark: Offset = NO_OFFSET
    progress: Mapping[ReplicaKey, Progress] = field(default_factory=dict)
    heard: frozenset[BrokerId] = frozenset()
    reported: Mapping[BrokerId, Voter] = field(default_factory=dict)

    @property
    def voted(self) -> None:
        return None

    def grants(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return False

    def with_progress(self, replica: ReplicaKey, progress: Progress, voters: VoterSet, now: float) -> Leader:
        """Returns the leader's state with the new progress of a replica, and without observers that stopped
        fetching."""
        remaining = {
            key: known
            for key, known in self.progress.items()
            if known.fetched_at >= now - OBSERVER_TIMEOUT_S or voters.voter(key) is not None
        }
        if len(remaining) > MAX_OBSERVERS:
            observers = [key for key in remaining if voters.voter(key) is None and key != replica]
            if len(observers) >= MAX_OBSERVERS:
                del remaining[min(observers, key=lambda key: remaining[key].fetched_at)]
        return replace(self, progress={**remaining, replica: progress})

    def counted(self, voters: VoterSet) -> Leader:
        """Returns the leader's state with the high watermark that follows from the progress of the voters. The high
        watermark never goes back."""
        ends = {voter.key.id: self.progress_of(voter.key).end_offset for voter in voters.voters}
        reached = voters.majority_offset(ends)
        # Even if a majority has a record of an earlier epoch, another leader could still replace it. So this record is
        # committed only together with a record of this epoch (Raft, 5.4.2).
        if reached <= max(self.epoch_start_offset, self.high_watermark):
            return self
        return replace(self, high_watermark=reached)

    def progress_of(self, key: ReplicaKey) -> Progress:
        return self.progress.get(key, _NOTHING_KNOWN)

    def heard_from(self, voter_id: BrokerId, voters: VoterSet, check_deadline: float) -> Leader:
        """Returns the leader's state after a voter has fetched: the voter is in `heard`. If a majority has fetched,
        `heard` is empty again, and the next check is at `check_deadline`.
        """
        heard = self.heard | {voter_id}
        present = [voter_id for voter_id in voters.ids if voter_id in heard or voter_id == self.leader_id]
        if voters.is_majority(len(present)):
            return replace(self, heard=frozenset(), check_deadline=check_deadline)
        return replace(self, heard=heard)


_NOTHING_KNOWN = Progress()
