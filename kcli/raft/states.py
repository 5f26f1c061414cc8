"""The states of a member of the quorum, one class each; the legal moves are one table.

A lone voter needs four of them:

    start -> Unattached | Resigned | Candidate -> Candidate -> Leader -> Resigned

At start it is Resigned if it led when it stopped, Candidate if it stopped during its own election, else Unattached.
From each of them it becomes Candidate in a new epoch. Its own vote is the majority, so it leads at once, and it stays
Leader until it resigns to stop, because no other voter can take the lead from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kcli.model.ids import NO_OFFSET, BrokerId, LeaderEpoch, Offset
from kcli.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class Unattached:
    """Knows the epoch and no leader; may have voted."""

    epoch: LeaderEpoch
    voted: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """Asks for votes in an epoch of its own. `granted`: the voters that gave theirs, itself first."""

    epoch: LeaderEpoch
    granted: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class Leader:
    """Leads `epoch`, whose first record is at `epoch_start_offset`.

    `flushed`: the end offset that each voter has on disk, by its id. The high watermark is the end offset that a
    majority has on disk. It is unknown until that majority holds a record of this epoch: an older record could still
    be overwritten, however many voters hold it (Raft, section 5.4.2).
    """

    epoch: LeaderEpoch
    epoch_start_offset: Offset
    high_watermark: Offset = NO_OFFSET
    flushed: Mapping[BrokerId, Offset] = field(default_factory=dict)

    def flushed_by(self, voter_id: BrokerId, end_offset: Offset, voters: VoterSet) -> Leader:
        """The same leader after a voter reported `end_offset`. The high watermark never goes back."""
        flushed = {**self.flushed, voter_id: end_offset}
        counted = voters.majority_offset(flushed)
        if counted <= max(self.epoch_start_offset, self.high_watermark):
            return replace(self, flushed=flushed)
        return replace(self, flushed=flushed, high_watermark=counted)


@dataclass(frozen=True, slots=True)
class Resigned:
    """Led the epoch and gave up the lead; only a higher epoch can follow."""

    epoch: LeaderEpoch


State = Unattached | Candidate | Leader | Resigned

MOVES: frozenset[tuple[type[State], type[State]]] = frozenset(
    (
        (Unattached, Candidate),
        (Resigned, Candidate),
        (Candidate, Candidate),
        (Candidate, Leader),
        (Leader, Leader),
        (Leader, Resigned),
    )
)
