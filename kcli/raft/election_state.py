"""The state of elections that a voter must remember across restarts. The server keeps it in the quorum-state file."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import FIRST_LEADER_EPOCH, NO_LEADER, BrokerId, LeaderEpoch
from kcli.raft.voters import ReplicaKey

NO_VOTE = BrokerId(-1)


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The newest epoch a voter has seen, its leader if known, and the vote given in it (KIP-595).

    `static_voters`: the ids of controller.quorum.voters. None from kraft.version 1 on, where the log names the voters
    (KIP-853); then the vote names the voter's directory too.
    """

    epoch: LeaderEpoch = FIRST_LEADER_EPOCH
    leader_id: BrokerId = NO_LEADER
    voted: ReplicaKey | None = None
    static_voters: tuple[BrokerId, ...] | None = None
