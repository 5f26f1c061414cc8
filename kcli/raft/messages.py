"""The messages a raft node takes, and `Ready`: the duties it gives to its caller.

Every record takes the same way: append, flush, count, commit. On `Append` the node asks for an append and a flush.
`Flushed` reports how far the log is on disk. The node counts the voters that hold it and answers with `Ready.apply`,
the new high watermark.

More voters add kinds of messages (votes, fetches, timers). They change none of these types.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import LeaderEpoch, Offset
from kcli.protocol.batches.control import RaftControl
from kcli.raft.election_state import ElectionState
from kcli.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class Start:
    """The node starts with what its disk holds.

    `log_epoch` is that of the newest record. `voters_in_log`: the log itself names the voters, not only the snapshot
    that `format` wrote or the configuration.
    """

    stored: ElectionState | None
    log_end_offset: Offset
    log_epoch: LeaderEpoch
    voters: VoterSet
    kraft_version: int
    voters_in_log: bool


@dataclass(frozen=True, slots=True)
class Append:
    """The active controller wants these record values in the log, as one batch."""

    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Flushed:
    """This node's log is on disk up to `end_offset`."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class Resign:
    """The node is about to stop."""


Message = Start | Append | Flushed | Resign


@dataclass(frozen=True, slots=True)
class ControlBatch:
    """Records of the quorum itself: the new leader, the voters."""

    epoch: LeaderEpoch
    records: tuple[RaftControl, ...]


@dataclass(frozen=True, slots=True)
class DataBatch:
    """The values of metadata records."""

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
    """The caller's duties, in the order of the fields. A duty that fails ends the ones after it."""

    persist: tuple[ElectionState, ...] = ()
    """Write each to the quorum-state file, durably, before the next."""
    truncate: Offset | None = None
    """Cut the log at this offset: another history is the quorum's."""
    append: tuple[Batch, ...] = ()
    """Append to the log at its end."""
    flush: bool = False
    """Flush the log and report `Flushed`. One flush may serve many appends."""
    send: tuple[Outgoing, ...] = ()
    """Send to other voters: all that these messages report is durable by now."""
    apply: Offset | None = None
    """Apply everything before this offset, the new high watermark: it is committed."""


NOTHING = Ready()
