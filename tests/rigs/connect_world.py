"""A group of Connect workers without a broker: the commands of the files tests/scenario/connect_*.txt.

Each rebalance runs as the coordinator would: all present workers join with their current work, the leader decides, and
each worker takes its share. The leader is the first worker that has joined.

    eager | delay MS             which assignor decides; scheduled.rebalance.max.delay.ms
    connector NAME TASKS         a connector with a number of tasks; a known one changes its tasks
    delete NAME                  a connector and its tasks are removed
    join WORKER … | leave WORKER …
                                 workers come without work, or go with all they have
    keep WORKER                  a worker returns with the work that it had when it left
    rebalance [lost=WORKER …]    one round; the assignments of some workers get lost
    settle                       rounds until no worker has given anything up
    +ms                          time passes
"""

from __future__ import annotations

import itertools

from kcli.connect.decisions.assignment import IncrementalAssignor, Shares, share_eagerly
from kcli.connect.decisions.config_state import ConfigState
from kcli.connect.model import CONNECTOR, TaskId
from rigs.scenarios import Commands

ROUNDS_MAX = 20
"""The rounds after which a group must be settled."""


class ConnectWorld(Commands):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.delay_ms = 300_000
        self.is_eager = False
        self.counts: dict[str, int] = {}
        self.workers: dict[str, list[TaskId]] = {}
        self.gone: dict[str, list[TaskId]] = {}
        self.generation = 0
        self._leaders: dict[str, tuple[IncrementalAssignor, int]] = {}
        """The memory of each leader, and the last generation whose assignment it has got."""

    def run(self, command: str) -> list[str]:
        if command.startswith("+"):
            self.now_ms += int(command[1:])
            return []
        return super().run(command)

    @property
    def state(self) -> ConfigState:
        names = sorted(self.counts)
        return ConfigState(
            connectors={name: {} for name in names},
            tasks={name: tuple({} for _ in range(self.counts[name])) for name in names},
        )

    # Commands.

    def _do_eager(self, _words: list[str]) -> None:
        self.is_eager = True

    def _do_delay(self, words: list[str]) -> None:
        self.delay_ms = int(words[0])

    def _do_connector(self, words: list[str]) -> None:
        self.counts[words[0]] = int(words[1])

    def _do_delete(self, words: list[str]) -> None:
        for name in words:
            del self.counts[name]

    def _do_join(self, words: list[str]) -> None:
        for worker in words:
            self.workers[worker] = []

    def _do_keep(self, words: list[str]) -> None:
        for worker in words:
            self.workers[worker] = self.gone[worker]

    def _do_leave(self, words: list[str]) -> None:
        for worker in words:
            self.gone[worker] = self.workers.pop(worker)
            self._leaders.pop(worker, None)

    def _do_rebalance(self, words: list[str]) -> None:
        lost = [word.removeprefix("lost=") for word in words]
        self.take(self.decide(), lost)

    def _do_settle(self, _words: list[str]) -> None:
        for _ in range(ROUNDS_MAX):
            shares = self.decide()
            self.take(shares)
            if not any(share.revoked for share in shares.members.values()):
                return
        raise AssertionError(f"the group is not settled after {ROUNDS_MAX} rounds")

    # A rebalance.

    def decide(self) -> Shares:
        """What the leader decides. A worker leads as long as it is present, and then the next one."""
        self.generation += 1
        members = {worker: tuple(self.workers[worker]) for worker in sorted(self.workers)}
        if self.is_eager:
            return share_eagerly(tuple(members), self.state)
        leader = next(iter(self.workers))
        assignor, last = self._leaders.setdefault(leader, (IncrementalAssignor(self.delay_ms), -1))
        return assignor.step(
            members, self.state, self.now_ms, generation=self.generation, last_generation=last
        )

    def take(self, shares: Shares, lost: list[str] | None = None) -> None:
        for worker, share in shares.members.items():
            if lost and worker in lost:
                self.out.append(f"{worker}: lost")
                continue
            kept = [] if self.is_eager else [id for id in self.workers[worker] if id not in share.revoked]
            self.workers[worker] = [*share.assigned, *kept]
            changes = "".join(
                f" {sign}{_text(work)}"
                for sign, work in (("+", share.assigned), ("-", share.revoked))
                if work
            )
            self.out.append(f"{worker}:{changes or ' ='}")
        leader = next(iter(self.workers), None)
        if leader in self._leaders and leader not in (lost or ()):
            self._leaders[leader] = self._leaders[leader][0], self.generation
        if shares.delay_ms:
            self.out.append(f"again in {shares.delay_ms}")


def _text(work: tuple[TaskId, ...] | list[TaskId]) -> str:
    """The connectors, and the numbers of tasks by connector: `a b(0,2)`. An asterisk stands for the connector."""
    by_name = itertools.groupby(sorted(work), key=lambda id: id.connector)
    return " ".join(
        f"{name}({','.join('*' if id.task == CONNECTOR else str(id.task) for id in ids)})"
        for name, ids in by_name
    )
