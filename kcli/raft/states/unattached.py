"""The state Unattached."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import NO_LEADER, BrokerId, LeaderEpoch
from kcli.raft.voters import ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattached:
    """The node knows the epoch, but no address of its leader. The node may have voted in this epoch.

    The node asks the bootstrap servers which node leads. At `deadline` a voter begins an election.
    """

    epoch: LeaderEpoch
    deadline: float
    leader_id: BrokerId = NO_LEADER
    voted: ReplicaKey | None = None

    def grants(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether to grant a vote or a pre-vote. A voter has one vote in an epoch. The voter repeats the vote for the
        same candidate, because an answer can be lost.

        Granting a pre-vote does not use the vote.
        """
        if pre_vote:
            return up_to_date
        if self.voted is not None:
            return self.voted.matches(candidate)
        return self.leader_id == NO_LEADER and up_to_date
