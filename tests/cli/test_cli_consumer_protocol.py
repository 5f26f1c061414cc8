"""The tools and groups of the broker's own protocol (KIP-848): who reads in one, and what is shown and set of one."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer

from kcli.cli.main import run
from kcli.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.compat

Tool = Callable[..., tuple[str, str]]
TOPIC, OTHER = "cp-topic", "cp-other"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that asks for many heartbeats; three records in each of three partitions, two in another topic."""
    overrides = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.min.session.timeout.ms": "1000",
    }
    with BrokerProcess(tmp_path_factory.mktemp("cp"), overrides=overrides) as process:
        for name, partitions in ((TOPIC, "3"), (OTHER, "1")):
            words = ["--create", "--topic", name, "--partitions", partitions]
            assert run(["topics", "--bootstrap-server", process.bootstrap, *words]) == 0
        producer = Producer({"bootstrap.servers": process.bootstrap})
        for number in range(9):
            producer.produce(TOPIC, f"t{number}", partition=number % 3)
        for number in range(2):
            producer.produce(OTHER, f"o{number}", partition=0)
        assert producer.flush(60) == 0
        yield process


@pytest.fixture
def tool(quick: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Runs a tool; (stdout, stderr)."""

    def call(words: str, code: int = 0) -> tuple[str, str]:
        name, *more = words.split()
        # A tool has a process of its own; here the log of another test's would go to where that test's stderr was.
        logging.getLogger("kcli.rdkafka").handlers.clear()
        assert run([name, "--bootstrap-server", quick.bootstrap, *more]) == code
        captured = capsys.readouterr()
        return captured.out, captured.err

    return call


@pytest.fixture
def members() -> Iterator[list[Consumer]]:
    made: list[Consumer] = []
    yield made
    for member in made:
        member.close()


def join(
    quick: BrokerProcess, members: list[Consumer], group: str, protocol: str = "consumer", **more: str
) -> None:
    """One more member; returns when everybody of the test has partitions, and all have theirs at the newest epoch."""
    settings = {name.replace("_", "."): value for name, value in more.items()}
    common = {"bootstrap.servers": quick.bootstrap, "group.id": group, "group.protocol": protocol}
    members.append(Consumer(common | {"enable.auto.commit": False} | settings))
    members[-1].subscribe([TOPIC])
    end = time.monotonic() + 60
    while sum(len(member.assignment()) for member in members) != 3 or not all(
        member.assignment() for member in members
    ):
        assert time.monotonic() < end
        for member in members:
            member.poll(0.02)


def wait_for(so: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < end
        time.sleep(0.05)


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines() if line]


NEW = "--consumer-property group.protocol=consumer"


def test_the_console_consumer(tool: Tool) -> None:
    out, err = tool(f"console-consumer --topic {TOPIC} --from-beginning --max-messages 9 --group cp-cc {NEW}")
    assert sorted(out.split()) == [f"t{number}" for number in range(9)]
    assert err == "Processed a total of 9 messages\n"
    # Java's expressions, matched by the consumer itself: not those of RE2, and internal topics are left out.
    pattern = "(?!x)cp-.*|__.*"
    out, _ = tool(f"console-consumer --include {pattern} --from-beginning --max-messages 11 {NEW}")
    assert sorted(out.split()) == ["o0", "o1", *(f"t{number}" for number in range(9))]
    listed, _ = tool("groups --list --group-type consumer --output json")
    assert {"group": "cp-cc", "type": "Consumer", "protocol": "consumer"} in map(
        json.loads, listed.splitlines()
    )
    described, words = tool("consumer-groups --describe --group cp-cc")
    assert sorted(row[1:6] for row in rows(described)[1:]) == [
        [TOPIC, str(n), "3", "3", "0"] for n in range(3)
    ]
    assert words == "\nConsumer group 'cp-cc' has no active members.\n"


def test_consumers_refuse_settings_that_the_broker_decides(tool: Tool) -> None:
    words = f"console-consumer --topic {TOPIC} {NEW} --consumer-property session.timeout.ms=6000"
    _, err = tool(words, 1)
    assert "session.timeout.ms cannot be set when group.protocol=CONSUMER" in err
    words = f"console-consumer --topic {TOPIC} {NEW} --consumer-property group.remote.assignor=nope"
    _, err = tool(words)  # Kafka's tool logs what ends it, and ends well
    assert "assignor" in err and err.endswith("Processed a total of 0 messages\n")
    words = f"verifiable-consumer --topic {TOPIC} --group-id cp-bad --group-protocol consumer"
    out, _ = tool(f"{words} --group-remote-assignor nope", 1)
    assert [json.loads(line)["name"] for line in out.splitlines()] == [
        "startup_complete",
        "shutdown_complete",
    ]
    words = f"consumer-perf-test --topic {TOPIC} --messages 1 --command-property group.protocol=consumer"
    _, err = tool(f"{words} --command-property group.remote.assignor=nope", 1)
    assert "assignor" in err.splitlines()[-1]


@pytest.mark.parametrize("assignor", ["range", "uniform"])
def test_the_verifiable_consumer(tool: Tool, assignor: str) -> None:
    words = f"--topic {TOPIC} --group-id cp-v-{assignor} --group-protocol CONSUMER --group-remote-assignor {assignor}"
    out, err = tool(f"verifiable-consumer {words} --max-messages 9")
    assert err == ""
    events = [json.loads(line) for line in out.splitlines()]
    assert [events[0]["name"], events[-1]["name"]] == ["startup_complete", "shutdown_complete"]
    (assigned,) = (event for event in events if event["name"] == "partitions_assigned")
    assert assigned["partitions"] == [{"topic": TOPIC, "partition": number} for number in range(3)]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 9
    state, _ = tool(f"consumer-groups --describe --group cp-v-{assignor} --state --output json")
    assert json.loads(state)["group_epoch"] == 2, "one member came, and left"


def test_the_perf_test(tool: Tool) -> None:
    words = "--include cp-.* --messages 11 --hide-header --command-property group.protocol=consumer"
    out, _ = tool(f"consumer-perf-test {words}")
    assert out.split(", ")[4] == "11"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("console-consumer", NEW + " --group cp-end-cc"),
        ("verifiable-consumer", "--group-protocol consumer --group-id cp-end-v"),
        ("consumer-perf-test", "--messages 99 --command-property group.protocol=consumer --group cp-end-p"),
    ],
)
def test_a_consumer_that_gets_sigterm_leaves_the_group(
    tool: Tool, quick: BrokerProcess, name: str, words: str
) -> None:
    group = words.split()[-1]
    command = [name, "--bootstrap-server", quick.bootstrap, "--topic", TOPIC, *words.split()]
    with subprocess.Popen([sys.executable, "-m", "kcli", *command], stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: [group, "Stable"] in rows(tool("consumer-groups --list --state")[0]))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert [group, "Empty"] in rows(tool("consumer-groups --list --state")[0])


@pytest.mark.usefixtures("kafkas_script")
def test_a_group_with_a_static_member(tool: Tool, quick: BrokerProcess, members: list[Consumer]) -> None:
    join(quick, members, "cp-live", client_id="one", group_instance_id="inst")
    out, _ = tool("consumer-groups --describe --group cp-live --members --verbose")
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
    assert row[2:] == ["inst", "/127.0.0.1", "one", "3", "1", f"{TOPIC}:0,1,2", "1", f"{TOPIC}:0,1,2"]
    out, _ = tool("consumer-groups --describe --group cp-live --state --verbose")
    port = quick.bootstrap.split(":")[1]
    assert out == (
        "\nGROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                GROUP-EPOCH     "
        "TARGET-ASSIGNMENT-EPOCH   #MEMBERS\n"
        f"cp-live         {f'127.0.0.1:{port}  (1)':<25} uniform              Stable               1               "
        "1                         1\n"
    )
    out, _ = tool("consumer-groups --list --type consumer --state stable")
    assert ["cp-live", "Consumer", "Stable"] in rows(out)
    assert ["cp-live"] not in rows(tool("consumer-groups --list --type classic")[0])
    out, _ = tool(f"consumer-groups --reset-offsets --group cp-live --topic {TOPIC} --to-latest --execute")
    assert "can only be reset if the group 'cp-live' is inactive, but the current state is Stable." in out
    out, _ = tool(f"consumer-groups --delete-offsets --group cp-live --topic {TOPIC}:0")
    assert "org.apache.kafka.common.errors.GroupSubscribedToTopicException" in out
    assert (
        "GroupNotEmptyException: The group is not empty."
        in tool("consumer-groups --delete --group cp-live")[0]
    )
    members.pop().close()  # a static member keeps its place until its session ends
    out, _ = tool("consumer-groups --describe --group cp-live --members --verbose")
    assert rows(out)[1][6] == "-2"
    tool(
        "configs --alter --entity-type groups --entity-name cp-live --add-config consumer.session.timeout.ms=1000"
    )


def test_a_group_on_its_way_between_the_protocols(
    tool: Tool, quick: BrokerProcess, members: list[Consumer]
) -> None:
    more = {
        "partition_assignment_strategy": "range",
        "heartbeat_interval_ms": "200",
        "session_timeout_ms": "6000",
    }
    join(quick, members, "cp-mixed", "classic", client_id="old", **more)
    join(quick, members, "cp-mixed", client_id="new")
    out, _ = tool("consumer-groups --describe --group cp-mixed --members --verbose")
    header, *lines = rows(out)
    assert header[-1] == "UPGRADED"
    assert {row[3]: row[-1] for row in lines} == {"old": "false", "new": "true"}
    while members:
        members.pop().close()
    tool(f"consumer-groups --reset-offsets --group cp-mixed --topic {TOPIC} --to-offset 1 --execute")
    out, _ = tool("consumer-groups --describe --group cp-mixed")
    assert sorted(row[2:4] for row in rows(out)[1:]) == [["0", "1"], ["1", "1"], ["2", "1"]]
    out, _ = tool(f"consumer-groups --delete-offsets --group cp-mixed --topic {TOPIC}:0")
    assert out.startswith("Request succeeded for deleting offsets from group cp-mixed.\n")
    out, _ = tool("consumer-groups --delete --group cp-mixed")
    assert out == "Deletion of requested consumer groups ('cp-mixed') was successful.\n"


def test_the_settings_of_a_group(tool: Tool, quick: BrokerProcess, members: list[Consumer]) -> None:
    group = "--entity-type groups --entity-name cp-set"
    assert tool(f"configs --describe {group}")[0] == (
        "The group 'cp-set' doesn't exist and doesn't have dynamic config.\n"
    )
    out, _ = tool(
        f"configs --alter {group} --add-config consumer.heartbeat.interval.ms=150,consumer.session.timeout.ms=1200"
    )
    assert out == "Completed updating config for group cp-set.\n"
    out, _ = tool(f"configs --describe {group}")
    assert out == "Dynamic configs for group cp-set are:\n" + "".join(
        f"  {key}={value} sensitive=false synonyms={{DYNAMIC_GROUP_CONFIG:{key}={value}}}\n"
        for key, value in (("consumer.heartbeat.interval.ms", 150), ("consumer.session.timeout.ms", 1200))
    )
    for wrong, complaint in (
        (
            "consumer.session.timeout.ms=999",
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            "consumer.heartbeat.interval.ms=99999",
            "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
        ("consumer.nope=1", "Unknown group config name: consumer.nope"),
    ):
        _, err = tool(f"configs --alter {group} --add-config {wrong}", 1)
        assert complaint in err
    # What it is good for: a member that went silent is gone after the group's own session.
    join(quick, members, "cp-set", group_instance_id="silent")
    members.pop().close()
    wait_for(lambda: "no active" in tool("consumer-groups --describe --group cp-set --members")[1], 30)
    tool(
        f"configs --alter {group} --delete-config consumer.heartbeat.interval.ms,consumer.session.timeout.ms"
    )
    assert tool(f"configs --describe {group}")[0] == "Dynamic configs for group cp-set are:\n"
