"""The states of a member of the quorum, one class each, and the table of legal moves between them.

A lone voter needs four states:

    start -> Unattached | Resigned | Candidate -> Candidate -> Leader -> Resigned

At the start the voter is Resigned if it led when it stopped, and Candidate if it stopped during its own election.
Otherwise it is Unattached. From each of these states it becomes Candidate in a new epoch. Its own vote is a majority,
so it becomes Leader at once. It stays Leader until it resigns in order to stop, because no other voter can take the
lead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kcli.model.ids import NO_OFFSET, BrokerId, LeaderEpoch, Offset
from kcli.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class Unattached:
    """The node knows the epoch but no leader. It may have voted in this epoch."""

    epoch: LeaderEpoch
    voted: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """The node asks for votes in a new epoch. `granted` are the voters that voted for this node. The node itself is the
    first."""

    epoch: LeaderEpoch
    granted: tuple[ReplicaKey, ...]


@dataclass(frozen=True, slots=True)
class Leader:
    """The node leads `epoch`, whose first record is at `epoch_start_offset`.

    `flushed`: the end offset that each voter has on disk, by voter id. The high watermark is the end offset that a
    majority has on disk. It is unknown until a majority has a record of this epoch. Until then a later leader could
    still overwrite a record of an older epoch, even if a majority has it (Raft, section 5.4.2).
    """

    epoch: LeaderEpoch
    epoch_start_offset: Offset
    high_watermark: Offset = NO_OFFSET
    flushed: Mapping[BrokerId, Offset] = field(default_factory=dict)

    def flushed_by(self, voter_id: BrokerId, end_offset: Offset, voters: VoterSet) -> Leader:
        """Returns the leader's state, updated with the `end_offset` that a voter reported.

        The high watermark never goes back.
        """
        flushed = {**self.flushed, voter_id: end_offset}
        counted = voters.majority_offset(flushed)
        if counted <= max(self.epoch_start_offset, self.high_watermark):
            return replace(self, flushed=flushed)
        return replace(self, flushed=flushed, high_watermark=counted)


@dataclass(frozen=True, slots=True)
class Resigned:
    """The node led the epoch and gave up the lead. It can lead again only in a higher epoch."""

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
