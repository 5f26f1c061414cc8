"""The answers of the voters in one election or pre-election."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcli.model.ids import BrokerId
from kcli.raft.voters import Voter, VoterSet


@dataclass(frozen=True, slots=True)
class Votes:
    """`voters` are the voters at the start of the election. Later changes of the voters do not count in this
    election."""

    voters: VoterSet
    granted: tuple[BrokerId, ...]
    refused: tuple[BrokerId, ...] = ()

    def answered(self, voter_id: BrokerId, *, granted: bool) -> Votes:
        """Returns the votes with the answer of a voter. The first answer of a voter is kept."""
        if voter_id in self.granted + self.refused or voter_id not in self.voters.ids:
            return self
        if granted:
            return replace(self, granted=(*self.granted, voter_id))
        return replace(self, refused=(*self.refused, voter_id))

    @property
    def waiting_for(self) -> tuple[Voter, ...]:
        answered = self.granted + self.refused
        return tuple(voter for voter in self.voters.voters if voter.key.id not in answered)

    @property
    def is_won(self) -> bool:
        return self.voters.is_majority(len(self.granted))

    @property
    def is_lost(self) -> bool:
        """Whether the election is lost: even with the votes of all voters that have not answered, there would be no
        majority."""
        return not self.voters.is_majority(len(self.granted) + len(self.waiting_for))
