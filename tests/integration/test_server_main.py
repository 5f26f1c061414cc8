"""The process of a server: the last line and the exit code of a start that fails."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from kcli.config.start_up import node_config
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import Machine, ensure_formatted


def test_a_node_that_finds_no_quorum_waits_until_it_is_stopped(tmp_path: Path) -> None:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": str(tmp_path / "data"),
    }
    (tmp_path / "data").mkdir()
    config = node_config(properties)
    ensure_formatted(config, Machine(SystemDisk(), SystemClock(), SystemRng(1)), lambda _line: None)
    (voters,) = (tmp_path / "data" / "__cluster_metadata-0").glob("*.checkpoint")
    voters.unlink()
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    command = [sys.executable, "-m", "kcli", "server-start", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any("Awaiting socket connections" in line for line in lines)
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(60) == 0
    assert "The server was stopped before it was ready" in rest
