"""Runs the raft node on the metadata log: executes each `Ready` in its order and reports every flush to the node.

An append happens immediately on the event loop, so that offsets are in the order of decisions. The flush comes later,
in a thread. A flush covers everything that was appended before it began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.model.ids import FIRST_OFFSET, LeaderEpoch, Offset
from kcli.raft.messages import (
    Append,
    Batch,
    ControlBatch,
    DataBatch,
    EpochStart,
    Flushed,
    Ready,
    Resign,
    Start,
    VotersAt,
)
from kcli.raft.node import QuorumError, RaftNode
from kcli.raft.voters import ReplicaKey, VoterSet
from kcli.runtime.clock import Clock
from kcli.server.quorum.metadata_log import MetadataLog, QuorumVoters


@dataclass(frozen=True, slots=True)
class Appended:
    """A batch that is appended to the log but not yet committed."""

    last_offset: Offset
    epoch: LeaderEpoch
    timestamp_ms: int


class RaftDriver:
    """Runs the raft node. Call `start` first. After each `append`, call `flush` until the high watermark is past the
    batch."""

    def __init__(self, node: RaftNode, log: MetadataLog, clock: Clock) -> None:
        self._node = node
        self._log = log
        self._clock = clock

    async def start(self, quorum_voters: QuorumVoters) -> tuple[Appended, ...]:
        """Elects this node. Its vote is on disk before the new epoch is used. Returns the first batch, not yet flushed.

        Raises QuorumError if the node cannot be a quorum by itself, and StorageError if its disk fails.
        """
        log = self._log
        if not quorum_voters.voters.is_only_voter(self._node.key):
            raise QuorumError(_why_not_alone(self._node.key, quorum_voters.voters))
        ready = self._step(
            Start(
                stored=log.read_election_state(),
                log_start=log.log.log_start_offset,
                log_end_offset=log.end_offset,
                epochs=tuple(EpochStart(*entry) for entry in log.log.leader_epochs.entries),
                voters=quorum_voters.voters,
                kraft_version=quorum_voters.kraft_version,
                voter_history=_history(quorum_voters),
            )
        )
        for state in ready.persist:
            await asyncio.to_thread(log.write_election_state, state)
        return tuple([self._append(batch) for batch in ready.append])

    def append(self, values: Sequence[bytes]) -> Appended:
        """Appends one batch of records. Raises StorageError if the disk fails, and NotControllerException if this node
        does
        not lead."""
        ready = self._step(Append(tuple(values)))
        assert not ready.persist and ready.flush, "an append changes no vote and is flushed later"
        (batch,) = ready.append
        return self._append(batch)

    async def flush(self) -> Offset | None:
        """Flushes the log up to its present end. Returns the new high watermark, or None if it has not moved."""
        end_offset = await asyncio.to_thread(self._log.flush)
        ready = self._step(Flushed(end_offset))
        assert ready == Ready(apply=ready.apply), "a flush is only counted"
        if ready.apply is not None:
            self._log.log.set_high_watermark(ready.apply)
        return ready.apply

    def resign(self) -> None:
        self._step(Resign())

    def _step(self, message: Start | Append | Flushed | Resign) -> Ready:
        ready = self._node.step(message, self._clock.monotonic())
        assert ready.truncate is None and not ready.send, "a lone voter follows no log and sends nothing"
        return ready

    def _append(self, batch: Batch) -> Appended:
        now_ms = self._clock.now_ms()
        match batch:
            case ControlBatch(epoch=epoch, records=records):
                last_offset = self._log.append_controls(records, epoch, now_ms)
            case DataBatch(epoch=epoch, values=values):
                last_offset = self._log.append_records(values, epoch, now_ms)
            case _:
                raise AssertionError("a lone voter receives no batches")
        return Appended(last_offset, epoch, now_ms)


def _history(quorum_voters: QuorumVoters) -> tuple[VotersAt, ...]:
    if not quorum_voters.in_log:
        return ()
    return (VotersAt(FIRST_OFFSET, quorum_voters.kraft_version, quorum_voters.voters),)


def _why_not_alone(key: ReplicaKey, voters: VoterSet) -> str:
    if not voters.voters:
        return (
            f"Node {key.id} has no voters: neither the metadata log nor its snapshots name any, and "
            "controller.quorum.voters is empty. Format its directory with --standalone."
        )
    if voters.voter(key) is None:
        known = ", ".join(
            f"{voter.key.id} with directory {voter.key.directory_id}" for voter in voters.voters
        )
        return f"Node {key.id} with directory {key.directory_id} is not a voter of its quorum; the voters are: {known}."
    others = ", ".join(str(voter_id) for voter_id in voters.ids if voter_id != key.id)
    return (
        f"Node {key.id} shares its quorum with voters {others}; only a quorum of a single voter can be run."
    )
