"""Measures the time, CPU time and memory of each command on a cluster of many topics, and compares them with goals.

    python bench/tools.py [--topics 10000] [--groups 1000] [--only describe,offsets,…]

Starts a broker, creates the topics and groups, and runs each command once in a new process. The broker runs on the
first core, and the commands on the other cores. If other programs use the machine, the CPU seconds are still valid, but
the elapsed seconds are not. The peak memory is that of the command. At the end, prints one JSON line for each command.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from run import Bench, _pinned

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CommittedOffset
from kcli.client.admin.topics import NewTopic
from kcli.client.config import client_config
from kcli.model.topic_partition import TopicPartition
from kcli.testing.broker_process import BrokerProcess

TOPICS_PER_REQUEST = 2000
GROUPS_AT_ONCE = 50
TOPICS_PER_GROUP = 3
MEMORY_GOAL_MB = 200


@dataclass(frozen=True, slots=True)
class Tool:
    """A command to measure. `goal_s` is for 10,000 topics and a quiet machine with two cores. 0 means no goal."""

    key: str
    arguments: tuple[str, ...]
    goal_s: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The time, CPU time and memory of one run of a command."""

    command: str
    seconds: float
    goal_s: float
    tool_cpu_s: float
    broker_cpu_s: float
    peak_mb: float
    output_lines: int

    def line(self) -> str:
        goal = f"<= {self.goal_s:g} s" if self.goal_s else ""
        return (
            f"{self.command:<48}{self.seconds:>9.2f}  {goal:<9}{self.tool_cpu_s:>9.2f}{self.broker_cpu_s:>11.2f}"
            f"{self.peak_mb:>9.0f}{self.output_lines:>10,}"
        )


HEADER = (
    f"{'command':<48}{'seconds':>9}  {'goal':<9}{'CPU-s':>9}{'broker CPU':>11}{'peak MB':>9}{'lines':>10}"
    f"   (memory goal: <= {MEMORY_GOAL_MB} MB)"
)


def tools(directory: Path, topics: Sequence[str]) -> Iterator[Tool]:
    """The commands. The last commands delete topics and groups that the other commands need."""
    offsets = directory / "offsets.json"
    partitions = [{"topic": topic, "partition": 0, "offset": -1} for topic in topics]
    offsets.write_text(json.dumps({"partitions": partitions, "version": 1}))
    yield Tool("list", ("topics", "--list"))
    yield Tool("describe", ("topics", "--describe"), 3)
    yield Tool("offsets", ("get-offsets",), 3)
    yield Tool("configs", ("configs", "--describe", "--entity-type", "topics"), 5)
    yield Tool("configs-all", ("configs", "--describe", "--entity-type", "topics", "--all"))
    yield Tool("top", ("top", "--once", "--interval", "0.2"))
    yield Tool("log-dirs", ("log-dirs", "--describe"))
    yield Tool("groups", ("consumer-groups", "--describe", "--all-groups"))
    yield Tool("delete-records", ("delete-records", "--offset-json-file", str(offsets), "--yes"))
    yield Tool("delete", ("topics", "--delete", "--topic", "bench-.*", "--yes"))


def measure(tool: Tool, bench: Bench, output: Path) -> Cost:
    """Runs one command. Raises SystemExit if it fails."""
    name, *rest = tool.arguments
    command = [sys.executable, "-m", "kcli", name, "--bootstrap-server", bench.broker.bootstrap, *rest]
    cpu = bench.cpu_s()
    begun = time.perf_counter()
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(
            f"{' '.join(command)} ended with {process.returncode}:\n{output.read_text()[-2000:]}"
        )
    return Cost(
        command=" ".join(tool.arguments)[:46] if tool.key != "delete-records" else "delete-records",
        seconds=round(seconds, 3),
        goal_s=tool.goal_s,
        tool_cpu_s=round(usage.ru_utime + usage.ru_stime, 3),
        broker_cpu_s=round(bench.cpu_s() - cpu, 3),
        peak_mb=round(usage.ru_maxrss / 1024, 1),
        output_lines=_lines(output),
    )


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


async def fill(bootstrap: str, topics: Sequence[str], groups: int) -> None:
    """Creates the topics, and groups that have committed offsets for a few of them."""
    async with AdminClient(client_config({}, bootstrap_servers=bootstrap)) as client:
        for start in range(0, len(topics), TOPICS_PER_REQUEST):
            part = topics[start : start + TOPICS_PER_REQUEST]
            for error in (await client.create_topics([NewTopic(name=name) for name in part])).values():
                if error is not None:
                    raise error

        async def commit(number: int) -> None:
            names = [topics[(number + each) % len(topics)] for each in range(TOPICS_PER_GROUP)]
            offsets = {TopicPartition(name, 0): CommittedOffset(offset=0) for name in names}
            await client.alter_group_offsets(f"group-{number}", offsets)

        for start in range(0, groups, GROUPS_AT_ONCE):
            await asyncio.gather(*map(commit, range(start, min(start + GROUPS_AT_ONCE, groups))))


def fill_in_another_process(bootstrap: str, topics: Sequence[str], groups: int) -> None:
    """Runs `fill` in another process. The peak memory of a command includes the memory of the process that starts it,
    so this process must stay small."""
    process = multiprocessing.Process(target=lambda: asyncio.run(fill(bootstrap, topics, groups)))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit("the topics and groups could not be created")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode
    parts = options.only.split(",") if options.only else []
    costs = []
    with tempfile.TemporaryDirectory(prefix="kcli-bench-") as name:
        directory = Path(name)
        with BrokerProcess(directory / "broker") as broker, _pinned(broker):
            topics = [f"bench-{number:06}" for number in range(options.topics)]
            begun = time.perf_counter()
            fill_in_another_process(broker.bootstrap, topics, options.groups)
            print(
                f"{options.topics:,} topics, {options.groups:,} groups: {time.perf_counter() - begun:.1f} s"
            )
            print(HEADER, flush=True)
            bench = Bench(broker, 0)
            for tool in tools(directory, topics):
                if not parts or tool.key in parts:
                    costs.append(measure(tool, bench, directory / "output"))
                    print(costs[-1].line(), flush=True)
    for cost in costs:
        print(json.dumps(asdict(cost)))


if __name__ == "__main__":
    main()
