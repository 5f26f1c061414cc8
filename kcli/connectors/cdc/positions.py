"""The position of a task: the offsets that a worker stores, with Debezium's names.

The server sends whole transactions in the order of their commits. So a position is the end of the last complete
transaction (`lsn_commit`), and the last change of the transaction after it (`txId`, `lsn`, `lsn_event`). A task that
starts again asks for the transactions after `lsn_commit`, and leaves out the changes of the first one up to the last
change. Several changes may have one `lsn`, such as the rows of one COPY, so `lsn_event` counts them. Debezium has no
`lsn_event`, so the changes with the `lsn` of its offset are sent again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from kcli.connectors.interface import Offset

_NO_EVENT = -1
_SNAPSHOT = "INITIAL"


class Phase(Enum):
    SNAPSHOT = "snapshot"
    """A snapshot has begun. A task that starts again begins it again, because the old one ended with its connection."""
    STREAM = "stream"
    """The snapshot is complete, or the mode needs no snapshot."""


@dataclass(frozen=True, slots=True)
class Position:
    phase: Phase
    commit_lsn: int
    lsn: int
    event: int = _NO_EVENT
    xid: int | None = None
    time_us: int = 0

    @property
    def offset(self) -> Offset:
        offset: dict[str, object] = {"lsn": self.lsn, "lsn_proc": self.lsn, "lsn_commit": self.commit_lsn}
        if self.event != _NO_EVENT:
            offset["lsn_event"] = self.event
        if self.xid is not None:
            offset["txId"] = self.xid
        offset["ts_usec"] = self.time_us
        return offset

    def snapshot_offset(self, *, last: bool) -> Offset:
        """The offset of a record of a snapshot."""
        return {**self.offset, "snapshot": _SNAPSHOT, "last_snapshot_record": last}

    def covers(self, xid: int, lsn: int, event: int) -> bool:
        """Whether a change of the first transaction after `commit_lsn` was sent before."""
        return xid == self.xid and (lsn, event) <= (self.lsn, self.event)

    @classmethod
    def of(cls, offset: Mapping[str, object]) -> Position:
        """The position of a stored offset, also of an offset of Debezium. Raises ValueError for another map."""
        lsn = _number(offset, "lsn", "lsn_proc", "lsn_commit")
        if lsn is None:
            raise ValueError("expected an lsn")
        commit_lsn = _number(offset, "lsn_commit", "lsn_proc", "lsn")
        assert commit_lsn is not None, "`lsn` is one of the names"
        unfinished = bool(offset.get("snapshot")) and not offset.get("last_snapshot_record")
        event = _number(offset, "lsn_event")
        return cls(
            Phase.SNAPSHOT if unfinished else Phase.STREAM,
            commit_lsn,
            lsn,
            event=_NO_EVENT if event is None else event,
            xid=_number(offset, "txId"),
            time_us=_number(offset, "ts_usec") or 0,
        )


def _number(offset: Mapping[str, object], *names: str) -> int | None:
    """The first of these numbers that the offset has."""
    for name in names:
        value = offset.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name}: expected a whole number, found {value!r}")
        return value
    return None
