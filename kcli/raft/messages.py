"""The messages that a raft node processes, and `Ready`, which contains the work that the caller must do for the node.

A record is committed in four steps. The caller sends `Append`. The node returns a `Ready` that asks for an append and a
flush. The caller reports with `Flushed` how far the log is on disk. If a majority of the voters now has more of the log
on disk, the node returns `Ready.apply`, the new high watermark.

A quorum of several voters will need more messages (votes, fetches, timers), but no change of these types.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import LeaderEpoch, Offset
from kcli.protocol.batches.control import RaftControl
from kcli.raft.election_state import ElectionState
from kcli.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class Start:
    """The node starts, with the state found on its disk.

    `log_epoch` is the epoch of the newest record. `voters_in_log` is True if a record of the log names the voters, and
    False if only the configuration or the snapshot that `format` wrote names them.
    """

    stored: ElectionState | None
    log_end_offset: Offset
    log_epoch: LeaderEpoch
    voters: VoterSet
    kraft_version: int
    voters_in_log: bool


@dataclass(frozen=True, slots=True)
class Append:
    """The active controller appends these record values to the log, as one batch."""

    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Flushed:
    """The caller flushed this node's log up to `end_offset`."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class Resign:
    """The node is about to stop, so it gives up the lead."""


Message = Start | Append | Flushed | Resign


@dataclass(frozen=True, slots=True)
class ControlBatch:
    """A batch with records of the quorum itself: the new leader, the voters."""

    epoch: LeaderEpoch
    records: tuple[RaftControl, ...]


@dataclass(frozen=True, slots=True)
class DataBatch:
    """A batch with the values of metadata records."""

    epoch: LeaderEpoch
    values: tuple[bytes, ...]


Batch = ControlBatch | DataBatch


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message for another voter."""

    to: ReplicaKey
    message: Message


@dataclass(frozen=True, slots=True)
class Ready:
    """The caller's duties, in the order of the fields. If a duty fails, the caller must not do the later ones."""

    persist: tuple[ElectionState, ...] = ()
    """Write each state to the quorum-state file, and make it durable before the next."""
    truncate: Offset | None = None
    """Truncate the log to this offset, because the quorum has other records from this offset on."""
    append: tuple[Batch, ...] = ()
    """Append these batches to the log."""
    flush: bool = False
    """Flush the log and report `Flushed`. One flush may cover several appends."""
    send: tuple[Outgoing, ...] = ()
    """Send these messages to other voters. The state that they report is durable by now."""
    apply: Offset | None = None
    """Apply the records before this offset, the new high watermark. They are committed."""


NOTHING = Ready()
