from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kcli.server.main
from kcli import KAFKA_VERSION
from kcli.cli.main import run
from kcli.config.broker import BrokerConfig
from kcli.server.logging.settings import log_settings

TEXTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in TEXTS.items()))
    return str(path)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[BrokerConfig]:
    """The configurations that were served, instead of serving them."""
    configs: list[BrokerConfig] = []

    def serve(config: BrokerConfig) -> int:
        configs.append(config)
        return 0

    monkeypatch.setattr(kcli.server.main, "run", serve)
    return configs


def test_a_file_and_overrides(file: str, served: list[BrokerConfig]) -> None:
    assert run(["server-start", file, "--override", "num.partitions=3", "--override=broker.rack = r1"]) == 0
    (config,) = served
    assert config["num.partitions"] == 3
    assert config.rack == "r1"


def test_the_format_of_the_log_takes_precedence_over_the_file(file: str, served: list[BrokerConfig]) -> None:
    with open(file, "a") as lines:
        lines.write("kcli.log.format=json\n")
    for argv in (
        [],
        ["--log-format", "text"],
        ["--log-format", "json", "--override", "kcli.log.format=text"],
    ):
        assert run(["server-start", file, *argv]) == 0
    assert [log_settings(config, None).format for config in served] == ["json", "text", "json"]


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--override", "a=b"], "USAGE: kcli server-start [-daemon] server.properties"),
        (["FILE", "extra"], "Found non argument parameters: extra\n"),
        (["FILE", "--override", "a"], "Invalid command line properties: a;"),
        (
            ["FILE", "--override", "num.partitions=0"],
            "--override: Invalid value 0 for configuration num.partitions: ",
        ),
        (
            ["FILE", "--override", "remote.log.storage.system.enable=true"],
            "--override: remote.log.storage.system.enable is set, and what it asks for is not built yet",
        ),
        (
            ["FILE", "--log-format", "xml"],
            "Cannot parse argument 'xml' of option log-format: not one of text, json\n",
        ),
        (
            ["missing.properties"],
            "cannot read the configuration file missing.properties: No such file or directory\n",
        ),
    ],
)
def test_refused_options_are_named(
    file: str,
    served: list[BrokerConfig],
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    message: str,
) -> None:
    assert run(["server-start", *(file if word == "FILE" else word for word in argv)]) == 1
    assert capsys.readouterr().err.startswith(message)
    assert served == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("kcli.log.levels=foo", "Invalid value foo for configuration kcli.log.levels: "),
        (
            "config.providers=file",
            "config.providers names 'file', but config.providers.file.class does not say",
        ),
        ("authorizer.class.name=a.B", "authorizer.class.name: "),
        ("create.topic.policy.class.name=a.B", "create.topic.policy.class.name: "),
    ],
)
def test_an_invalid_value_is_an_error_with_its_line(
    file: str, served: list[BrokerConfig], capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    with open(file, "a") as lines:
        lines.write(f"{line}\n")
    assert run(["server-start", file]) == 1
    assert capsys.readouterr().err.startswith(f"server.properties:6: {message}")
    assert served == []


def test_help_starts_nothing(served: list[BrokerConfig], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["server-start", "--help"]) == 0
    assert capsys.readouterr().out.startswith("USAGE: kcli server-start")
    assert served == []


def test_the_version_option_prints_the_version_of_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["server-start", "--version"]) == 0
    assert capsys.readouterr().out == f"{KAFKA_VERSION}\n"


@pytest.mark.parametrize("daemon", ["-daemon", "--daemon"])
def test_in_the_background(
    tmp_path: Path,
    file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    daemon: str,
) -> None:
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    started: list[tuple[list[str], dict[str, Any]]] = []

    class Process:
        pid = 4711
        returncode = None

        def __init__(self, argv: list[str], **options: Any) -> None:
            started.append((argv, options))

    monkeypatch.setattr("kcli.cli.tools.server_start.subprocess.Popen", Process)
    argv = ["server-start", daemon, file, "--log-format", "json", "--override", "num.partitions=3"]
    assert run(argv) == 0
    ((argv, options),) = started
    overrides = ["--override", "num.partitions=3", "--override", "kcli.log.format=json"]
    assert argv[1:] == ["-m", "kcli.server.main", "--background", file, *overrides]
    assert options["start_new_session"]
    assert options["env"]["LOG_DIR"] == str(tmp_path / "logs")
    assert options["stdout"].name == str(tmp_path / "logs" / "kafkaServer.out")
    assert capsys.readouterr().out == ""
    assert run(["server-start", daemon, file, "--override", "num.partitions=0"]) == 1
    assert len(started) == 1


def test_the_options_of_kafkas_script_in_the_environment(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("EXTRA_ARGS", "-daemon -name node7 -loggc")
    started: list[str] = []

    class Process:
        pid = 4711
        returncode = None

        def __init__(self, _argv: list[str], **options: Any) -> None:
            started.append(options["stdout"].name)

    monkeypatch.setattr("kcli.cli.tools.server_start.subprocess.Popen", Process)
    assert run(["server-start", file]) == 0
    assert started == [str(tmp_path / "logs" / "node7.out")]


def test_a_listener_whose_host_cannot_be_a_name_is_an_error_with_its_line(file: str, tmp_path: Path) -> None:
    with open(file, "a") as lines:
        lines.write(f"log.dirs={tmp_path / 'data'}\nlisteners=PLAINTEXT://a..b:0,CONTROLLER://127.0.0.1:0\n")
        lines.write("advertised.listeners=PLAINTEXT://127.0.0.1:9092\n")
    done = subprocess.run(
        [sys.executable, "-m", "kcli", "server-start", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "server.properties:7: listeners: a..b cannot be the name of a host" in done.stdout + done.stderr
