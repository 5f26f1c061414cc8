"""SIGINT and SIGTERM, to each command and to its process group, in each phase. No signal may print a traceback.

A hook of the importer sends the signal while a module is imported, so no test waits for a moment by the clock. In the
phase "connecting", the signal comes when the command has connected to a server that never answers.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from kcli.cli.syntax.registry import TOOLS

DEADLINE_S = 30
CONNECT_S = 20

CONNECTING: dict[str, str] = {
    "topics": "--list",
    "configs": "--describe --entity-type topics",
    "get-offsets": "",
    "delete-records": "--offset-json-file {offsets}",
    "console-producer": "--topic t",
    "console-consumer": "--topic t",
    "producer-perf-test": "--topic t --num-records 9 --record-size 9 --throughput 1",
    "consumer-perf-test": "--topic t --messages 9",
    "verifiable-producer": "--topic t",
    "verifiable-consumer": "--topic t --group-id g",
    "e2e-latency": "--topic t --num-records 9 --producer-acks 1 --record-size 9",
    "consumer-groups": "--list",
    "streams-application-reset": "--application-id a",
    "transactions": "list",
    "groups": "--list",
    "cluster": "cluster-id --bootstrap-server {server}",
    "broker-api-versions": "",
    "log-dirs": "--describe",
    "reassign-partitions": "--list",
    "features": "describe",
    "metadata-quorum": "describe --status",
    "leader-election": "--all-topic-partitions --election-type preferred",
    "replica-verification": "",
    "client-metrics": "--list",
    "acls": "--list",
    "delegation-tokens": "--describe --command-config /dev/null",
    "doctor": "",
    "top": "--once",
}
"""The commands that connect to a cluster, with their other arguments."""

OTHER: dict[str, str] = {
    "trace": "--trace 1 --traces http://{server}",
    "jmx": "--jmx-url http://{server} --one-time",
    "server-start": "{missing}",
    "server-stop": "--node-id 2147483647",
    "storage": "random-uuid",
    "dump-log": "--files {missing}",
    "metadata-shell": "--snapshot {missing}",
    "spark-submit": "--version",
    "profile": "list",
    "console": "--bootstrap-server {server}",
    "connect": "list --url http://{server}",
    "connect-standalone": "{missing}",
    "connect-distributed": "{missing}",
    "mirror-maker": "{missing}",
    "schema-registry": "{missing}",
    "schemas": "list --registry http://{server}",
    "connect-plugin-path": "list --plugin-path {missing}",
}
"""The other commands. They are only interrupted while they are imported."""

SERVERS = {"replica-verification": "--broker-list"}
SIGNALS = ("INT", "TERM", "INT to the group", "TERM to the group")
SAMPLE_STEP = 7  # CI runs each seventh case, so that each signal and most commands are among them

HOOK = """
import os, signal, sys
number, to_group, modules = int(sys.argv[1]), sys.argv[2] == "group", sys.argv[3].split(",")
class Hook:
    def find_spec(self, name, path=None, target=None):
        if name in modules:
            modules.clear()
            os.kill(0 if to_group else os.getpid(), number)
sys.meta_path.insert(0, Hook())
sys.argv[:] = ["kcli", *sys.argv[4:]]
from kcli.__main__ import main
main()
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A command, a signal, and the module whose import sends the signal. Without a module, the phase is connecting."""

    command: str
    signal: str
    module: str

    @property
    def number(self) -> int:
        return signal.SIGINT if self.signal.startswith("INT") else signal.SIGTERM

    @property
    def phase(self) -> str:
        return f"import {self.module}" if self.module else "connecting"


def cases() -> list[Case]:
    """Returns all cases: each command, with each signal, in each phase."""
    all_cases = []
    for name in (*CONNECTING, *OTHER):
        modules = ["kcli.cli.main", "kcli.cli.syntax.options", TOOLS[name].module]
        phases = [*modules, ""] if name in CONNECTING else modules
        all_cases += [Case(name, sent, module) for module in phases for sent in SIGNALS]
    return all_cases


ALL = cases()


def test_every_command_is_interrupted_in_this_file() -> None:
    assert {*CONNECTING, *OTHER} == set(TOOLS)


@pytest.mark.parametrize("first", range(SAMPLE_STEP), ids=lambda nth: f"part{nth}")
def test_a_signal_ends_a_command_with_its_exit_code_and_no_traceback(
    first: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if first and not request.config.getoption("--full"):
        pytest.skip("a larger matrix, which only `make full` runs")
    part = ALL[first::SAMPLE_STEP]
    failures = [failure for some in batches(part, 8) for failure in interrupt(some, tmp_path)]
    assert not failures, "\n".join(failures)


def batches(cases: list[Case], size: int) -> Iterator[list[Case]]:
    """Yields the cases in groups that run at the same time."""
    for start in range(0, len(cases), size):
        yield cases[start : start + size]


def interrupt(cases: list[Case], directory: Path) -> list[str]:
    """Runs the cases at the same time. Returns a line for each case that ended wrongly."""
    (directory / "offsets.json").write_text(
        '{"partitions": [{"topic": "t", "partition": 0, "offset": 1}], "version": 1}'
    )
    with ExitStack() as stack:
        started = []
        for case in cases:
            silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            started.append((case, silent, stack.enter_context(start(case, silent, directory))))
        for case, silent, process in started:
            if not case.module:
                assert select.select([silent], [], [], DEADLINE_S)[0], f"{case} did not connect"
                send = os.killpg if case.signal.endswith("group") else os.kill
                send(process.pid, case.number)
        return [line for case, _, process in started if (line := verdict(case, process))]


def start(case: Case, silent: socket.socket, directory: Path) -> subprocess.Popen[str]:
    address = f"127.0.0.1:{silent.getsockname()[1]}"
    words = (CONNECTING | OTHER)[case.command].format(
        server=address, missing=directory / "missing", offsets=directory / "offsets.json"
    ).split()  # fmt: skip
    if case.command in CONNECTING and address not in words:
        words = [SERVERS.get(case.command, "--bootstrap-server"), address, *words]
    to = "group" if case.signal.endswith("group") else "process"
    return subprocess.Popen(
        [sys.executable, "-c", HOOK, str(case.number), to, case.module, case.command, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def verdict(case: Case, process: subprocess.Popen[str]) -> str:
    """Returns an empty text, or a line about a wrong end."""
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return f"{case.command} ({case.signal}, {case.phase}): did not end"
    shown = f"{case.command} ({case.signal}, {case.phase}): exit {process.returncode}\n{out}{err}"
    is_right = process.returncode in (-case.number, 128 + case.number)
    return "" if is_right and "Traceback" not in out + err else shown
