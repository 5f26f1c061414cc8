"""The parent of a cluster with scripted nodes and a clock of the test: starts, deaths, restarts and stops."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kcli.local_cluster.directory import ClusterNode, LocalCluster, create_cluster
from kcli.local_cluster.layout import ClusterError, plan_nodes, ports_needed
from kcli.local_cluster.stopping import LAST_WAIT_S, POLL_S, STOP_LIMIT_S
from kcli.local_cluster.supervisor import REST_S, ClusterEvent, Supervisor, system_machine


@dataclass
class FakeProcess:
    """A node that is ready at once. `ends` are the exit codes of its lives, after a second each; None lives on."""

    node: ClusterNode
    now: Callable[[], float]
    ends: list[int | None] = field(default_factory=list)
    ready: bool = True
    deaf: bool = False
    patience: int = 1
    """The number of signals that end it."""
    starts: list[float] = field(default_factory=list)
    signals: list[signal.Signals] = field(default_factory=list)
    code: int | None = None

    @property
    def pid(self) -> int:
        return 1000 + self.node.node_id

    def start(self) -> None:
        self.code = None
        self.starts.append(self.now())

    def exit_code(self) -> int | None:
        life = len(self.starts) - 1
        if self.code is None and life < len(self.ends) and self.now() >= self.starts[-1] + 1:
            self.code = self.ends[life]
        return self.code

    def is_ready(self) -> bool:
        return self.ready

    def send(self, number: signal.Signals) -> None:
        self.signals.append(number)
        if number is signal.SIGKILL:
            self.code = -9
        elif not self.deaf and len(self.signals) >= self.patience:
            self.code = 0

    def wait(self, _seconds: float) -> int:
        assert self.code is not None
        return self.code

    def last_lines(self, count: int = 15) -> list[str]:
        return [f"line {number}" for number in range(15)][-count:]


class Stage:
    """Three nodes of a cluster, a clock that `pause` moves, and the events."""

    def __init__(self, directory: Path, **options: bool) -> None:
        self.time = 0.0
        self.events: list[ClusterEvent] = []
        self.readies = 0
        self.pauses: list[float] = []
        self.at: dict[float, Callable[[], None]] = {}
        nodes = plan_nodes(3, range(20_000, 20_000 + ports_needed(3)), ["r"])
        self.cluster = create_cluster(directory, nodes, {}, system_machine())
        self.processes = {node.node_id: FakeProcess(node, self.monotonic) for node in self.cluster.nodes}
        self.supervisor = Supervisor(
            LocalCluster(directory, self.cluster.cluster_id, self.cluster.nodes),
            self.events.append,
            process_of=lambda node: self.processes[node.node_id],  # type: ignore[return-value]
            clock=self,
            pause=self.pause,
            **options,
        )

    def now_ms(self) -> int:
        return int(self.time * 1000)

    def monotonic(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        """Ends early after a signal, and after the end of a process."""
        until, codes = self.time + seconds, self.codes()
        self.pauses.append(seconds)
        while self.time < until and codes == self.codes():
            self.time += min(POLL_S, seconds)
            if due := [moment for moment in self.at if moment <= self.time]:
                for moment in due:
                    self.at.pop(moment)()
                return

    def codes(self) -> list[int | None]:
        return [process.exit_code() for process in self.processes.values()]

    def run(self, *, stop_at: float = 1000.0) -> int:
        self.at[stop_at] = self.supervisor.request_stop
        return self.supervisor.run(lambda: setattr(self, "readies", self.readies + 1))

    def told(self, node: int | None) -> list[str]:
        return [event.event for event in self.events if event.node == node]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_nodes_start_together_and_stop_one_after_another(stage: Stage) -> None:
    assert stage.run(stop_at=5) == 0
    assert stage.readies == 1
    assert stage.told(2) == ["starting", "running", "stopping", "stopped"]
    assert stage.told(None) == ["running", "stopped"]
    stops = [(event.node, event.event) for event in stage.events if event.event in ("stopping", "stopped")]
    assert stops[:3] == [(3, "stopping"), (3, "stopped"), (1, "stopping")]
    assert all(process.signals == [signal.SIGTERM] for process in stage.processes.values())


def test_a_node_that_died_is_started_again_after_a_pause(stage: Stage) -> None:
    stage.processes[2].ends = [-9, 1]
    assert stage.run(stop_at=60) == 0
    assert stage.told(2)[2:6] == ["died", "will be started again", "starting", "running"]
    died = [event.detail for event in stage.events if event.event == "died"]
    assert died == ["killed by SIGKILL; line 14", "exit code 1; line 14"]
    first, second, third = stage.processes[2].starts
    assert 2 <= second - first < 2.5 and 3 <= third - second < 3.5
    assert stage.readies == 1


def test_a_node_that_dies_again_and_again_stays_down_and_the_others_run(stage: Stage) -> None:
    stage.processes[2].ends = [1] * 100
    assert stage.run(stop_at=500) == 1
    assert len(stage.processes[2].starts) == 6
    assert stage.told(2)[-1] == "stays down"
    assert stage.told(1) == ["starting", "running", "stopping", "stopped"]


def test_without_restarts_a_dead_node_stays_down(tmp_path: Path) -> None:
    stage = Stage(tmp_path, restarts=False)
    stage.processes[3].ends = [1]
    assert stage.run(stop_at=30) == 1
    assert stage.told(3) == ["starting", "running", "died", "stays down"]


def test_a_node_that_a_user_stopped_is_not_started_again(stage: Stage) -> None:
    for process in stage.processes.values():
        process.ends = [0]
    assert stage.run() == 0
    assert stage.time < 10, "without nodes the parent ends"
    assert stage.told(1) == ["starting", "running", "stopped"]


def test_a_node_that_does_not_start_is_reported_with_its_last_lines(stage: Stage) -> None:
    for process in stage.processes.values():
        process.ready = False
    stage.processes[3].ends = [1]
    with pytest.raises(
        ClusterError,
        match=r"node 3 did not start \(exit code 1\)\. The end of .*kafkaServer.out:\n  line 0\n",
    ):
        stage.run()
    assert stage.readies == 0
    assert [stage.processes[node].signals for node in (1, 2, 3)] == [[signal.SIGTERM], [signal.SIGTERM], []]


def test_a_start_can_be_stopped(stage: Stage) -> None:
    stage.processes[1].ready = False
    assert stage.run(stop_at=3) == 0
    assert stage.readies == 0
    assert stage.told(1) == ["starting", "stopping", "stopped"]


def test_a_node_that_does_not_stop_in_time_is_killed(stage: Stage) -> None:
    stage.processes[3].deaf = True
    stage.run(stop_at=5)
    assert stage.processes[3].signals == [signal.SIGTERM, signal.SIGKILL]
    assert STOP_LIMIT_S + 5 <= stage.time < STOP_LIMIT_S + 7
    assert stage.processes[1].signals == [signal.SIGTERM]


def test_the_last_nodes_are_asked_again_because_no_controller_may_be_left(stage: Stage) -> None:
    stage.processes[1].patience = 2
    stage.run(stop_at=5)
    assert stage.processes[1].signals == [signal.SIGTERM, signal.SIGTERM]
    assert stage.told(1)[2:] == ["stopping", "stopping without a controller", "stopped"]
    assert stage.processes[2].signals == [signal.SIGTERM]
    assert LAST_WAIT_S + 5 <= stage.time < LAST_WAIT_S + 7


def test_a_second_signal_kills_the_nodes_that_still_run(stage: Stage) -> None:
    for process in stage.processes.values():
        process.deaf = True
    stage.at[7.0] = stage.supervisor.request_stop
    stage.run(stop_at=5)
    assert stage.time < 10
    assert all(process.signals[-1] is signal.SIGKILL for process in stage.processes.values())


def test_the_parent_seldom_looks_at_nodes_that_all_run(stage: Stage) -> None:
    stage.processes[2].ends = [-9]
    stage.run(stop_at=101)
    died = next(place for place, event in enumerate(stage.events) if event.event == "died")
    assert stage.events[died + 1].event == "will be started again"
    assert stage.processes[2].starts[1] < 2.5, "the end of a process ends a pause"
    assert stage.pauses.count(REST_S) == 21, "one pause until the death, and then one in five seconds"


def test_an_event_is_one_line(stage: Stage) -> None:
    stage.run(stop_at=5)
    assert stage.events[0].line().endswith(" node 1: starting (process 1001)")
    assert stage.events[-1].line().endswith(" cluster: stopped")
