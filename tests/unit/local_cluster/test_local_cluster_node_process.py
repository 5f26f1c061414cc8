"""A process whose log goes to a file: when it is ready, how it ended, and its last lines."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcli.local_cluster.node_process import NodeProcess

PATIENCE_S = 30.0
PROGRAM = """
import os, sys, time
sys.stdout.write(f"{os.environ.get('MARK')} {sys.argv[1].rsplit('/', 1)[1]} Kafka Server ")
sys.stdout.flush()
time.sleep(0.2)
print("started", flush=True)
time.sleep(60)
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    command = [sys.executable, "-c", PROGRAM]
    made = NodeProcess(
        tmp_path / "a.properties", tmp_path / "node.log", command=command, environment={"MARK": "m"}
    )
    yield made
    if made.process is not None and made.exit_code() is None:
        made.send(signal.SIGKILL)
        made.wait(PATIENCE_S)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_node_is_ready_when_its_log_has_the_whole_line(node: NodeProcess) -> None:
    node.output_file.write_text("Kafka Server started by an earlier process\n")
    node.start()
    until(lambda: node.output_file.read_text().endswith("Server "))
    assert not node.is_ready(), "neither the old line nor half a line counts"
    until(node.is_ready)
    assert node.last_lines() == ["m a.properties Kafka Server started"]
    assert node.exit_code() is None


def test_a_node_that_ended_can_be_started_again(node: NodeProcess) -> None:
    node.start()
    node.send(signal.SIGKILL)
    assert node.wait(PATIENCE_S) == node.exit_code() == -signal.SIGKILL
    node.send(signal.SIGTERM)
    first = node.pid
    node.start()
    assert node.pid != first
    until(node.is_ready)
