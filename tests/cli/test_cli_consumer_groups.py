"""kafka-consumer-groups on a real broker: tables as Kafka prints them, json and tsv, resets and deletions."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from kcli.cli.main import run
from kcli.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.compat

Tool = Callable[..., tuple[str, str]]


@pytest.fixture
def tool(broker: BrokerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Runs Kafka's script; (stdout, stderr). All its failures on a cluster exit with 0."""
    monkeypatch.setenv("KCLI_SCRIPT", "kafka-consumer-groups.sh")

    def call(words: str) -> tuple[str, str]:
        assert run(["consumer-groups", "--bootstrap-server", broker.bootstrap, *words.split()]) == 0
        captured = capsys.readouterr()
        return captured.out, captured.err

    return call


@pytest.fixture(scope="session")
def topic(broker: BrokerProcess) -> str:
    """Two partitions with 3 and 4 records. The broker lives as long, so a worker makes the topic only once."""
    name = "cg-topic"
    create = ["--create", "--topic", name, "--partitions", "2"]
    assert run(["topics", "--bootstrap-server", broker.bootstrap, *create]) == 0
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition, count in ((0, 3), (1, 4)):
        for _ in range(count):
            producer.produce(name, b"x", partition=partition)
    producer.flush(10)
    return name


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines() if line]


def test_reset_describe_delete(tool: Tool, topic: str) -> None:
    reset, _ = tool(f"--reset-offsets --group cg-a --topic {topic} --to-earliest --execute")
    assert reset == (
        "\n"
        "GROUP                          TOPIC                          PARTITION  NEW-OFFSET     \n"
        "cg-a                           cg-topic                       0          0              \n"
        "cg-a                           cg-topic                       1          0              \n"
    )
    tool(f"--reset-offsets --group cg-a --topic {topic}:1 --shift-by 3 --execute")
    described, words = tool("--describe --group cg-a")
    assert described == (
        "\n"
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
        "CONSUMER-ID     HOST            CLIENT-ID\n"
        "cg-a            cg-topic        0          0               3               3               "
        "-               -               -\n"
        "cg-a            cg-topic        1          3               4               1               "
        "-               -               -\n"
    )
    assert words == "\nConsumer group 'cg-a' has no active members.\n"
    deleted, _ = tool(f"--delete-offsets --group cg-a --topic {topic}:0 --topic nope")
    assert rows(deleted)[2:] == [
        [topic, "0", "Successful"],
        ["nope", "-", "Error:", *_UNKNOWN_TOPIC.split()],
    ]
    assert tool("--delete --group cg-a") == (
        "Deletion of requested consumer groups ('cg-a') was successful.\n",
        "",
    )
    gone, _ = tool("--describe --group cg-a")
    assert gone == (
        "\nError: Executing consumer group command failed due to "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: Group cg-a not found.\n"
    )


_UNKNOWN_TOPIC = (
    "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
    "This server does not host this topic-partition."
)


def test_a_dry_run_deletes_nothing(tool: Tool, topic: str) -> None:
    tool(f"--reset-offsets --group cg-dry --topic {topic} --to-earliest --execute")
    out, err = tool("--delete --group cg-dry --group cg-none --dry-run")
    assert out == (
        "Would delete the consumer groups ('cg-dry').\n"
        "\nError: Deletion of some consumer groups would fail:\n"
        "* Group 'cg-none' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: Group cg-none not found.\n"
    )
    assert "nothing is deleted here" in err
    out, err = tool(f"--delete-offsets --group cg-dry --topic {topic}:0 --dry-run")
    assert rows(out)[-1] == [topic, "0", "Would", "be", "deleted"]
    assert "nothing is deleted here" in err
    described, _ = tool("--describe --group cg-dry --output json")
    assert [json.loads(line)["current_offset"] for line in described.splitlines()] == [0, 0]
    tool("--delete --group cg-dry")


def test_deleted_offsets_come_in_the_order_of_their_text(tool: Tool) -> None:
    out, _ = tool("--delete-offsets --group cg-none --topic cg-topic:0,1,2,10,11 --output tsv")
    assert [row[1] for row in rows(out)[1:]] == ["0", "1", "10", "11", "2"]


def test_a_live_group(tool: Tool, topic: str, broker: BrokerProcess) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "cg-live", "client.id": "me"}
    consumer = Consumer(settings | {"group.instance.id": "inst", "session.timeout.ms": 6000})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.05)
    out, err = tool("--describe --group cg-live --members --verbose")
    assert err == ""
    header, row = rows(out)
    assert header[2:] == [
        "GROUP-INSTANCE-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        "CURRENT-EPOCH",
        "CURRENT-ASSIGNMENT",
        "TARGET-EPOCH",
        "TARGET-ASSIGNMENT",
    ]
    assert re.fullmatch("inst-[0-9a-f-]{36}", row[1])
    assert row[2:] == ["inst", "/127.0.0.1", "me", "2", "-", f"{topic}:0,1", "-", "-"]
    state, _ = tool("--describe --group cg-live --state")
    port = broker.bootstrap.split(":")[1]
    assert rows(state)[1] == ["cg-live", f"127.0.0.1:{port}", "(1)", "range", "Stable", "1"]
    document = json.loads(tool("--describe --group cg-live --state --output json")[0])
    assert [document[f"coordinator_{name}"] for name in ("host", "port", "id")] == ["127.0.0.1", int(port), 1]
    offsets, _ = tool("--describe --group cg-live")
    assert [row[:6] for row in rows(offsets)[1:]] == [
        ["cg-live", topic, "0", "-", "3", "-"],
        ["cg-live", topic, "1", "-", "4", "-"],
    ]
    listed, _ = tool("--list --state Stable --type classic")
    assert ["cg-live", "Classic", "Stable"] in rows(listed)
    refused, _ = tool("--delete --group cg-live")
    assert refused == (
        "\nError: Deletion of some consumer groups failed:\n* Group 'cg-live' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty.\n"
    )
    still, _ = tool(f"--reset-offsets --group cg-live --topic {topic} --to-latest --execute")
    assert still.startswith(
        "\nError: Assignments can only be reset if the group 'cg-live' is inactive, but the current state is Stable.\n"
    )
    subscribed, _ = tool(f"--delete-offsets --group cg-live --topic {topic}")
    assert "Encountered some partition-level error, see the follow-up details." in subscribed
    consumer.close()


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("--to-earliest", [0, 0]),
        ("--to-latest", [3, 4]),
        ("--to-offset 2", [2, 2]),
        ("--to-offset 99", [3, 4]),
        ("--shift-by -1", [0, 1]),
        ("--to-current", [1, 2]),
        ("--by-duration P1D", [0, 0]),
        ("--by-duration PT0S", [3, 4]),
        ("--to-datetime 2020-01-01T00:00:00.000", [0, 0]),
        ("--to-datetime 2090-01-01T00:00:00.000", [3, 4]),
    ],
)
def test_each_scenario_resets_the_offsets_of_every_partition(
    tool: Tool, topic: str, scenario: str, expected: list[int]
) -> None:
    for partition in (0, 1):
        tool(
            f"--reset-offsets --group cg-b --topic {topic}:{partition} --to-offset {partition + 1} --execute"
        )
    out, _ = tool(f"--reset-offsets --group cg-b --all-topics {scenario} --dry-run --output json")
    plan = [json.loads(line) for line in out.splitlines()]
    assert [(row["partition"], row["new_offset"]) for row in plan] == list(enumerate(expected))


def test_a_plan_goes_out_and_in(tool: Tool, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    exported, _ = tool(f"--reset-offsets --group cg-c --topic {topic} --to-latest --export --dry-run")
    assert exported == f"{topic},0,3\n{topic},1,4\n\n"
    file.write_text(exported)
    tool(f"--reset-offsets --group cg-c --from-file {file} --execute")
    out, _ = tool("--describe --group cg-c --output tsv")
    header, *lines = [line.split("\t") for line in out.splitlines()]
    assert header[:6] == ["group", "topic", "partition", "leader_epoch", "current_offset", "log_end_offset"]
    assert [row[:6] for row in lines] == [
        ["cg-c", topic, "0", "", "3", "3"],
        ["cg-c", topic, "1", "", "4", "4"],
    ]
    missing, _ = tool("--reset-offsets --group cg-c --from-file /nowhere.csv --dry-run")
    assert "Unable to read file /nowhere.csv" in missing
    file.write_text("nope,0,1\n")
    unknown, _ = tool(f"--reset-offsets --group cg-c --from-file {file} --dry-run")
    assert "metadata for topic `nope` could not be found" in unknown


def test_several_groups_are_reset_each_by_its_own_offsets(tool: Tool, topic: str) -> None:
    for group, offset in (("cg-m1", 1), ("cg-m2", 2)):
        tool(f"--reset-offsets --group {group} --topic {topic} --to-offset {offset} --execute")
    out, _ = tool(
        f"--reset-offsets --group cg-m1 --group cg-m2 --group cg-m3 --topic {topic} --to-current --dry-run"
    )
    assert sorted(rows(out)[1:]) == [
        ["cg-m1", topic, "0", "1"],
        ["cg-m1", topic, "1", "1"],
        ["cg-m2", topic, "0", "2"],
        ["cg-m2", topic, "1", "2"],
        ["cg-m3", topic, "0", "3"],
        ["cg-m3", topic, "1", "4"],
    ]
    tool("--delete --group cg-m1 --group cg-m2")


def test_a_shift_without_a_committed_offset_fails(broker: BrokerProcess, topic: str) -> None:
    words = f"--reset-offsets --group cg-new --topic {topic} --shift-by 1 --dry-run"
    assert run(["consumer-groups", "--bootstrap-server", broker.bootstrap, *words.split()]) == 1


def test_lag_in_seconds_only_where_it_is_asked_for(
    tool: Tool, topic: str, broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    tool(f"--reset-offsets --group cg-lag --topic {topic} --to-earliest --execute")
    tool(f"--reset-offsets --group cg-lag --topic {topic}:1 --to-latest --execute")
    assert "LAG-SECONDS" not in tool("--describe --group cg-lag")[0]
    header, behind, even = rows(tool("--describe --group cg-lag --lag-seconds")[0])
    assert header[5:7] == ["LAG", "LAG-SECONDS"]
    assert behind[5] == "3" and 0 < float(behind[6]) < 3600
    assert even[5:7] == ["0", "0.0"]
    first, second = map(json.loads, tool("--describe --group cg-lag --output json")[0].splitlines())
    assert first["lag_seconds"] > 0 and second["lag_seconds"] == 0
    assert first["error"] is None
    assert run(["consumer-groups", "--bootstrap-server", broker.bootstrap, "--list", "--lag-seconds"]) == 1
    assert "Option(s) [lag-seconds] are unavailable" in capsys.readouterr().err


def test_groups_that_are_known_are_shown_beside_one_that_is_not(tool: Tool, topic: str) -> None:
    tool(f"--reset-offsets --group cg-known --topic {topic}:0 --to-earliest --execute")
    said, _ = tool("--describe --group cg-nobody --group cg-known")
    lines = rows(said)
    assert lines[1][:4] == ["cg-known", topic, "0", "0"]
    assert said.endswith(
        "\nError: Executing consumer group command failed due to "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: Group cg-nobody not found.\n"
    )


@pytest.mark.parametrize("on_terminal", [False, True])
def test_watch_continues_until_ctrl_c(
    tool: Tool, topic: str, broker: BrokerProcess, on_terminal: bool
) -> None:
    tool(f"--reset-offsets --group cg-watch --topic {topic}:0 --to-earliest --execute")
    words = ["--bootstrap-server", broker.bootstrap, "--describe", "--group", "cg-watch", "--watch", "0.2"]
    ours, theirs = pty.openpty() if on_terminal else os.pipe()
    with subprocess.Popen(
        [sys.executable, "-m", "kcli", "consumer-groups", *words], stdout=theirs, stderr=subprocess.PIPE
    ) as process:
        os.close(theirs)
        said = b""
        while said.count(b"cg-watch        cg-topic") < 3:
            said += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0, "Ctrl-C is how it ends"
        assert process.stderr is not None
        words_said = process.stderr.read()
    os.close(ours)
    assert b"Traceback" not in words_said
    assert said.count(b"\x1b[H") >= (3 if on_terminal else 0)
    assert (b"\x1b" in said) == on_terminal
    if not on_terminal:
        assert re.search(rb"^20\d\d-\d\d-\d\dT[\d:.]+Z\n\nGROUP ", said), "each block begins with its time"


def test_watch_has_a_state_for_each_partition(tool: Tool, topic: str, broker: BrokerProcess) -> None:
    tool(f"--reset-offsets --group cg-state --topic {topic}:0 --to-latest --execute")
    words = ["--bootstrap-server", broker.bootstrap, "--describe", "--group", "cg-state", "--watch", "0.2"]
    command = [sys.executable, "-m", "kcli", "consumer-groups", *words, "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        rows = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert [(row["lag"], row["status"], row["catch_up_seconds"]) for row in rows] == [(0, "OK", 0.0)] * 2
    assert rows[0]["explanation"] == f"{topic}-0 is read up to the end"
