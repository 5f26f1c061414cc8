"""The parent process of a cluster: starts the nodes, restarts a node whose process died, and stops the nodes one after
another.

`supervise` runs in the foreground until SIGTERM, SIGINT or SIGHUP. `start_in_background` runs this module as a program.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path

from kcli.config.environment import without_options_of_one_node
from kcli.local_cluster.directory import (
    CLUSTER_LOG,
    ClusterNode,
    LocalCluster,
    check_startable,
    held_by_this_process,
    load_cluster,
)
from kcli.local_cluster.layout import ClusterError
from kcli.local_cluster.node_process import NodeProcess
from kcli.local_cluster.signals import Signals
from kcli.local_cluster.stopping import POLL_S, RollingStop, StoppableNode
from kcli.local_cluster.watch import Restarts
from kcli.runtime.clock import Clock, SystemClock
from kcli.runtime.descriptors import raise_limit
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import Machine

READY = "ready"
REST_S = 5.0
"""The pause between two checks while all processes run. If a process ends, its signal ends the pause early."""


class NodeState(Enum):
    """The state of a node, as the parent process knows it."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    """The node died and will be started again."""
    STOPPED = "stopped"
    """The node ended with exit code 0, because a user stopped it."""
    FAILED = "failed"
    """The node died and stays down."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something that happened to a node, or to the cluster if `node` is None."""

    time: str
    node: int | None
    event: str
    detail: str

    def line(self) -> str:
        subject = "cluster" if self.node is None else f"node {self.node}"
        return f"{self.time} {subject}: {self.event}" + (f" ({self.detail})" if self.detail else "")


Report = Callable[[ClusterEvent], None]


@dataclass(slots=True)
class _Watched:
    node: ClusterNode
    process: NodeProcess
    restarts: Restarts
    state: NodeState = NodeState.STARTING
    since: float = 0.0  # when the process was started
    start_at: float = 0.0  # for WAITING

    @property
    def is_alive(self) -> bool:
        return self.state in (NodeState.STARTING, NodeState.RUNNING)


class Supervisor:
    """Watches the nodes of a cluster from their start to their stop. `request_stop` may be called by a signal handler.

    `pause` sleeps between two checks of the processes, and may end early. Tests replace the processes, the clock and
    `pause`.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        report: Report,
        *,
        restarts: bool = True,
        process_of: Callable[[ClusterNode], NodeProcess] | None = None,
        clock: Clock | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        make = process_of or _process_of
        self._cluster = cluster
        self._report = report
        self._clock = clock or SystemClock()
        self._pause = pause
        self._watched = [_Watched(node, make(node), Restarts(restarts)) for node in cluster.nodes]
        self._stops_requested = 0

    def request_stop(self) -> None:
        """Asks for a rolling stop. The second request kills the nodes that still run."""
        self._stops_requested += 1

    def run(self, when_ready: Callable[[], None]) -> int:
        """Runs the cluster until a stop is requested or all nodes have ended. Returns the exit code.

        Raises ClusterError with the last lines of a log if a node does not start. The other nodes are then stopped.
        """
        try:
            self._start()
            if not self._stops_requested:
                self._event(None, "running", self._cluster.bootstrap)
                when_ready()
            while not self._stops_requested and any(
                watched.state in _UNDER_WATCH for watched in self._watched
            ):
                self._look()
                self._pause(self._rest_s())
        finally:
            self._stop()
        return 1 if any(watched.state is NodeState.FAILED for watched in self._watched) else 0

    def _start(self) -> None:
        """Starts all nodes, and returns when all are ready or a stop is requested."""
        for watched in self._watched:
            self._spawn(watched)
        while not self._stops_requested and any(
            watched.state is NodeState.STARTING for watched in self._watched
        ):
            for watched in self._watched:
                code = watched.process.exit_code()
                if code is not None:
                    watched.state = NodeState.FAILED
                    raise ClusterError(_did_not_start(watched, code))
                self._see_ready(watched)
            self._pause(POLL_S)

    def _look(self) -> None:
        for watched in self._watched:
            if watched.state is NodeState.WAITING and self._clock.monotonic() >= watched.start_at:
                self._spawn(watched)
            elif watched.is_alive:
                code = watched.process.exit_code()
                if code is None:
                    self._see_ready(watched)
                else:
                    self._ended(watched, code)

    def _rest_s(self) -> float:
        """The length of the pause after a check. The end of a process or a request to stop ends the pause early."""
        return REST_S if all(watched.state not in _CHANGING for watched in self._watched) else POLL_S

    def _spawn(self, watched: _Watched) -> None:
        watched.process.start()
        watched.state, watched.since = NodeState.STARTING, self._clock.monotonic()
        self._event(watched, "starting", f"process {watched.process.pid}")

    def _see_ready(self, watched: _Watched) -> None:
        if watched.state is NodeState.STARTING and watched.process.is_ready():
            watched.state = NodeState.RUNNING
            self._event(watched, "running", watched.node.address if watched.node.config.is_broker else "")

    def _ended(self, watched: _Watched, code: int) -> None:
        if code == 0:
            watched.state = NodeState.STOPPED
            self._event(watched, "stopped", "by a user, so it is not started again")
            return
        now = self._clock.monotonic()
        last = watched.process.last_lines(1)
        self._event(watched, "died", "; ".join([_death(code), *last]))
        pause_s = watched.restarts.pause_after(now - watched.since)
        if pause_s is None:
            watched.state = NodeState.FAILED
            self._event(
                watched, "stays down", f"after {watched.restarts.count} restarts; see {watched.node.log_file}"
            )
        else:
            watched.state, watched.start_at = NodeState.WAITING, now + pause_s
            self._event(
                watched, "will be started again", f"in {pause_s:g} s, restart {watched.restarts.count}"
            )

    def _stop(self) -> None:
        """Stops the running nodes."""
        alive = {watched.node.node_id: watched for watched in self._watched if watched.is_alive}
        stops = self._stops_requested
        rolling = RollingStop(
            sum(watched.node.config.is_controller for watched in self._watched),
            lambda node_id, event: self._event(alive[node_id], event, ""),
            is_urgent=lambda: self._stops_requested > stops,
            clock=self._clock,
            pause=self._pause,
        )
        rolling.stop([_stoppable(watched) for watched in alive.values()])
        if alive:
            self._event(None, "stopped", "")

    def _event(self, watched: _Watched | None, event: str, detail: str) -> None:
        moment = datetime.fromtimestamp(self._clock.now_ms() / 1000).astimezone()
        node = watched.node.node_id if watched is not None else None
        shown = ClusterEvent(moment.isoformat(sep=" ", timespec="milliseconds"), node, event, detail)
        # If the terminal or the reader of the output has gone, the nodes must still be watched and stopped.
        with contextlib.suppress(OSError):
            self._report(shown)


_CHANGING = (NodeState.STARTING, NodeState.WAITING)
_UNDER_WATCH = (NodeState.RUNNING, *_CHANGING)


def _stoppable(watched: _Watched) -> StoppableNode:
    process = watched.process
    return StoppableNode(
        watched.node.node_id,
        watched.node.config.is_controller,
        lambda: process.exit_code() is None,
        process.send,
    )


def _process_of(node: ClusterNode) -> NodeProcess:
    environment = without_options_of_one_node(os.environ)
    return NodeProcess(
        node.properties_file, node.output_file, log_file=node.log_file, environment=environment
    )


def _death(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _did_not_start(watched: _Watched, code: int) -> str:
    lines = "".join(f"\n  {line}" for line in watched.process.last_lines())
    return f"node {watched.node.node_id} did not start ({_death(code)}). The end of {watched.node.output_file}:{lines}"


def supervise(
    directory: Path, report: Report, *, restarts: bool, when_ready: Callable[[LocalCluster], None]
) -> int:
    """Starts the cluster of a directory and watches it until a signal. Returns the exit code.

    Raises ClusterError if the cluster runs already or cannot be started.
    """
    raise_limit()
    with held_by_this_process(directory, system_machine()):
        cluster = load_cluster(directory)
        check_startable(cluster)
        with Signals() as signals:
            supervisor = Supervisor(cluster, report, restarts=restarts, pause=signals.pause)
            signals.when_stopped = supervisor.request_stop
            return supervisor.run(lambda: when_ready(cluster))


def start_in_background(directory: Path, *, restarts: bool) -> int:
    """Starts the parent in the background, and returns its process id when all nodes are ready.

    The parent writes its events to cluster.log. Raises ClusterError if it cannot start the cluster.
    """
    read_end, write_end = os.pipe()
    argv = [sys.executable, "-m", __name__, os.fspath(directory), "--report-to", str(write_end)]
    with (directory / CLUSTER_LOG).open("ab") as log:
        parent = subprocess.Popen(
            argv if restarts else [*argv, "--no-restart"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(write_end,),
            start_new_session=True,
        )
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as outcome:
        answer = outcome.read()
    # The parent continues to run. Without this line Python would warn about an unfinished child.
    parent.returncode = 0
    if answer != READY:
        raise ClusterError(answer or f"the parent process ended: see {directory / CLUSTER_LOG}")
    return parent.pid


def system_machine() -> Machine:
    return Machine(SystemDisk(), SystemClock(), SystemRng())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the parent in the background. Writes `ready` or an error to the descriptor of `--report-to`."""
    parser = argparse.ArgumentParser(prog=__name__, description="Runs and watches the nodes of a cluster.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--report-to", type=int, required=True, help="a descriptor of the starting process")
    parser.add_argument("--no-restart", action="store_true")
    options = parser.parse_args(arguments)
    outcome = os.fdopen(options.report_to, "w", encoding="utf-8")

    def answer(text: str) -> None:
        if not outcome.closed:
            outcome.write(text)
            outcome.close()

    try:
        return supervise(
            options.directory,
            lambda event: print(event.line(), flush=True),
            restarts=not options.no_restart,
            when_ready=lambda _cluster: answer(READY),
        )
    except ClusterError as error:
        answer(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
