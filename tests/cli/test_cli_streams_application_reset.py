"""kafka-streams-application-reset on one broker: offsets back, internal topics gone, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kcli.cli.main import run
from kcli.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.compat

Tool = Callable[..., tuple[int, str, str]]
RECORDS = 5


@pytest.fixture
def tool(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Runs the tool; (exit code, stdout, stderr)."""

    def call(words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["streams-application-reset", "--bootstrap-server", broker.bootstrap, *words.split()])
        return (code, *capsys.readouterr())

    return call


def create(broker: BrokerProcess, *topics: str) -> None:
    for topic in topics:
        words = ["--create", "--if-not-exists", "--topic", topic, "--partitions", "2"]
        assert run(["topics", "--bootstrap-server", broker.bootstrap, *words]) == 0


@pytest.fixture(scope="session", autouse=True)
def records(broker: BrokerProcess) -> None:
    create(broker, "sr-in", "sr-mid")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        for topic in ("sr-in", "sr-mid"):
            producer.produce(topic, b"%d" % number, partition=0, timestamp=1_000 * (number + 1))
    producer.flush(60)


def committed(broker: BrokerProcess, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    offsets = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], 10)
    consumer.close()
    return [offset.offset for offset in offsets]


def test_a_dry_run_does_nothing(tool: Tool, broker: BrokerProcess) -> None:
    create(broker, "dry-store-changelog")
    code, out, err = tool("--application-id dry --input-topics sr-in --dry-run")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[:3] == [
        "----Dry run displays the actions which will be performed when running Streams Reset Tool----",
        "Reset-offsets for input topics [sr-in]",
        "Following input topics offsets will be reset to (for consumer group dry)",
    ]
    assert sorted(lines[3:5]) == [
        "Topic: sr-in Partition: 0 Offset: 0",
        "Topic: sr-in Partition: 1 Offset: 0",
    ]
    assert lines[5:] == ["Done.", "Deleting inferred internal topics [dry-store-changelog]", "Done."]
    assert committed(broker, "dry", "sr-in") == [-1001, -1001]
    code, out, _ = tool("--application-id dry --dry-run")
    assert (code, out.splitlines()[1:]) == (
        0,
        [
            "No input or intermediate topics specified. Skipping seek.",
            "Deleting inferred internal topics [dry-store-changelog]",
            "Done.",
        ],
    )


def test_offsets_go_back_and_internal_topics_go(tool: Tool, broker: BrokerProcess) -> None:
    create(broker, "app-a-repartition", "app-b-changelog", "other-a-changelog", "app-mine")
    code, out, _ = tool(
        "--application-id app --input-topics sr-in --intermediate-topics sr-mid --to-offset 3"
    )
    assert code == 0
    assert "WARN: `--intermediate-topics` is deprecated" in out
    assert "New offset (3) is higher than latest offset. Value will be set to 0\n" in out
    assert "Topic: sr-in Partition: 0 Offset: 3\n" in out
    assert committed(broker, "app", "sr-in") == [3, 0]
    assert committed(broker, "app", "sr-mid") == [RECORDS, 0]
    code, out, _ = tool("--application-id app --dry-run")
    assert "Deleting inferred internal topics []\n" in out
    code, out, _ = tool("--application-id other --dry-run --output json")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"topic": "other-a-changelog", "partition": None, "new_offset": None}
    ]


@pytest.mark.parametrize(
    ("scenario", "offset"),
    [
        ("--to-earliest", 0),
        ("--to-latest", RECORDS),
        ("--to-datetime 1970-01-01T00:00:02.500", 2),
        ("--by-duration PT1S", RECORDS),
        ("--shift-by 2", 2),
        ("--shift-by -1", 0),
        ("--to-offset 77", RECORDS),
    ],
)
def test_each_scenario_resets_the_offset_of_the_input_topic(tool: Tool, scenario: str, offset: int) -> None:
    code, out, _ = tool(f"--application-id scenarios --input-topics sr-in --dry-run {scenario}")
    assert code == 0 and f"Topic: sr-in Partition: 0 Offset: {offset}\n" in out


def test_from_a_file(tool: Tool, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("sr-in,0,4\n")
    code, out, _ = tool(f"--application-id filed --input-topics sr-in --dry-run --from-file {plan}")
    assert code == 0 and "Partition: 0 Offset: 4\n" in out and "Partition: 1" not in out
    code, _, err = tool(f"--application-id filed --input-topics sr-in --from-file {tmp_path}/none")
    assert code == 1 and "Unable to read file" in err


@pytest.mark.usefixtures("kafkas_script")
def test_invalid_command_lines_are_refused(tool: Tool) -> None:
    code, out, _ = tool("--application-id app --input-topics nope")
    assert code == 1
    assert "Following input topics are not found, skipping them\nTopic: nope\n" in out
    code, _, err = tool("--application-id app --internal-topics sr-in")
    assert code == 1 and "Invalid topic specified in the --internal-topics option: [sr-in]" in err
    code, _, err = tool("--application-id app --input-topics sr-in --to-latest --to-earliest")
    assert code == 1 and err.startswith('Option "[to-earliest]" can\'t be used with option "[to-latest]"')
    code, _, err = tool("--input-topics sr-in")
    assert code == 1 and "application-id" in err


def test_members_have_to_be_gone(tool: Tool, broker: BrokerProcess) -> None:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "living", "session.timeout.ms": 6000}
    )
    consumer.subscribe(["sr-in"])
    while not consumer.assignment():
        consumer.poll(0.1)
    code, _, err = tool("--application-id living --input-topics sr-in")
    assert code == 1
    assert err.startswith("ERROR: java.lang.IllegalStateException: Consumer group 'living' is still active")
    code, out, _ = tool("--application-id living --input-topics sr-in --force")
    assert code == 0 and out.startswith("Force deleting all active members in the group: living\n")
    consumer.close()
