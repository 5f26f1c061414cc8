"""The state Prospective (KIP-996)."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import NO_LEADER, BrokerId, LeaderEpoch
from kcli.raft.requests import Endpoints
from kcli.raft.states.votes import Votes
from kcli.raft.voters import ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospective:
    """The node asks the other voters if they would vote for it, and does not begin a new epoch yet.

    Without this question, a voter that was cut off from the network would end the epoch of a leader that the other
    voters still follow. `leader_id` and `leader_endpoints` belong to the leader that the node followed before, if any.
    If the node loses the pre-vote, it follows this leader again.
    """

    epoch: LeaderEpoch
    deadline: float
    votes: Votes
    leader_id: BrokerId = NO_LEADER
    leader_endpoints: Endpoints
    voted: ReplicaKey | None = None

    def grants(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether to grant a vote or a pre-vote, by the same rule as in the state Unattached."""
        if pre_vote:
            return up_to_date
        if self.voted is not None:
            return self.voted.matches(candidate)
        return self.leader_id == NO_LEADER and up_to_date
