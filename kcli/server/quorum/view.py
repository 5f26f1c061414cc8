"""A read-only view of the quorum for handlers, metrics and tools."""

from __future__ import annotations

import uuid

from kcli.raft.node import RaftNode
from kcli.raft.voters import VoterSet
from kcli.server.quorum.metadata_log import MetadataLog


class QuorumView:
    """Reads the present state of the raft node and of the metadata log."""

    def __init__(self, raft: RaftNode, log: MetadataLog) -> None:
        self._raft = raft
        self._log = log

    @property
    def epoch(self) -> int:
        return self._raft.epoch

    @property
    def leader_id(self) -> int:
        """The node id of the leader, or -1 if this node does not know the leader."""
        return self._raft.leader_id

    @property
    def state(self) -> str:
        """The quorum state of this node, as Kafka's metrics print it: `leader`, `unattached` …"""
        return type(self._raft.state).__name__.lower()

    @property
    def voters(self) -> VoterSet:
        return self._raft.voters

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
    def log_epoch(self) -> int:
        """The epoch of the newest record of the log."""
        return self._log.epoch

    @property
    def directory_id(self) -> uuid.UUID:
        return self._log.directory_id
