"""The state Follower."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.metadata.snapshot_file import SnapshotId
from kcli.model.ids import BrokerId, LeaderEpoch, Position
from kcli.raft.requests import Endpoints
from kcli.raft.voters import ReplicaKey


@dataclass(frozen=True, slots=True)
class Download:
    """A snapshot that the follower fetches from its leader. `position`: the number of bytes that the follower already
    has."""

    snapshot_id: SnapshotId
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """The node fetches from the leader of the epoch.

    If the node gets no answer before `fetch_deadline`, a voter becomes Prospective, and an observer asks the bootstrap
    servers which node leads. `has_fetched`: this leader answered a Fetch, and has not resigned. From `update_deadline`
    on, a voter reports its endpoints and versions to the leader, if needed. `has_reported`: the leader has received
    this report.
    """

    epoch: LeaderEpoch
    leader_id: BrokerId
    leader_endpoints: Endpoints
    fetch_deadline: float
    update_deadline: float
    voted: ReplicaKey | None = None
    has_fetched: bool = False
    has_reported: bool = False
    download: Download | None = None

    def grants(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Whether to grant a pre-vote. A voter with a live leader refuses, so that other nodes do not end the leader's
        epoch (KIP-996)."""
        return pre_vote and up_to_date and not self.has_fetched
