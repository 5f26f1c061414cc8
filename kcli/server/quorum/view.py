"""A read-only view of the quorum for handlers, metrics and tools."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kcli.model.addresses import Address
from kcli.model.ids import NO_LEADER, NO_TIMESTAMP, Offset
from kcli.raft.messages import VotersAt
from kcli.raft.node import RaftNode
from kcli.raft.states.leader import NEVER
from kcli.raft.voters import ReplicaKey, VoterSet
from kcli.runtime.clock import Clock
from kcli.server.quorum.metadata_log import MetadataLog

OBSERVER_SESSION_S = 300.0
"""The time without a fetch after which a node is no observer any more. Kafka has the same limit. A voter that was
removed and has not fetched from this leader is no observer either."""


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """The progress of a voter or observer, as the leader knows it. An unknown time or offset is -1.

    The leader itself does not fetch, so its times are the present time.
    """

    key: ReplicaKey
    is_voter: bool
    end_offset: Offset
    fetched_ms: int
    caught_up_ms: int


class QuorumView:
    """Reads the present state of the raft node and of the metadata log."""

    def __init__(self, raft: RaftNode, log: MetadataLog, listener: str) -> None:
        """`listener` is the name of the listener for connections to controllers."""
        self._raft = raft
        self._log = log
        self._listener = listener

    @property
    def epoch(self) -> int:
        return self._raft.epoch

    @property
    def leader_id(self) -> int:
        """The node id of the leader, or -1 if this node does not know the leader."""
        return self._raft.leader_id

    @property
    def leader_address(self) -> Address | None:
        """The address at which the leader serves controllers and brokers. None if the address is not known."""
        return None if self.leader_id == NO_LEADER else self._raft.leader_endpoints.get(self._listener)

    @property
    def state(self) -> str:
        """The quorum state of this node, as Kafka's metrics print it: `leader`, `unattached` …"""
        return type(self._raft.state).__name__.lower()

    @property
    def is_leader(self) -> bool:
        return self._raft.leader is not None

    def replicas(self, clock: Clock) -> list[QuorumReplica]:
        """The progress of the voters, then of the observers. Empty if this node does not lead."""
        leader = self._raft.leader
        if leader is None:
            return []
        now, now_ms = clock.monotonic(), clock.now_ms()

        def time_ms(at: float) -> int:
            return NO_TIMESTAMP if at == NEVER else now_ms - round((now - at) * 1000)

        def replica(key: ReplicaKey, *, is_voter: bool) -> QuorumReplica:
            if key.id == leader.leader_id:
                return QuorumReplica(key, is_voter, self._log.end_offset, now_ms, now_ms)
            known = leader.progress_of(key)
            fetched_ms, caught_up_ms = time_ms(known.fetched_at), time_ms(known.caught_up_at)
            return QuorumReplica(key, is_voter, known.end_offset, fetched_ms, caught_up_ms)

        voters, progress = self.voters, leader.progress
        return [
            *(replica(voter.key, is_voter=True) for voter in voters.voters),
            *(
                replica(key, is_voter=False)
                for key, known in progress.items()
                if voters.voter(key) is None and now - known.fetched_at < OBSERVER_SESSION_S
            ),
        ]

    @property
    def voters(self) -> VoterSet:
        return self._raft.voters

    def voters_at(self, offset: Offset) -> VotersAt:
        """The voters and the kraft.version at an offset, for a snapshot."""
        return self._raft.voters_at(offset)

    @property
    def kraft_version(self) -> int:
        return self._raft.kraft_version

    @property
    def high_watermark(self) -> int:
        return self._raft.high_watermark

    @property
    def log_end_offset(self) -> int:
        return self._log.end_offset

    @property
    def log_start_offset(self) -> Offset:
        return self._log.log.log_start_offset

    @property
    def log_epoch(self) -> int:
        """The epoch of the newest record of the log."""
        return self._log.epoch

    @property
    def directory_id(self) -> uuid.UUID:
        return self._log.directory_id
