"""Shares the connectors and tasks of a group among its workers: what the leader decides in each rebalance.

Work is a set of task ids, in which the number -1 stands for the connector itself. Connectors and tasks are balanced
separately. The result of a rebalance is what each member gets and what it must give up.

In an eager rebalance, each member gives up everything before it joins, so the leader shares all work again.

An incremental rebalance (KIP-415) moves as little as possible, and has two rounds. In the first round, a member gives
up its surplus and joins again immediately. In the second round, the surplus is new work for the other members. The work
of a member that has left waits for a delay, because a worker that restarts soon should find its work. A new leader does
not know the members before it, so it immediately assigns all work that no member has.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from kcli.client.group.protocol import NO_GENERATION
from kcli.connect.decisions.config_state import ConfigState
from kcli.connect.model import CONNECTOR, TaskId

BACKOFF_BASE = 40
"""The factor by which the delay before another revocation grows (Java's consecutive revoking rebalances)."""

BACKOFF_EXPONENT_MAX = 20
"""The exponent from which the delay is always the longest delay: 40^20 ms are longer than any delay."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one member gets and gives up in a rebalance, and its work after that."""

    assigned: Sequence[TaskId] = ()
    revoked: Sequence[TaskId] = ()
    owned: Sequence[TaskId] = ()


@dataclass(frozen=True, slots=True)
class Shares:
    """The result of a rebalance. `delay_ms` is the time after which all members must join again, or 0."""

    members: Mapping[str, Share]
    delay_ms: int = 0


def configured_work(state: ConfigState) -> tuple[TaskId, ...]:
    """All connectors, and then all tasks, in the order of their names."""
    names = sorted(state.connectors)
    connectors = [TaskId(name, CONNECTOR) for name in names]
    return (*connectors, *(task for name in names for task in state.task_ids(name)))


def connectors_first(work: Iterable[TaskId]) -> tuple[TaskId, ...]:
    """The work in its order, except that connectors come before tasks."""
    return tuple(sorted(work, key=lambda id: id.task != CONNECTOR))


def share_eagerly(members: Sequence[str], state: ConfigState) -> Shares:
    """Gives connectors and then tasks to the members in turn."""
    owned: dict[str, list[TaskId]] = {member: [] for member in members}
    for number, id in enumerate(configured_work(state)):
        owned[members[number % len(members)]].append(id)
    return Shares({name: Share(assigned=work, owned=work) for name, work in owned.items()})


@dataclass(slots=True)
class _Load:
    """The work of one member while the leader decides."""

    member: str
    work: dict[TaskId, None]

    def of_kind(self, is_connector: bool) -> list[TaskId]:
        return [id for id in self.work if (id.task == CONNECTOR) == is_connector]


@dataclass(slots=True)
class IncrementalAssignor:
    """The leader's memory between two incremental rebalances. `step` decides one rebalance.

    The memory is valid as long as the member leads every generation. After a generation without its assignment, the
    leader forgets what it had assigned.
    """

    max_delay_ms: int
    """scheduled.rebalance.max.delay.ms"""
    _assigned: set[TaskId] = field(default_factory=set)
    """The work that some member should have after the last rebalance."""
    _members: frozenset[str] = frozenset()
    _generation: int = NO_GENERATION
    _delay_ms: int = 0
    _delay_ends_ms: int = 0
    """The end of the delay, or 0 if no delay is active."""
    _newcomers: dict[str, None] = field(default_factory=dict)
    """The members without work that were present during the delay. They get the work of the lost members."""
    _has_revoked: bool = False
    """Whether the last rebalance has revoked work only to balance the load."""
    _revoking_rebalances: int = 0
    """The number of rebalances in a row that had to revoke work to balance the load."""

    def step(
        self,
        members: Mapping[str, Collection[TaskId]],
        state: ConfigState,
        now_ms: int,
        *,
        generation: int,
        last_generation: int,
    ) -> Shares:
        """Decides the rebalance of a generation. `members` has the work that each member runs at present. If several
        decisions are equally good, the order of the members decides.

        `last_generation` is the last generation whose assignment this worker has got. `now_ms` never goes back.
        """
        configured = configured_work(state)
        active = _union(members.values())
        if self._generation != last_generation:
            self._assigned = set()

        deleted = (self._assigned | active) - set(configured)
        lost = sorted(self._assigned - active - deleted)
        created = [id for id in configured if id not in self._assigned and id not in active]
        duplicated = _duplicated(members.values())
        revoked = {
            member: {id: None for id in work if id in deleted or id in duplicated}
            for member, work in members.items()
        }
        loads = [
            _Load(member, {id: None for id in work if id not in revoked[member]})
            for member, work in members.items()
        ]
        created += self._replace_lost(lost, loads, now_ms)
        self._balance(configured, loads, revoked, now_ms)
        for is_connector in (True, False):
            _spread([id for id in created if (id.task == CONNECTOR) == is_connector], loads, is_connector)

        self._assigned = (_union(load.work for load in loads) - _union(revoked.values())) | set(lost)
        self._generation, self._members = generation, frozenset(members)
        return Shares({load.member: _share(load, members, revoked) for load in loads}, self._delay_ms)

    # The delay.

    def _replace_lost(self, lost: list[TaskId], loads: Sequence[_Load], now_ms: int) -> list[TaskId]:
        """Decides about the work of members that have left. Returns the work that is treated as new."""
        if not lost and not self._has_revoked:
            self._end_delay()
            return []
        present = {load.member for load in loads}
        is_delayed = self._delay_ends_ms > 0
        if not is_delayed and present >= self._members:
            return lost  # no member has left, so a member did not get its assignment
        if self.max_delay_ms == 0:
            return lost
        if not is_delayed or now_ms < self._delay_ends_ms:
            self._newcomers.update({load.member: None for load in loads if not load.work})
            left_ms = self._delay_ends_ms - now_ms
            self._delay_ms = min(left_ms, self.max_delay_ms) if is_delayed else self.max_delay_ms
            self._delay_ends_ms = now_ms + self._delay_ms
            return []
        newcomers = [load for load in loads if load.member in self._newcomers]
        self._end_delay()
        self._has_revoked = False
        if not newcomers:
            return lost
        for is_connector in (True, False):
            of_kind = [id for id in lost if (id.task == CONNECTOR) == is_connector]
            for number, id in enumerate(of_kind):
                newcomers[number % len(newcomers)].work[id] = None
        return []

    def _end_delay(self) -> None:
        self._newcomers.clear()
        self._delay_ms = self._delay_ends_ms = 0

    # Balance.

    def _balance(
        self,
        configured: Sequence[TaskId],
        loads: Sequence[_Load],
        revoked: dict[str, dict[TaskId, None]],
        now_ms: int,
    ) -> None:
        """Revokes the surplus of members. After a rebalance that has done so already, this waits for a back-off,
        because members that join one after another would else stop the same work again and again."""
        if self._delay_ms:
            self._has_revoked = False
            return
        surplus = _surplus(configured, loads)
        if not surplus:
            self._has_revoked, self._revoking_rebalances = False, 0
            return
        if self._has_revoked:
            self._revoking_rebalances += 1
            self._delay_ms = self._backoff_ms()
            if self._delay_ms:
                self._delay_ends_ms = now_ms + self._delay_ms
                return
        self._has_revoked = True
        for load in loads:
            for id in surplus.get(load.member, ()):
                del load.work[id]
                revoked[load.member][id] = None

    def _backoff_ms(self) -> int:
        backoff_ms: int = BACKOFF_BASE ** min(self._revoking_rebalances, BACKOFF_EXPONENT_MAX)
        return min(backoff_ms, self.max_delay_ms)


def _surplus(configured: Sequence[TaskId], loads: Sequence[_Load]) -> dict[str, list[TaskId]]:
    """The work of each member that is more than its part of a balanced assignment."""
    surplus: dict[str, list[TaskId]] = {}
    if any(load.work for load in loads):
        for is_connector in (True, False):
            total = sum((id.task == CONNECTOR) == is_connector for id in configured)
            for member, ids in _surplus_of_kind(
                total, {load.member: load.of_kind(is_connector) for load in loads}
            ):
                surplus.setdefault(member, []).extend(ids)
    return surplus


def _surplus_of_kind(total: int, work: Mapping[str, list[TaskId]]) -> list[tuple[str, list[TaskId]]]:
    least, extras = divmod(total, len(work))
    surplus = []
    for member, ids in work.items():
        if len(ids) > least:
            most = least + (extras > 0)
            extras -= 1
            if len(ids) > most:
                surplus.append((member, ids[: len(ids) - most]))
    return surplus


def _spread(ids: Iterable[TaskId], loads: Iterable[_Load], is_connector: bool) -> None:
    """Gives each id to the member with the least work of its kind."""
    counts = [(len(load.of_kind(is_connector)), load) for load in loads]
    counts.sort(key=itemgetter(0))
    heap = [(count, number, load) for number, (count, load) in enumerate(counts)]
    for id in ids:
        count, number, load = heap[0]
        load.work[id] = None
        heapq.heapreplace(heap, (count + 1, number, load))


def _share(
    load: _Load, members: Mapping[str, Collection[TaskId]], revoked: Mapping[str, dict[TaskId, None]]
) -> Share:
    before = set(members[load.member])
    return Share(
        assigned=connectors_first(id for id in load.work if id not in before),
        revoked=connectors_first(revoked[load.member]),
        owned=tuple(load.work),
    )


def _duplicated(works: Iterable[Collection[TaskId]]) -> set[TaskId]:
    counts = Counter(id for work in works for id in work)
    return {id for id, count in counts.items() if count > 1}


def _union(works: Iterable[Collection[TaskId]]) -> set[TaskId]:
    return {id for work in works for id in work}
