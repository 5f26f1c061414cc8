"""The environment variables of Kafka's scripts: what has an effect, and what a warning names instead."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.config import environment
from kcli.config.environment import EFFECTS, NAMES
from kcli.server.main import METRICS_LISTENER, _closed_metrics, configured

DOCS = Path(__file__).parents[3] / "docs" / "scripts.md"
JMX = "-Dcom.sun.management.jmxremote"
OPEN = f"{JMX} {JMX}.authenticate=false {JMX}.ssl=false -Djava.rmi.server.hostname=h"
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
"""


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment without these variables. Afterwards, the time zone of the process is again as before."""
    for name in (*NAMES, "KCLI_SCRIPT", "KRB5_CONFIG", "KRB5_TRACE", "TZ", "TMPDIR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text(PROPERTIES)
    return str(path)


def test_a_system_property_is_a_whole_word_and_its_last_value_counts() -> None:
    value = environment.system_property
    assert value("a.b", {"KAFKA_OPTS": "-Da.b=x -Daxb=y"}) == "x"
    assert value("a.b", {"KAFKA_OPTS": "-Dc-Da.b=x -Daxb=y"}) is None
    assert value("a.b", {"KAFKA_OPTS": "-Da.b=x -Da.b=y=z"}) == "y=z"
    assert value("a.b", {"KAFKA_OPTS": "-Da.b=x", "KAFKA_HEAP_OPTS": "-Da.b=y"}) == "x"
    assert value("a.b", {"KAFKA_JVM_PERFORMANCE_OPTS": "-Da.b=x"}) == "x"
    assert value("a.b", {"KAFKA_OPTS": "-Da.b"}) is None
    no_break_space = "\N{NO-BREAK SPACE}"
    assert value("a.b", {"KAFKA_OPTS": f"-Da.b=x{no_break_space}y"}) == f"x{no_break_space}y"
    assert value("a.b", {}) is None


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/etc/jaas.conf", "/etc/jaas.conf"),
        ("=/etc/jaas.conf", "/etc/jaas.conf"),
        ("file:/etc/jaas.conf", "/etc/jaas.conf"),
        ("file:///etc/jaas.conf", "/etc/jaas.conf"),
        ("jaas.conf", "jaas.conf"),
    ],
)
def test_the_jaas_file_of_a_node(text: str, path: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-Dx=y -Djava.security.auth.login.config={text}")
    assert configured(file, {}).text("java.security.auth.login.config") == path
    with open(file, "a") as more:
        more.write("java.security.auth.login.config=/own\n")
    assert configured(file, {}).text("java.security.auth.login.config") == "/own"


def test_the_process_gets_the_variables_of_c_libraries() -> None:
    found = {
        "KAFKA_OPTS": "-Djava.security.krb5.conf=/krb5.conf -Dsun.security.krb5.debug=true -Djava.io.tmpdir=/scratch",
        "KAFKA_HEAP_OPTS": "-Duser.timezone=Europe/Berlin",
    }
    environment.apply_to_process(found)
    assert found["KRB5_CONFIG"] == "/krb5.conf"
    assert found["KRB5_TRACE"] == "/dev/stderr"
    assert found["TMPDIR"] == "/scratch"
    assert found["TZ"] == "Europe/Berlin"


def test_the_directory_of_log_files() -> None:
    assert environment.logs_directory({}) is None
    assert environment.logs_directory({"LOG_DIR": "/logs"}) == "/logs"
    assert (
        environment.logs_directory({"LOG_DIR": "/logs", "KAFKA_LOG4J_OPTS": "-Dkafka.logs.dir=/own"})
        == "/own"
    )


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({"JMX_PORT": "9999"}, ":9999"),
        ({"JMX_PORT": "9999", "KAFKA_JMX_OPTS": OPEN}, ":9999"),
        ({"KAFKA_JMX_OPTS": f"{OPEN} {JMX}.port=9998 {JMX}.host=127.0.0.1"}, "127.0.0.1:9998"),
        ({"KAFKA_OPTS": f"{OPEN} {JMX}.port=9998 {JMX}.host=::1"}, "[::1]:9998"),
        ({"KAFKA_JMX_OPTS": OPEN}, None),
        ({}, None),
    ],
)
def test_the_port_for_metrics(
    variables: dict[str, str], address: str | None, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config = configured(file, {})
    assert (config.text(METRICS_LISTENER) or None) == address
    assert _closed_metrics(config) == []


def test_a_port_for_metrics_that_demands_a_login_is_not_opened_without_one(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JMX_PORT", "9999")
    monkeypatch.setenv("KAFKA_JMX_OPTS", f"{JMX}.ssl=false {JMX}.password.file=/secret")
    config = configured(file, {})
    assert not config.text(METRICS_LISTENER)
    (line,) = _closed_metrics(config)
    assert line.endswith("Set kcli.metrics.listener=:9999 and kcli.metrics.users.")
    config = configured(file, {"kcli.metrics.users": "a:b"})
    assert config.text(METRICS_LISTENER) == ":9999"
    assert _closed_metrics(config) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("KAFKA_HEAP_OPTS", "-Xmx1G", "MemoryMax="),
        ("KAFKA_JVM_PERFORMANCE_OPTS", "-server -XX:+UseG1GC", "Unset the variable"),
        ("KAFKA_GC_LOG_OPTS", "-Xlog:gc", "kcli.metrics.listener"),
        ("KAFKA_LOG4J_OPTS", "-Dlog4j2.configurationFile=x", "kcli.log.levels"),
        ("KAFKA_DEBUG", "y", "kcli.log.levels"),
        ("CLASSPATH", "/x.jar", "docs/security.md"),
        ("SCALA_VERSION", "2.13", "no jar files"),
        ("INCLUDE_TEST_JARS", "true", "no jar files"),
        ("UPGRADE_KAFKA_STREAMS_TEST_VERSION", "3.0", "no jar files"),
        ("KAFKA_MODE", "native", "Unset the variable"),
        ("KAFKA_OPTS", "-Dlog4j.configuration=file:x", "kcli.log.format"),
        ("KAFKA_OPTS", "-Djavax.net.ssl.trustStorePassword=secret", "ssl.truststore.location"),
        ("KAFKA_OPTS", "-javaagent:/secret.jar=7071:/x.yml", "kcli.metrics.listener"),
        ("KAFKA_OPTS", "-Dpassword=secret", "kcli does not run on a JVM"),
        ("KAFKA_OPTS", "secret", "A word without -D"),
        ("KAFKA_JMX_OPTS", f"{JMX}.access.file=secret", "kcli.metrics.users"),
    ],
)
def test_a_variable_without_effect_causes_one_line_that_names_the_alternative(
    name: str, value: str, said: str
) -> None:
    (line,) = environment.warnings({name: value}, is_node=True)
    assert name in line
    assert said in line
    assert "secret" not in line
    (line,) = environment.warnings({name: value}, is_script=True)
    assert name in line
    assert "secret" not in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KAFKA_OPTS", "-Djava.security.auth.login.config=x -Djava.awt.headless=true"),
        ("KAFKA_HEAP_OPTS", "-Duser.timezone=UTC"),
        ("KAFKA_LOG4J_OPTS", "-Dkafka.logs.dir=/x"),
        ("KAFKA_JMX_OPTS", f"{OPEN} {JMX}.port=1 {JMX}.rmi.port=1"),
        ("JMX_PORT", "1"),
        ("INCLUDE_TEST_JARS", "false"),
        ("LOG_DIR", "x"),
        ("EXTRA_ARGS", "-name x"),
        ("JAVA_HOME", "/x"),
        ("JAVA_TOOL_OPTIONS", "-Xmx1G"),
        ("KAFKA_HEAP_OPTS", " "),
    ],
)
def test_a_variable_with_an_effect_causes_no_line(name: str, value: str) -> None:
    assert list(environment.warnings({name: value}, is_node=True)) == []


def test_variables_of_jar_files_concern_only_nodes_and_scripts() -> None:
    assert list(environment.warnings({"CLASSPATH": "x", "SCALA_VERSION": "2"})) == []
    (line,) = environment.warnings({"JMX_PORT": "1"})
    assert "only a node opens a port for metrics" in line


def test_a_tool_warns_on_stderr_before_its_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_HEAP_OPTS", "-Xmx1G")
    monkeypatch.setenv("KAFKA_OPTS", "-Dlogin.password=hunter2 -Djava.security.krb5.conf=/krb5.conf")
    assert run(["storage", "random-uuid"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1
    first, second = captured.err.splitlines()
    assert first.startswith("WARN -Dlogin.password in the environment variable KAFKA_OPTS has no effect: ")
    assert second.startswith("WARN The environment variable KAFKA_HEAP_OPTS has no effect: ")
    assert "hunter2" not in captured.err
    assert os.environ["KRB5_CONFIG"] == "/krb5.conf"


def test_the_nodes_of_one_machine_do_not_share_a_port_and_a_directory() -> None:
    shared = {
        "JMX_PORT": "1",
        "LOG_DIR": "x",
        "KAFKA_OPTS": f"-Da=b -Dkafka.logs.dir=x {JMX}.port=1",
        "X": "y",
    }
    assert environment.without_options_of_one_node(shared) == {"KAFKA_OPTS": "-Da=b", "X": "y"}


def test_the_docs_list_every_variable_and_every_system_property() -> None:
    text = DOCS.read_text()
    assert [name for name in (*NAMES, *EFFECTS) if f"| {name} |" not in text] == []
