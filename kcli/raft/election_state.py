"""The election state that a voter must not lose when it restarts. The server stores this state in quorum-state."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import FIRST_LEADER_EPOCH, NO_LEADER, BrokerId, LeaderEpoch
from kcli.raft.voters import ReplicaKey

NO_VOTE = BrokerId(-1)


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The newest epoch that a voter has seen, the leader of that epoch if known, and the voter's vote in that epoch
    (KIP-595).

    `static_voters` are the ids of controller.quorum.voters. From kraft.version 1 on this field is None, because the log
    contains the voters (KIP-853). The vote then also contains the directory of the candidate.
    """

    epoch: LeaderEpoch = FIRST_LEADER_EPOCH
    leader_id: BrokerId = NO_LEADER
    voted: ReplicaKey | None = None
    static_voters: tuple[BrokerId, ...] | None = None
