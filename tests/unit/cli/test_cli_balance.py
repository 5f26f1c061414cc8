"""`kcli reassign-partitions --balance`, `--decommission` and `--undo`, on a scripted cluster of three brokers."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kcli.cli.main import run
from kcli.client.reassign import execution, undo
from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from kcli.protocol.wire.api import ApiKey
from rigs.moving_cluster import MovingCluster
from rigs.scripted_cluster import Done

PARTITIONS = {TopicPartition("t", number): ((1, 2), (2, 1))[number % 2] for number in range(6)}
LEADER_RATE = "leader.replication.throttled.rate"

Call = Callable[..., Done]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MovingCluster]:
    """Broker 3 has joined without replicas. The command works in `tmp_path` and does not wait."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(execution, "GROWTH_SECONDS", 0.01)
    monkeypatch.setattr(execution, "POLL_SECONDS", 0.01)
    with MovingCluster({1: "a", 2: "b", 3: "c"}, PARTITIONS, dict.fromkeys(PARTITIONS, 1_000_000)) as made:
        yield made


@pytest.fixture
def call(cluster: MovingCluster, capsys: pytest.CaptureFixture[str]) -> Call:
    def reassign(*words: str) -> Done:
        code = run(["reassign-partitions", *words, "--bootstrap-server", cluster.address])
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return reassign


def counts(cluster: MovingCluster) -> dict[int, tuple[int, int]]:
    """The replicas and leaders of each broker."""
    return {
        broker: (
            sum(broker in replicas for replicas in cluster.replicas.values()),
            sum(broker == leader for leader in cluster.leaders.values()),
        )
        for broker in cluster.racks
    }


def undo_files() -> list[Path]:
    return sorted(Path().glob("reassignment-undo-*.json"))


def test_dry_run_prints_the_plan_and_moves_nothing(call: Call, cluster: MovingCluster) -> None:
    done = call("--balance", "--dry-run")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line for line in lines if " -> " in line and "(1.0 MB)" in line] == lines[:4]
    assert lines[-5:] == [
        "Broker  Rack        Replicas        Preferred leaders  Bytes",
        "1       a           6 -> 4          3 -> 2             6.0 MB -> 4.0 MB",
        "2       b           6 -> 4          3 -> 2             6.0 MB -> 4.0 MB",
        "3       c           0 -> 4          0 -> 2             0 B -> 4.0 MB",
        "Would move 4 replicas (4.0 MB) of 4 partitions in 1 batch.",
    ]
    assert not cluster.sent(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    assert not cluster.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    assert not undo_files()


@pytest.mark.parametrize("format", ["json", "tsv"])
def test_dry_run_as_rows(call: Call, format: str) -> None:
    done = call("--balance", "--dry-run", "--output", format)
    lines = done.out.splitlines()
    if format == "json":
        moves, brokers = [json.loads(line) for line in lines[:4]], [json.loads(line) for line in lines[4:]]
        assert {move["copied_bytes"] for move in moves} == {1_000_000}
        assert [(row["broker"], row["replicas_after"]) for row in brokers] == [(1, 4), (2, 4), (3, 4)]
        assert [row["preferred_leaders_before"] for row in brokers] == [3, 3, 0]
        assert [row["preferred_leaders_after"] for row in brokers] == [2, 2, 2]
    else:
        assert lines[0].split("\t") == ["topic", "partition", "replicas", "target", "copied_bytes"]
        assert lines[5].split("\t")[:4] == ["broker", "rack", "replicas_before", "replicas_after"]
        assert len(lines) == 9


def test_balance_moves_elects_and_takes_the_throttle_away(call: Call, cluster: MovingCluster) -> None:
    rates = []
    alter = cluster.alter

    def noting(request: Any, version: int) -> Any:
        rates.append({name: dict(values) for (_, name), values in cluster.configs.items()})
        return alter(request, version)

    for server in cluster.servers.values():
        server.script = {**server.script, ApiKey.ALTER_PARTITION_REASSIGNMENTS: noting}
    done = call("--balance", "--yes")
    assert done.code == 0, done.err
    assert counts(cluster) == {1: (4, 2), 2: (4, 2), 3: (4, 2)}
    assert {rates[0][str(broker)][LEADER_RATE] for broker in (1, 2, 3)} == {"50000000"}
    assert "t" in rates[0], "the throttle is set before the first move"
    assert cluster.throttled() == set()
    assert "Batch 1 of 1: 4 partitions, 4.0 MB" in done.out
    assert done.out.endswith("The throttle is removed\n")
    again = call("--balance", "--yes")
    assert again.out.endswith("Nothing to move.\n")
    assert len(undo_files()) == 1


def test_a_change_of_leaders_copies_nothing(call: Call, cluster: MovingCluster) -> None:
    cluster.replicas = dict.fromkeys(cluster.replicas, (1, 2, 3))
    cluster.leaders = dict.fromkeys(cluster.leaders, 1)
    assert call("--balance", "--dry-run").out.endswith("Would move the leaders of 4 partitions in 1 batch.\n")
    assert call("--balance").code == 0
    assert counts(cluster) == {1: (6, 2), 2: (6, 2), 3: (6, 2)}
    assert not cluster.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS), "no throttle is needed"
    cluster.leaders = dict.fromkeys(cluster.leaders, 1)
    assert "Nothing to move." in call("--balance").out
    assert counts(cluster)[1] == (6, 2), "preferred replicas become leaders, also without a move"


def test_the_throttle_can_be_chosen(call: Call, cluster: MovingCluster) -> None:
    assert call("--balance", "--throttle", "7").code == 0
    set_rates = {
        change.value
        for request in cluster.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)
        for resource in request.resources
        for change in resource.configs
        if change.name == LEADER_RATE
    }
    assert set_rates == {"7", None}


def test_the_throttle_follows_the_growth(call: Call, cluster: MovingCluster) -> None:
    log_dirs = cluster.log_dirs

    def growing(broker: int, request: Any, version: int) -> Any:
        cluster.sizes = {partition: size + 10_000_000 for partition, size in cluster.sizes.items()}
        return log_dirs(broker, request, version)

    for broker, server in cluster.servers.items():
        server.script = {**server.script, ApiKey.DESCRIBE_LOG_DIRS: partial(growing, broker)}
    done = call("--balance")
    (shown,) = [
        line for line in done.out.splitlines() if line.startswith("The throttle is ") and "/s" in line
    ]
    assert shown.endswith(" GB/s"), "the brokers grow by gigabytes per second"


def test_decommission_empties_a_broker_and_undo_brings_back(call: Call, cluster: MovingCluster) -> None:
    done = call("--decommission", "1", "--yes")
    assert done.code == 0, done.err
    assert counts(cluster) == {1: (0, 0), 2: (6, 3), 3: (6, 3)}
    (file,) = undo_files()
    assert f"--undo {file}" in done.err
    assert call("--undo", str(file), "--dry-run").code == 0
    assert counts(cluster)[1] == (0, 0)
    assert call("--undo", str(file), "--yes").code == 0
    assert cluster.replicas == PARTITIONS
    assert cluster.throttled() == set()


def test_the_undo_file_is_a_file_of_kafka(call: Call, cluster: MovingCluster) -> None:
    call("--balance")
    (file,) = undo_files()
    assert call("--execute", "--reassignment-json-file", str(file)).code == 0
    cluster.finish()
    assert cluster.replicas == PARTITIONS


def test_replication_factor_and_topics(call: Call, cluster: MovingCluster) -> None:
    cluster.replicas[TopicPartition("u", 0)] = (1, 2)
    cluster.leaders[TopicPartition("u", 0)] = 1
    assert call("--balance", "--replication-factor", "3", "--topics", "u|none").code == 0
    assert set(cluster.replicas[TopicPartition("u", 0)]) == {1, 2, 3}
    assert cluster.replicas[TopicPartition("t", 0)] == (1, 2)
    assert call("--balance", "--replication-factor", "4").out.startswith("Error: t-0 would have 4 replicas")


def test_a_later_run_waits_for_moves_and_removes_the_throttle(call: Call, cluster: MovingCluster) -> None:
    cluster.configs = {
        (4, "2"): {LEADER_RATE: "1"},
        (2, "t"): {"leader.replication.throttled.replicas": "0:1"},
    }
    cluster.running = {TopicPartition("t", 0): (3, 2)}
    cluster.looks_left = 3
    done = call("--balance")
    assert done.code == 0
    assert "Waiting for moves in progress: t-0" in done.out
    assert counts(cluster) == {1: (4, 2), 2: (4, 2), 3: (4, 2)}
    cluster.configs[4, "2"] = {LEADER_RATE: "1"}
    assert call("--balance").out.endswith("The throttle is removed\n")
    assert cluster.throttled() == set()


def test_new_batches_pause_below_min_isr(call: Call, cluster: MovingCluster) -> None:
    # The plan reads the ISR first. The two looks after it find the partition below its minimum of 2.
    cluster.isr[TopicPartition("t", 5)] = [(2, 1), (2,), (2,)]
    done = call("--balance")
    assert done.code == 0
    assert done.out.count("Paused, because partitions are below min.insync.replicas: t-5") == 1
    assert not cluster.isr[TopicPartition("t", 5)]


def test_a_refused_move_ends_the_run_without_a_throttle(call: Call, cluster: MovingCluster) -> None:
    cluster.refused = dict.fromkeys(PARTITIONS, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    done = call("--balance")
    assert done.code == 1
    assert "Error: The controller refused moves:\nt-" in done.out
    assert cluster.throttled() == set()


def test_deleted_partitions_are_left_out(call: Call, cluster: MovingCluster) -> None:
    cluster.refused = dict.fromkeys(PARTITIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    done = call("--balance")
    assert done.code == 0
    assert done.err.count("Deleted meanwhile: t-") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_removes_the_throttle_and_names_what_moves(
    call: Call, cluster: MovingCluster, number: signal.Signals, code: int
) -> None:
    # Another test of this process may have left its own handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    cluster.looks = 1_000_000
    alter = cluster.alter

    def interrupting(request: Any, version: int) -> Any:
        threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
        return alter(request, version)

    for server in cluster.servers.values():
        server.script = {**server.script, ApiKey.ALTER_PARTITION_REASSIGNMENTS: interrupting}
    try:
        done = call("--balance")
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.code == code
    assert "Still moving: t-" in done.err
    assert cluster.throttled() == set()


def test_a_terminal_gets_a_question_and_a_progress_line(
    call: Call, cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answering(answer: str) -> tuple[int, str]:
        shown = Terminal()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", Terminal(answer))
            patched.setattr(sys, "stderr", shown)
            return call("--balance").code, shown.getvalue()

    code, shown = answering("n\n")
    assert code == 1
    assert shown.startswith("This moves 4 replicas (4.0 MB) of 4 partitions in 1 batch.\nContinue? [y/N] ")
    assert "Nothing was moved." in shown and not undo_files()
    code, shown = answering("y\n")
    assert code == 0
    assert "\rBatch 1 of 1: 0 of 4 partitions, 4.0 MB of 4.0 MB" in shown


def test_the_progress_line_does_not_need_every_broker(
    call: Call, cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter = cluster.alter

    def failing(request: Any, version: int) -> Any:
        refused = DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        for server in cluster.servers.values():
            server.script = {**server.script, ApiKey.DESCRIBE_LOG_DIRS: lambda *_: refused}
        return alter(request, version)

    for server in cluster.servers.values():
        server.script = {**server.script, ApiKey.ALTER_PARTITION_REASSIGNMENTS: failing}
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    assert call("--balance", "--yes").code == 0
    assert "\rBatch 1 of 1: 0 of 4 partitions\x1b[K" in shown.getvalue()


def test_a_broker_that_does_not_run_is_refused_unless_it_leaves(call: Call, cluster: MovingCluster) -> None:
    cluster.replicas[TopicPartition("t", 0)] = (1, 9)
    done = call("--balance")
    assert done.code == 1
    assert "Broker 9 has replicas but does not run." in done.out
    assert call("--decommission", "8,9").out.startswith("Error: Broker 8 does not run and has no replicas")
    assert call("--decommission", "9").code == 0
    assert 9 not in cluster.replicas[TopicPartition("t", 0)]


def test_a_partition_without_a_leader_cannot_be_copied(call: Call, cluster: MovingCluster) -> None:
    cluster.replicas[TopicPartition("t", 0)] = (9,)
    cluster.leaders[TopicPartition("t", 0)] = -1
    done = call("--decommission", "9")
    assert done.code == 1
    assert "Error: Without a leader, records cannot be copied: t-0." in done.out
    assert not cluster.sent(ApiKey.ALTER_PARTITION_REASSIGNMENTS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--balance", "--decommission", "1"),
            "Command must include exactly one action: --generate, --execute, ",
        ),
        (("--balance", "--throttle", "0"), "--throttle 0: expected a positive number"),
        (("--balance", "--replication-factor", "0"), "--replication-factor 0: expected a positive number"),
        (("--list", "--yes"), 'Option "[yes]" can\'t be used with action "[list]"'),
        (("--decommission", "1", "--topics", "t"), 'Option "[topics]" can\'t be used with action'),
    ],
)
def test_options_that_do_not_fit_are_refused(call: Call, words: tuple[str, ...], message: str) -> None:
    done = call(*words)
    assert done.code == 1
    assert message in done.err


def test_errors_of_undo_and_of_the_pattern(
    call: Call, cluster: MovingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "undo.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 99, "replicas": [1]}]}')
    assert "Error: Unable to find partition: t-99" in call("--undo", str(file)).out
    file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [7]}]}')
    assert "Error: Broker 7 of the undo file does not run" in call("--undo", str(file)).out
    assert "Error: ( is an invalid regex." in call("--balance", "--topics", "(").out
    monkeypatch.setattr(undo, "NAME", "missing/undo.json")
    assert "Error: Cannot write the undo file missing/undo.json" in call("--balance").out
    assert not cluster.sent(ApiKey.ALTER_PARTITION_REASSIGNMENTS), "nothing moves without an undo file"
