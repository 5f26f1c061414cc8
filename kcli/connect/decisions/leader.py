"""The assignments that the leader of a group of workers makes in one rebalance."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kcli.connect.decisions.assignment import (
    IncrementalAssignor,
    Shares,
    connectors_first,
    share_eagerly,
)
from kcli.connect.decisions.config_state import ConfigState
from kcli.connect.decisions.protocol import CONFIG_MISMATCH, EAGER, VERSIONS, ExtendedAssignment, WorkerState
from kcli.connect.model import TaskId


@dataclass(frozen=True, slots=True)
class Round:
    """One rebalance, as its leader sees it. `last_generation` is the last generation that the leader has completed."""

    generation: int
    last_generation: int
    protocol: str
    leader: str
    members: Mapping[str, WorkerState]

    @property
    def config_offset(self) -> int:
        """The newest offset of the config topic that a member has read."""
        return max(member.config_offset for member in self.members.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """The assignments of the members, and the URLs of the workers that own each connector and task after the round."""

    assignments: Mapping[str, ExtendedAssignment]
    owners: Mapping[TaskId, str] = field(default_factory=dict)


@dataclass(slots=True)
class Leader:
    """Makes assignments, with the memory that incremental rebalances need."""

    assignor: IncrementalAssignor

    def assign(self, round: Round, state: ConfigState, now_ms: int) -> Outcome:
        """Decides a round. If a member has read more configurations than the leader, all members get an error, after
        which they read the config topic to its end and join again."""
        if state.offset < round.config_offset:
            empty = _assignment(round, round.config_offset)
            mismatch = dataclasses.replace(empty, error=CONFIG_MISMATCH)
            return Outcome(dict.fromkeys(round.members, mismatch))
        shares = self._share(round, state, now_ms)
        empty = _assignment(round, state.offset)
        assignments = {
            member: dataclasses.replace(
                empty, assigned=share.assigned, revoked=share.revoked, delay_ms=shares.delay_ms
            )
            for member, share in shares.members.items()
        }
        owners = {
            id: round.members[member].url for member, share in shares.members.items() for id in share.owned
        }
        return Outcome(assignments, owners)

    def _share(self, round: Round, state: ConfigState, now_ms: int) -> Shares:
        names = sorted(round.members)
        if round.protocol == EAGER:
            return share_eagerly(names, state)
        return self.assignor.step(
            {name: _work(round.members[name]) for name in names},
            state,
            now_ms,
            generation=round.generation,
            last_generation=round.last_generation,
        )


def _assignment(round: Round, config_offset: int) -> ExtendedAssignment:
    return ExtendedAssignment(
        version=VERSIONS[round.protocol],
        leader=round.leader,
        leader_url=round.members[round.leader].url,
        config_offset=config_offset,
    )


def _work(member: WorkerState) -> Sequence[TaskId]:
    return () if member.assignment is None else member.assignment.assigned


def with_kept_work(new: ExtendedAssignment, old: ExtendedAssignment | None) -> ExtendedAssignment:
    """The whole assignment of a member after an incremental rebalance: what is new, and what it keeps.

    As in Java, new work comes before old work, and connectors before tasks.
    """
    before = () if old is None else old.assigned
    revoked = set(new.revoked)
    work = dict.fromkeys([*new.assigned, *(id for id in before if id not in revoked)])
    return dataclasses.replace(new, assigned=connectors_first(work))
