"""Random lives of a group of Connect workers: they join, crash, return and miss assignments; connectors come and go."""

from __future__ import annotations

import dataclasses
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.connect.decisions.assignment import Shares, configured_work
from kcli.connect.model import CONNECTOR, TaskId
from rigs.connect_world import ROUNDS_MAX, ConnectWorld
from rigs.examples import examples

WORKERS = ("w1", "w2", "w3", "w4", "w5")
CONNECTORS = ("a", "b", "c", "d")

EVENTS = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(WORKERS)),
    st.tuples(st.just("crash"), st.sampled_from(WORKERS)),
    st.tuples(st.just("return"), st.sampled_from(WORKERS)),
    st.tuples(st.just("miss"), st.sampled_from(WORKERS)),
    st.tuples(st.sampled_from(CONNECTORS), st.integers(0, 7)),
    st.tuples(st.just("delete"), st.sampled_from(CONNECTORS)),
    st.tuples(st.just("wait"), st.integers(1, 200)),
)


class Group(ConnectWorld):
    """A group whose workers do at once what the leader decides, in any order."""

    def __init__(self, delay_ms: int, seed: int) -> None:
        super().__init__()
        self.delay_ms = delay_ms
        self.running: dict[str, set[TaskId]] = {}
        self.again_ms: int | None = None
        """The time of the next scheduled rebalance."""
        self._unowned_since: dict[TaskId, int] = {}
        self._rng = random.Random(seed)

    def happen(self, kind: str, what: str | int) -> None:
        match kind, what:
            case "wait", int(duration_ms):
                self.wait(duration_ms)
                return
            case "join", str(worker) if worker not in self.workers:
                self._do_join([worker])
            case "return", str(worker) if worker not in self.workers and worker in self.gone:
                self._do_keep([worker])
            case "crash", str(worker) if worker in self.workers:
                self._do_leave([worker])
            case "miss", str(worker):
                self.rebalance(missing=worker)
            case "delete", str(connector):
                self.counts.pop(connector, None)
            case connector, int(count):
                self.counts[connector] = count
        self.running = {worker: self.running.get(worker, set()) for worker in self.workers}
        self.rebalance()

    def wait(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self.again_ms is not None and self.again_ms <= end_ms:
            self.now_ms = max(self.now_ms, self.again_ms)
            self.rebalance()
        self.now_ms = end_ms
        self._check_owners()

    def rebalance(self, missing: str | None = None) -> None:
        """Rounds until no worker must join again at once."""
        for _ in range(ROUNDS_MAX):
            if not self.workers:
                self.again_ms = None
                return
            shares = self.decide()
            self._take_in_any_order(shares, missing)
            self.again_ms = self.now_ms + shares.delay_ms if shares.delay_ms else None
            was_complete = missing not in shares.members
            missing = None
            if was_complete and not any(share.revoked for share in shares.members.values()):
                self._check_owners()
                return
        raise AssertionError("the group does not settle")

    def _take_in_any_order(self, shares: Shares, missing: str | None) -> None:
        members = list(shares.members)
        self._rng.shuffle(members)
        lost = [] if missing is None else [missing]
        for worker in members:
            self.take(dataclasses.replace(shares, members={worker: shares.members[worker]}), lost)
            if worker != missing:
                self.running[worker] = set(self.workers[worker])
            everything = [id for work in self.running.values() for id in work]
            assert len(everything) == len(set(everything)), "work runs twice"

    def _check_owners(self) -> None:
        owned = {id for work in self.running.values() for id in work}
        configured = set(configured_work(self.state))
        assert owned <= configured, "work runs that is not configured"
        unowned = configured - owned if self.workers else set()
        self._unowned_since = {id: self._unowned_since.get(id, self.now_ms) for id in unowned}
        for id, since_ms in self._unowned_since.items():
            assert self.now_ms - since_ms <= self.delay_ms, f"{id} has no owner since {since_ms}"

    def counts_of(self, is_connector: bool) -> list[int]:
        return [sum((id.task == CONNECTOR) is is_connector for id in work) for work in self.running.values()]


@settings(max_examples=examples(150))
@given(
    st.lists(EVENTS, min_size=1, max_size=30),
    st.sampled_from([0, 1, 100, 300]),
    st.integers(0, 1 << 30),
)
def test_no_work_runs_twice_or_waits_longer_than_the_delay(
    events: list[tuple[str, str | int]], delay_ms: int, seed: int
) -> None:
    group = Group(delay_ms, seed)
    group.happen("join", "w1")
    for kind, what in events:
        group.happen(kind, what)
    group.happen("join", "w5")
    for _ in range(ROUNDS_MAX):
        group.wait(delay_ms + 1)
    assert group.again_ms is None
    owned = {id for work in group.running.values() for id in work}
    assert owned == set(configured_work(group.state))
    for is_connector in (True, False):
        counts = group.counts_of(is_connector)
        assert max(counts) - min(counts) <= 1
