"""kafka-leader-election on one broker: what it says, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.compat

Tool = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tool(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Runs the tool; (exit code, stdout, stderr)."""

    def call(words: str, *, server: bool = True) -> tuple[int, str, str]:
        where = ["--bootstrap-server", broker.bootstrap] if server else []
        code = run(["leader-election", *where, *words.split()])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture(scope="module", autouse=True)
def topic(broker: BrokerProcess) -> None:
    create = ["--create", "--if-not-exists", "--topic", "le-topic", "--partitions", "2"]
    assert run(["topics", "--bootstrap-server", broker.bootstrap, *create]) == 0


def test_where_the_first_replica_leads_already(tool: Tool) -> None:
    assert tool("--election-type PREFERRED --topic le-topic --partition 0") == (
        0,
        "Valid replica already elected for partitions le-topic-0\n",
        "",
    )
    assert tool("--election-type preferred --all-topic-partitions") == (0, "", "")
    code, out, _ = tool("--election-type unclean --topic le-topic --partition 1 --output json")
    assert code == 0
    assert json.loads(out) == {
        "topic": "le-topic",
        "partition": 1,
        "election_type": "unclean",
        "result": "not needed",
        "error": None,
    }


def test_an_unknown_topic_is_an_error_for_each_of_its_partitions(tool: Tool) -> None:
    unknown = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
    assert tool("--election-type preferred --topic nope --partition 0") == (
        1,
        f"Error completing leader election (PREFERRED) for partition: nope-0: {unknown}: No such topic as nope\n",
        "1 replica(s) could not be elected\n",
    )


def test_a_json_file_names_the_partitions(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "partitions.json"
    file.write_text(
        '{"partitions": [{"topic": "le-topic", "partition": 0}, {"topic": "le-topic", "partition": 1}]}'
    )
    arguments = f"--election-type preferred --path-to-json-file {file}"
    code, out, _ = tool(arguments)
    assert code == 0
    assert sorted(out.removeprefix("Valid replica already elected for partitions ").strip().split(", ")) == [
        "le-topic-0",
        "le-topic-1",
    ]
    assert "le-topic-0, le-topic-1" in tool(f"{arguments} --dry-run")[1]
    file.write_text('{"partitions": [{"topic": "a", "partition": 0}, {"topic": "a", "partition": 0}]}')
    assert tool(arguments)[2] == "Replica election data contains duplicate partitions: [a-0]\n"
    missing = f"--election-type preferred --path-to-json-file {tmp_path}/none"
    assert tool(missing)[2] == f"java.io.IOException: Unable to read file {tmp_path}/none\n"
    file.write_text("{}")
    assert tool(arguments)[2] == 'Replica election data is missing "partitions" field\n'


def test_the_old_name_of_the_configuration_file_is_good(tool: Tool, tmp_path: Path) -> None:
    """Until Kafka 4.2 it is the only one, and nothing is said about it."""
    file = tmp_path / "admin.properties"
    file.write_text("client.id=me\n")
    arguments = f"--election-type preferred --topic le-topic --partition 0 --admin.config {file}"
    assert tool(arguments) == (0, "Valid replica already elected for partitions le-topic-0\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--topic t", "Missing required option(s): bootstrap-server, election-type"),
        ("--bootstrap-server h:1 --topic t", "Missing required option(s): election-type"),
        (
            "--bootstrap-server h:1 --election-type foo --topic t",
            "Cannot parse argument 'foo' of option election-type",
        ),
        (
            "--bootstrap-server h:1 --election-type preferred",
            "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file",
        ),
        (
            "--bootstrap-server h:1 --election-type preferred --topic t",
            "Missing required option(s): partition",
        ),
        (
            "--bootstrap-server h:1 --election-type preferred --all-topic-partitions --partition 1",
            "Option partition is only allowed if topic is used",
        ),
    ],
)
def test_invalid_command_lines_are_refused_in_kafkas_words(tool: Tool, words: str, message: str) -> None:
    assert tool(words, server=False) == (1, "", message + "\n")
