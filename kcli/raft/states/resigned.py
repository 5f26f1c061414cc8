"""The state Resigned."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import BrokerId, LeaderEpoch
from kcli.raft.voters import ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Resigned:
    """The node led the epoch and gave up the lead. The node can lead again only in a higher epoch.

    The node sends EndQuorumEpoch to the voters, until each voter has `acknowledged`. `successors`: the voters that
    should take the lead, best first. At `deadline` the node becomes Unattached in the next epoch.
    """

    epoch: LeaderEpoch
    deadline: float
    leader_id: BrokerId
    """The leader of the epoch: the node itself."""
    successors: tuple[ReplicaKey, ...] = ()
    acknowledged: tuple[BrokerId, ...] = ()

    @property
    def voted(self) -> None:
        return None

    def grants(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        return pre_vote and up_to_date
