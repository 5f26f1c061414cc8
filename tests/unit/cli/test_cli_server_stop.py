from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.cli.tools import server_stop
from kcli.cli.tools.server_stop import running_servers, server_words


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["/venv/bin/python3", "/venv/bin/kcli", "server-start", "s.properties"], ("s.properties",)),
        (["/usr/bin/kcli", "server-start", "a", "--override", "x=1"], ("a", "--override", "x=1")),
        (["python3", "-m", "kcli.server.main", "s.properties"], ("s.properties",)),
        (["python3", "-m", "kcli", "server-start", "s.properties"], ("s.properties",)),
        (["/venv/bin/python3", "/venv/bin/kcli", "server-stop"], None),
        (["vim", "server-start"], None),
        (["grep", "-r", "something", "kcli", "kcli", "server-start"], None),
        (["java", "kafka.Kafka", "server.properties"], None),
        ([], None),
    ],
)
def test_which_processes_are_servers(argv: list[str], words: tuple[str, ...] | None) -> None:
    assert server_words(argv) == words


class Machine:
    """A /proc of its own, and the signals that were sent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sent: list[tuple[int, int]] = []

    def add(self, pid: int, *argv: str) -> None:
        (self.root / str(pid)).mkdir(parents=True)
        (self.root / str(pid) / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in argv))
        os.symlink(self.root.parent, self.root / str(pid) / "cwd")

    def add_server(self, pid: int, roles: str, node_id: int, *more: str) -> None:
        (self.root.parent / f"{pid}.properties").write_text(f"process.roles={roles}\nnode.id={node_id}\n")
        self.add(pid, "python3", "/bin/kcli", "server-start", f"{pid}.properties", *more)

    def kill(self, pid: int, number: int) -> None:
        self.sent.append((pid, number))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path / "proc")
    made.root.mkdir()
    made.add(1, "init")
    monkeypatch.setattr(server_stop, "running_servers", lambda: running_servers(str(made.root)))
    monkeypatch.setattr(os, "kill", made.kill)
    monkeypatch.delenv("SIGNAL", raising=False)
    return made


def test_stop_fails_if_no_server_runs(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["server-stop"]) == 1
    assert capsys.readouterr().out == "No kafka server to stop\n"


def test_every_server_is_stopped(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.add_server(10, "broker,controller", 1)
    machine.add_server(9, "broker", 2)
    assert run(["server-stop"]) == 0
    assert machine.sent == [(9, signal.SIGTERM), (10, signal.SIGTERM)]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("argv", "stopped"),
    [
        (["--node-id=2"], [11]),
        (["--node-id", "3"], [12]),
        (["--process-role=broker"], [11]),
        (["--process-role=controller,broker"], [10]),
        (["--process-role=broker", "--node-id=1"], [10]),
    ],
)
def test_servers_are_chosen_by_node_id_or_role(machine: Machine, argv: list[str], stopped: list[int]) -> None:
    machine.add_server(10, "broker,controller", 1)
    machine.add_server(11, "broker", 2)
    machine.add_server(12, "controller", 9, "--override", "node.id=3")
    assert run(["server-stop", *argv]) == 0
    assert [pid for pid, _ in machine.sent] == stopped


def test_stop_fails_if_no_server_has_the_node_id(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.add_server(10, "broker", 1)
    assert run(["server-stop", "--node-id=7", "--process-role=broker"]) == 1
    assert capsys.readouterr().out == (
        "When both node-id and process-role are provided, the value for node-id will take precedence\n"
        "No kafka server to stop\n"
    )
    assert machine.sent == []


def test_the_signal_can_be_chosen(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.add_server(10, "broker", 1)
    for name, number in (("KILL", signal.SIGKILL), ("SIGINT", signal.SIGINT), ("15", signal.SIGTERM)):
        monkeypatch.setenv("SIGNAL", name)
        machine.sent.clear()
        assert run(["server-stop"]) == 0
        assert machine.sent == [(10, number)]


def test_an_unreadable_configuration_or_unknown_signal_is_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.add(10, "kcli", "server-start", "gone.properties")
    assert run(["server-stop", "--node-id=1"]) == 1
    assert capsys.readouterr().err.startswith(
        "Can not find the configuration file in the current directory. Please"
    )
    monkeypatch.setenv("SIGNAL", "HALT")
    assert run(["server-stop"]) == 1
    assert "SIGNAL=HALT is not a signal" in capsys.readouterr().err
    monkeypatch.delenv("SIGNAL")

    def denied(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", denied)
    assert run(["server-stop"]) == 1
    assert "not permitted to stop process 10" in capsys.readouterr().err


def test_this_process_is_not_found() -> None:
    assert os.getpid() not in {server.pid for server in running_servers()}
