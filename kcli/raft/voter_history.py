"""The history of the voters and of the kraft.version, which records in the log change."""

from __future__ import annotations

from kcli.model.ids import NO_OFFSET, Offset
from kcli.protocol.batches.control import KRaftVersionRecord, RaftControl, VotersRecord
from kcli.raft.messages import Start, VotersAt
from kcli.raft.voters import VoterSet, voter_set


class VoterHistory:
    """The changes of the voters and of the kraft.version. A change is in force as soon as it is in the log of the node,
    even if it is not committed yet. If truncation removes the change from the log, the change is undone (KIP-853).

    The first entry has the offset -1. It comes from the configuration or from the files of `kcli storage format`.
    """

    def __init__(self, start: Start) -> None:
        self._entries = [VotersAt(NO_OFFSET, start.kraft_version, start.voters), *start.voter_history]

    @property
    def offset(self) -> Offset:
        """The offset of the newest change, or -1 if the log has none."""
        return self._entries[-1].offset

    @property
    def voters(self) -> VoterSet:
        return self._entries[-1].voters

    @property
    def kraft_version(self) -> int:
        return self._entries[-1].kraft_version

    def at(self, offset: Offset) -> VotersAt:
        """The newest entry at or before `offset`, which is in force at this offset."""
        return next((entry for entry in reversed(self._entries) if entry.offset <= offset), self._entries[0])

    def read(self, controls: tuple[RaftControl, ...], base_offset: Offset) -> None:
        """Applies the records of a control batch at `base_offset`."""
        voters, kraft_version = self.voters, self.kraft_version
        for control in controls:
            match control:
                case VotersRecord():
                    voters = voter_set(control)
                case KRaftVersionRecord(k_raft_version=level):
                    kraft_version = level
                case _:
                    pass
        if any(isinstance(control, VotersRecord | KRaftVersionRecord) for control in controls):
            self._entries.append(VotersAt(base_offset, kraft_version, voters))

    def truncate(self, end_offset: Offset) -> None:
        self._entries = [self._entries[0]] + [
            entry for entry in self._entries[1:] if entry.offset < end_offset
        ]

    def restart_at(self, offset: Offset, kraft_version: int | None, voters: VoterSet | None) -> None:
        """Begins a new history, because a snapshot replaced the log. If the snapshot does not name the voters, the
        voters of the first entry are in force."""
        del self._entries[1:]
        if voters is not None:
            self._entries.append(VotersAt(offset, kraft_version or 0, voters))
