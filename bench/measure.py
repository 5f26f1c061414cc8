"""What the benchmarks share: a broker on its own core, its CPU time and its memory, and the table of figures."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from kcli.testing.broker_process import BrokerProcess

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
CPU_CLOCK = 2
"""The clock of all threads of a process, counted in nanoseconds: CPUCLOCK_SCHED in Linux's posix-timers.h."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
QUIET_CPU_S = 0.06
"""The CPU seconds in a second below which the nodes of a cluster are idle."""
QUIET_LIMIT_S = 60.0
CORES = sorted(os.sched_getaffinity(0))
COMMAND = (sys.executable, "-m", "kcli", "server-start")
PARTITIONS = 4
PARTITIONS_PER_REQUEST = 5000
"""A node refuses a request that makes more than 10,000 metadata records."""
NO_GOAL = "none"
"""What the table shows for a figure without a goal."""
HEADER = f"{'figure':<60}{'value':>14} {'unit':<16}goal"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    name: str
    value: float
    unit: str
    goal: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of some work: its duration, and the CPU time of the broker."""

    seconds: float
    cpu_s: float


class Bench:
    """A broker, and the figures that were measured with it."""

    def __init__(self, broker: BrokerProcess, records: int) -> None:
        self.broker = broker
        self.records = records
        self.figures: list[Figure] = []

    @property
    def pid(self) -> int:
        assert self.broker.process is not None
        return self.broker.process.pid

    def add(self, name: str, value: float, unit: str, goal: str = "") -> None:
        self.figures.append(Figure(name, value, unit, goal))
        print(f"{name:<60}{value:>14,.3f} {unit:<16}{goal or NO_GOAL}", flush=True)

    def cpu_s(self) -> float:
        """Returns the CPU seconds that the broker and its children have used so far."""
        return sum(map(cpu_s, processes(self.pid)))

    def memory_mb(self) -> float:
        """Returns the resident memory of the broker and its children."""
        return resident_mb(self.pid)

    def topic(self, name: str, partitions: int = PARTITIONS) -> str:
        """Creates a topic."""
        from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        created = min(partitions, PARTITIONS_PER_REQUEST)
        admin.create_topics([NewTopic(name, created, 1)])[name].result(30)
        while created < partitions:
            created = min(partitions, created + PARTITIONS_PER_REQUEST)
            admin.create_partitions([NewPartitions(name, created)])[name].result(30)
        return name

    def delete(self, topic: str) -> None:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        admin.delete_topics([topic])[topic].result(30)

    def cost(self, work: Callable[[], float]) -> Cost:
        """Runs `work`, which returns its duration in seconds."""
        before = self.cpu_s()
        seconds = work()
        return Cost(seconds, self.cpu_s() - before)

    def load(self, name: str, records: int, work: Callable[[], float], cpu_goal: str = "") -> Cost:
        """Adds the rate of `work` and the CPU time of the broker per record to the figures. The rate has no goal."""
        cost = self.cost(work)
        self.add(f"{name}: rate", records / cost.seconds / 1000, "k msg/s")
        self.add(f"{name}: broker CPU", cost.cpu_s / records * 1e6, "CPU-s/M msg", cpu_goal)
        return cost


def processes(pid: int) -> Iterator[int]:
    """Yields the id of a process, and those of its children and their children."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended meanwhile
        return
    for child in children:
        yield from processes(int(child))


def resident_mb(pid: int) -> float:
    """Returns the resident memory of a process and its children."""
    return sum(map(_resident_pages, processes(pid))) * PAGE_BYTES / 1e6


def _resident_pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0


def cpu_s(pid: int) -> float:
    """Returns the CPU seconds of a process and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        own = time.clock_gettime(~pid << 3 | CPU_CLOCK)
    except OSError:  # it has ended meanwhile
        return 0.0
    return own + sum(map(int, fields[13:15])) / TICKS_PER_SECOND


@contextmanager
def running(records: int = 0, overrides: Mapping[str, str] | None = None) -> Iterator[Bench]:
    """Starts a broker in an empty directory, on the first core. This process and its children use the other cores."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # so that kcli has byte code, as an installed program has
    with (
        tempfile.TemporaryDirectory(prefix="kcli-bench-") as directory,
        BrokerProcess(
            directory, overrides, command=COMMAND, environment=users_environment(Path(directory))
        ) as broker,
        pinned(broker),
    ):
        yield Bench(broker, records)


def users_environment(directory: Path) -> dict[str, str]:
    """Returns an environment without the test library Hypothesis, as users have it.

    kio imports Hypothesis if it is installed, which takes 8 MB of memory in a node.
    """
    hidden = directory / "hidden"
    hidden.mkdir(parents=True, exist_ok=True)
    (hidden / "hypothesis.py").write_text("raise ImportError('this is a test library')\n")
    path = os.pathsep.join(filter(None, (str(hidden), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


@contextmanager
def pinned(broker: BrokerProcess) -> Iterator[None]:
    if len(CORES) > 1:
        assert broker.process is not None
        for thread in Path(f"/proc/{broker.process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), CORES[:1])
        on_client_cores()
    try:
        yield
    finally:
        os.sched_setaffinity(0, CORES)


def on_client_cores() -> None:
    if len(CORES) > 1:
        os.sched_setaffinity(0, CORES[1:])


def timed(work: Callable[[], object]) -> float:
    """Returns the seconds that `work` takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def until_quiet(cpu_s: Callable[[], float]) -> None:
    """Waits until the processes that `cpu_s` measures take little CPU time. A node loads modules in the first seconds
    after its start."""
    deadline = time.monotonic() + QUIET_LIMIT_S
    while time.monotonic() < deadline:
        before = cpu_s()
        time.sleep(1)
        if cpu_s() - before < QUIET_CPU_S:
            return


def print_json(figures: list[Figure]) -> None:
    for figure in figures:
        print(json.dumps(asdict(figure)))
