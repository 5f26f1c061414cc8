"""The examples of every command, run by a shell against a broker as a reader of the help would run them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.cli.man import ROOT_EXAMPLES
from kcli.cli.syntax.registry import TOOLS
from kcli.cli.tools.connect.rest_calls import URL_VARIABLE
from kcli.cli.tools.schemas.connection import URL_VARIABLE as REGISTRY_VARIABLE
from kcli.command.examples import Example
from kcli.formats.registry.framing import id_prefix
from kcli.testing.broker_process import BrokerProcess, free_port
from rigs.connect_worker import WorkerProcess
from rigs.schema_registry import MemoryRegistry, memory_registry

SHELL_TIMEOUT_SECONDS = 120.0
READY = "started"
"""What an endless example prints before the test ends it."""
NOT_RUN = {
    "kcli server-stop": "it would stop the brokers of tests that run at the same time",
    "kcli server-start --daemon": "it leaves a server behind that no test stops",
}
TOPICS = """\
topics:
  orders: {partitions: 3}
  returns: {partitions: 1, configs: {retention.ms: 86400000}}
"""
SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs=node-logs
"""
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
CONNECT_URL = "http://localhost:8083"
"""Where the examples look for a worker of Kafka Connect."""
REGISTRY_URLS = ("http://localhost:8081", "http://localhost:8082")
"""Where the examples look for schema registries."""
PAYMENT = '{"type":"record","name":"Payment","fields":[{"name":"cents","type":"long"}]}'
LOGIN = f"""\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config={MODULE} required username="alice" password="alice-secret";
"""


def examples() -> list[Example]:
    every = [*ROOT_EXAMPLES, *(example for tool in TOOLS.values() for example in tool.load().examples)]
    return [example for example in every if not any(words in example.shell for words in NOT_RUN)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, Path]]:
    """A broker that has what the examples name: topics with records, a group that has read some of them, and the user
    alice with a login and a right."""
    directory = tmp_path_factory.mktemp("examples")
    overrides = {
        "kcli.metrics.listener": f"127.0.0.1:{free_port()}",
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{MODULE} required user_alice="alice-secret";',
        "delegation.token.secret.key": "token-secret",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    broker = BrokerProcess(directory, overrides)
    listeners = f"PLAINTEXT://{broker.bootstrap},SASL://127.0.0.1:{free_port()}"
    broker.overrides["advertised.listeners"] = listeners
    broker.overrides["listeners"] = f"{listeners},CONTROLLER://127.0.0.1:{broker.controller_port}"
    with broker:
        _fill(broker)
        yield broker, directory


def _secured(broker: BrokerProcess) -> str:
    """The address of the listener with SASL."""
    return broker.overrides["advertised.listeners"].rpartition("//")[2]


def _fill(broker: BrokerProcess) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    server = ("--bootstrap-server", broker.bootstrap)
    for topic, partitions in (("orders", "3"), ("perf", "1"), ("numbers", "1"), ("latency", "1")):
        assert run(["topics", *server, "--create", "--topic", topic, "--partitions", partitions]) == 0
    # An ACL on a prefix, because one of the examples removes the ACLs of the topic itself.
    to_write = ["--allow-principal", "User:alice", "--operation", "Write"]
    assert (
        run(["acls", *server, "--add", *to_write, "--topic", "ord", "--resource-pattern-type", "prefixed"])
        == 0
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(30):
        producer.produce("orders", f"error {number}", f"key {number}", partition=number % 3)
    for number in range(1000):
        producer.produce("perf", str(number))
        if number < 100:
            producer.produce("numbers", str(number))
    assert producer.flush(60) == 0
    group = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing"})
    group.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
    group.close()


@pytest.fixture(scope="module")
def worker(stage: tuple[BrokerProcess, Path]) -> Iterator[WorkerProcess]:
    """A worker of Kafka Connect that has the connector which the examples name."""
    broker, directory = stage
    with WorkerProcess(directory, broker.bootstrap, {"group.id": "examples"}) as worker:
        worker.start()
        converter = "org.apache.kafka.connect.storage.StringConverter"
        config = {
            "connector.class": "FileStreamSink",
            "topics": "orders",
            "file": str(directory / "orders.txt"),
            "key.converter": converter,
            "value.converter": converter,
        }
        assert worker.request("PUT", "/connectors/orders/config", config).status == 201
        yield worker


@pytest.fixture(scope="module")
def registry(stage: tuple[BrokerProcess, Path]) -> Iterator[MemoryRegistry]:
    """A schema registry that has the schema of the records of the topic `payments`."""
    from confluent_kafka import Producer

    with memory_registry() as registry:
        registry.check = {"is_compatible": True}
        prefix = id_prefix(registry.put("payments-value", PAYMENT))
        producer = Producer({"bootstrap.servers": stage[0].bootstrap})
        producer.produce("payments", prefix + b"\x54")
        assert producer.flush(60) == 0
        yield registry


@pytest.fixture
def here(stage: tuple[BrokerProcess, Path], tmp_path: Path) -> Path:
    """A directory with the files that the examples name."""
    (tmp_path / "config").mkdir()
    programs = [*Path("config").glob("connect-*.properties"), Path("config/schema-registry.properties")]
    for path in programs:
        text = path.read_text()
        for address in ("localhost:9092", "localhost:9192"):
            text = text.replace(address, stage[0].bootstrap)
        text = re.sub(
            "^#?listeners=.*", f"listeners=http://127.0.0.1:{free_port()}", text, flags=re.MULTILINE
        )
        (tmp_path / "config" / path.name).write_text(text)
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors/lines.properties").write_text(
        "name=lines\nconnector.class=FileStreamSource\nfile=in.txt\ntopic=lines\n"
    )
    (tmp_path / "data").symlink_to(stage[1] / "data")
    (tmp_path / "topics.yaml").write_text(TOPICS)
    secured = f"bootstrap.servers={_secured(stage[0])}\n"
    for name in ("alice", "client"):
        (tmp_path / f"{name}.properties").write_text(LOGIN + secured)
    records = [{"key": f"k{number}", "value": f"v{number}"} for number in range(3)]
    (tmp_path / "records.json").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "payment.avsc").write_text(PAYMENT)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/payments-value.avsc").write_text(PAYMENT)
    (tmp_path / "payments.jsonl").write_text('{"cents": 1250}\n')
    (tmp_path / "server.properties").write_text(SERVER.format(broker=free_port(), controller=free_port()))
    return tmp_path


@pytest.mark.parametrize(
    "example", examples(), ids=lambda example: example.purpose.rstrip(":").replace(" ", "-")
)
def test_an_example_does_what_its_command_promises(
    example: Example,
    stage: tuple[BrokerProcess, Path],
    here: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = stage[0]
    if CONNECT_URL in example.shell or example.shell.startswith("kcli connect "):
        url = request.getfixturevalue("worker").url
        monkeypatch.setenv(URL_VARIABLE, url)
        example = replace(example, shell=example.shell.replace(CONNECT_URL, url))
    if example.shell.startswith("kcli schemas ") or any(url in example.shell for url in REGISTRY_URLS):
        url = request.getfixturevalue("registry").url
        monkeypatch.setenv(REGISTRY_VARIABLE, url)
        for address in REGISTRY_URLS:
            example = replace(example, shell=example.shell.replace(address, url))
    metrics = broker.overrides["kcli.metrics.listener"]
    shell = example.shell.replace("localhost:9092", broker.bootstrap).replace("localhost:9999", metrics)
    for address in ("localhost:9093", "h:9093"):
        shell = shell.replace(address, _secured(broker))
    kcli = f'kcli() {{ "{sys.executable}" -m kcli "$@"; }}\n'
    if example.is_endless:
        before, last = _last_command(shell)
        # Without a subshell around it, the last command gets the signal.
        shell = f"{before}exec {last.replace('kcli', f'{sys.executable} -m kcli', 1)}"
    code, printed = _ran(f"set -e\n{kcli}{shell}", here, is_endless=example.is_endless)
    assert code == example.exit_code, printed
    assert "Error" not in printed and "error:" not in printed


def _last_command(shell: str) -> tuple[str, str]:
    at = shell.rindex("kcli ") if "\nkcli " not in shell else shell.rindex("\nkcli ") + 1
    return shell[:at], shell[at:]


def _ran(shell: str, directory: Path, *, is_endless: bool) -> tuple[int, str]:
    """The exit code of the lines, and what they printed to both streams."""
    environment = {name: value for name, value in os.environ.items() if name != "KCLI_PROFILE"}
    printed = ""
    with subprocess.Popen(
        ["bash", "-c", shell],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        if is_endless:
            assert process.stdout is not None
            for line in process.stdout:
                printed += line
                if READY in line:
                    process.send_signal(signal.SIGINT)
                    break
        try:
            printed += process.communicate(timeout=SHELL_TIMEOUT_SECONDS)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return process.returncode, printed
