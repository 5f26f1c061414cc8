"""The states of a member of the quorum, one class each; the legal moves are one table.

A lone voter needs four of them: at start it is Unattached, Resigned (it led when it stopped) or Candidate (it stopped
while it was electing itself), and from each of them it goes through Candidate to Leader. Nobody can take that from it,
so it stays Leader until it resigns to stop.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import NO_OFFSET
from kcli.raft.voters import ReplicaKey


@dataclass(frozen=True, slots=True)
class Unattached:
    """Knows the epoch and no leader; may have voted."""

    epoch: int
    voted: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """Asks for votes in an epoch of its own and has voted for itself."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Leader:
    """Leads `epoch`, which began at `epoch_start_offset`. Nothing is committed before an entry of this epoch is."""

    epoch: int
    epoch_start_offset: int
    high_watermark: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class Resigned:
    """Led the epoch and does so no more; only a higher epoch can follow."""

    epoch: int


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
