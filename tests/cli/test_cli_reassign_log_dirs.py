"""kafka-reassign-partitions between the log directories of one broker, seen with kafka-log-dirs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kcli.cli.main import run
from kcli.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.compat

WAIT_SECONDS = 60.0


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}) as broker:
        yield broker


class Tool:
    """Runs a command; its stdout."""

    def __init__(self, broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
        self._broker = broker
        self._capsys = capsys

    def __call__(self, words: str, exit_code: int = 0) -> str:
        name, *rest = words.split()
        assert run([name, "--bootstrap-server", self._broker.bootstrap, *rest]) == exit_code
        return self._capsys.readouterr().out

    def places(self) -> dict[tuple[str, bool], tuple[str, int]]:
        """(partition, is future) -> (directory, lag)."""
        described = json.loads(self("log-dirs --describe").splitlines()[-1])
        return {
            (partition["partition"], partition["isFuture"]): (directory["logDir"], partition["offsetLag"])
            for directory in described["brokers"][0]["logDirs"]
            for partition in directory["partitions"]
        }


def test_move_throttle_verify_cancel(
    two_disks: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = Tool(two_disks, capsys)
    tool("topics --create --topic t")
    producer = Producer({"bootstrap.servers": two_disks.bootstrap})
    for _ in range(4):
        producer.produce("t", b"x" * 900_000, partition=0)
        producer.flush(60)
    home, _lag = tool.places()["t-0", False]
    target = next(path for path in (f"{tmp_path}/a", f"{tmp_path}/b") if path != home)
    plan = tmp_path / "plan.json"

    def write(directory: str) -> None:
        entry = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [directory]}
        plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))

    write(target)
    file = f"--reassignment-json-file {plan}"
    assert tool(f"reassign-partitions --verify {file} --preserve-throttles").splitlines()[2:] == [
        f"Partition t-0 on broker 1 is not being moved from log dir {home} to {target}."
    ]
    started = tool(f"reassign-partitions --execute {file} --replica-alter-log-dirs-throttle 1")
    assert started.splitlines()[-3:] == [
        "The replica-alter-dir throttle limit was set to 1 B/s",
        "Successfully started partition reassignment for t-0",
        f"Successfully started moving log directory to {target} for replica t-0 with broker 1 ",
    ]
    assert tool(f"reassign-partitions --verify {file}").splitlines()[2:] == [
        "Reassignment of replica t-0-1 is still in progress."
    ]
    assert tool.places()["t-0", True][0] == target
    write(home)
    assert "is being moved to log dir" in tool(f"reassign-partitions --verify {file}")
    cancelled = tool(f"reassign-partitions --cancel {file} --preserve-throttles")
    assert cancelled.splitlines()[-1] == (
        f"Successfully started moving log directory to {home} for replica t-0 with broker 1 "
    )
    assert ("t-0", True) not in tool.places()
    write(target)
    tool(f"reassign-partitions --execute --additional {file} --replica-alter-log-dirs-throttle 1000000000")
    deadline = time.monotonic() + WAIT_SECONDS
    while tool.places()["t-0", False][0] != target:
        assert time.monotonic() < deadline, "the partition does not move"
        time.sleep(0.05)
    assert tool(f"reassign-partitions --verify {file}").splitlines()[2:] == [
        "Reassignment of replica t-0-1 completed successfully.",
        "Clearing broker-level throttles on broker 1",
        "Clearing topic-level throttles on topic t",
    ]
    assert tool("get-offsets --topic t") == "t:0:4\n"


def test_output_json_has_a_row_for_each_partition(
    two_disks: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = Tool(two_disks, capsys)
    tool("topics --create --topic u --partitions 2")
    (tmp_path / "topics.json").write_text('{"topics": [{"topic": "u"}], "version": 1}')
    lines = tool(
        "reassign-partitions --generate --broker-list 1 --output json "
        f"--topics-to-move-json-file {tmp_path}/topics.json"
    ).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"what": what, "topic": "u", "partition": number, "replicas": [1]}
        for what in ("current", "proposed")
        for number in (0, 1)
    ]
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions": [{"topic": "u", "partition": 0, "replicas": [1]}]}')
    would = tool(f"reassign-partitions --execute --dry-run --reassignment-json-file {plan}")
    assert would.splitlines()[-1] == "Would start partition reassignment for u-0"
    assert tool("reassign-partitions --list --output json") == ""
