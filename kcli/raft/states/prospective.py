"""The state Prospective (KIP-996)."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import NO_LEADER, BrokerId, LeaderEpoch
from kcli.raft.requests import Endpoints
from kcli.raft.states.votes import Votes
from kcli.raft.voters import ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospective:
    """The node asks the voters if they would vote for it, without a new epoch.

    So a voter that was cut off cannot end the epoch of a leader that the others still follow. `leader_id` and
    `leader_endpoints` are of the leader that the node followed, if any: it follows this leader again if it loses.
    """

    epoch: LeaderEpoch
    deadline: float
    votes: Votes
    leader_id: BrokerId = NO_LEADER
    leader_endpoints: Endpoints
    voted: ReplicaKey | None = None

    def grants(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """The rule is that of Unattached."""
        if pre_vote:
            return up_to_date
        if self.voted is not None:
            return self.voted.matches(candidate)
        return self.leader_id == NO_LEADER and up_to_date
