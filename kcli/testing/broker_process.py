"""Runs a real broker in its own process, on free ports of 127.0.0.1, for tests.

    with BrokerProcess(tmp_path, overrides={"num.partitions": "3"}) as broker:
        ... broker.bootstrap ...

The broker's data is in `<directory>/data`, and its log in `<directory>/server.log`. The ports stay the same after a
restart.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

READY_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 60.0
READY_LINE = "Kafka Server started"
_POLL_SECONDS = 0.01
_PORTS = range(10_240, 32_768)
"""The ports to choose from: five digits, below the range that Linux gives to outgoing connections.

Otherwise an outgoing connection could use a broker's port before the broker starts or while it is down.
"""


class BrokerProcess:
    """A cluster of one node. `overrides` are broker properties that take precedence over `properties`."""

    def __init__(self, directory: Path | str, overrides: Mapping[str, str] | None = None) -> None:
        self.directory = Path(directory)
        self.overrides = dict(overrides or {})
        self.port = free_port()
        self.controller_port = free_port()
        self.log_path = self.directory / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        """The configuration of the broker."""
        broker, controller = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": controller,
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            "num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.overrides,
        }

    def start(self) -> Self:
        """Starts the broker, and returns when it answers.

        Raises RuntimeError with the end of its log if it does not start.
        """
        assert self.process is None, "it runs already"
        properties = self.write_properties()
        offset = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kcli", "server-start", os.fspath(properties)],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        self._wait_until_ready(offset)
        return self

    def write_properties(self) -> Path:
        """Writes the configuration to `server.properties` in the directory of the broker."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        return path

    def stop(self) -> int:
        """Sends SIGTERM. Returns the exit code after a clean stop."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Sends SIGKILL, as a crash."""
        return self._end(signal.SIGKILL)

    def wait(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> int:
        """Waits until the broker ends by itself, and returns its exit code. Raises subprocess.TimeoutExpired."""
        assert self.process is not None, "it does not run"
        code = self.process.wait(timeout_seconds)
        self.process = None
        return code

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def __enter__(self) -> Self:
        return self if self.process is not None else self.start()

    def __exit__(self, *_exc: object) -> None:
        if self.process is not None:
            self.stop()

    def _end(self, signal_number: signal.Signals) -> int:
        process = self.process
        assert process is not None, "it does not run"
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal_number)
        try:
            return process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(
                f"the broker did not stop within {STOP_TIMEOUT_SECONDS} s; {self._tail()}"
            ) from None
        finally:
            self.process = None

    def _wait_until_ready(self, log_offset: int) -> None:
        assert self.process is not None
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            if READY_LINE in self._log_from(log_offset):
                return
            if self.process.poll() is not None:
                code, self.process = self.process.returncode, None
                raise RuntimeError(f"the broker ended with exit code {code}; {self._tail()}")
            time.sleep(_POLL_SECONDS)
        self.kill()
        raise RuntimeError(f"the broker was not ready within {READY_TIMEOUT_SECONDS} s; {self._tail()}")

    def _log_from(self, offset: int) -> str:
        with self.log_path.open("rb") as log:
            log.seek(offset)
            return log.read().decode("utf-8", "replace")

    def _tail(self) -> str:
        return "the end of its log:\n" + "\n".join(self._log_from(0).splitlines()[-30:])


def free_port() -> int:
    """Returns a free port. The operating system chooses it, because `random` would give parallel test processes the
    same port."""
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
