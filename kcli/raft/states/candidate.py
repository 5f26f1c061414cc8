"""The state Candidate."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import NO_LEADER, BrokerId, LeaderEpoch
from kcli.raft.states.votes import Votes
from kcli.raft.voters import ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The node began a new epoch, voted for itself, and asks the other voters for their votes.

    If the node is not elected before `deadline`, it becomes Prospective.
    """

    epoch: LeaderEpoch
    deadline: float
    votes: Votes
    voted: ReplicaKey
    """The voter that the node has voted for: the node itself."""

    @property
    def leader_id(self) -> BrokerId:
        return NO_LEADER

    def grants(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and up_to_date
