"""Runs a real broker in its own process, on free ports of 127.0.0.1, for tests.

    with BrokerProcess(tmp_path, overrides={"num.partitions": "3"}) as broker:
        ... broker.bootstrap ...

The broker's data is in `<directory>/data`, and its log in `<directory>/server.log`. The ports stay the same after a
restart.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from kcli.config.properties import Properties, editable
from kcli.config.start_up import node_config
from kcli.local_cluster.node_process import SERVER_COMMAND, NodeProcess
from kcli.local_cluster.ports import free_port
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import Machine, ensure_formatted
from kcli.storage.meta_properties import META_PROPERTIES_FILE

__all__ = ["BrokerProcess", "free_port"]

READY_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 60.0
TAIL_LINES = 30
_POLL_SECONDS = 0.01


class BrokerProcess:
    """A broker process: the only node of a cluster, or one node of a `ClusterProcesses`.

    `overrides` are broker properties that take precedence over the defaults in `properties`. `command` and
    `environment` replace the command `kcli server-start` and its environment.
    """

    def __init__(
        self,
        directory: Path | str,
        overrides: Mapping[str, str] | None = None,
        *,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory)
        self.overrides = dict(overrides or {})
        self.port = free_port()
        self.controller_port = free_port()
        self.log_path = self.directory / "server.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.ready_timeout_seconds = READY_TIMEOUT_SECONDS
        self._node = NodeProcess(
            self.directory / "server.properties",
            self.log_path,
            command=command or SERVER_COMMAND,
            environment=environment,
        )

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        """The configuration of the broker, with `overrides`."""
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
        """Starts the broker, and waits until it answers.

        Raises RuntimeError with the end of its log if it does not start.
        """
        assert self.process is None, "it runs already"
        self.write_properties()
        self._format_several()
        self._node.start()
        self.process = self._node.process
        self._wait_until_ready()
        return self

    def _format_several(self) -> None:
        """Formats several new log directories, because a node formats only a single one itself."""
        config = node_config(Properties(self.properties), {})
        if len(config.all_dirs) > 1 and not any(
            Path(each, META_PROPERTIES_FILE).exists() for each in config.all_dirs
        ):
            ensure_formatted(config, Machine(SystemDisk(), SystemClock(), SystemRng()), lambda _line: None)

    def write_properties(self) -> Path:
        """Writes the configuration to `server.properties` in the directory of the broker."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._node.properties_file.write_text(editable(self.properties))
        return self._node.properties_file

    def stop(self) -> int:
        """Sends SIGTERM, waits for the end of the broker, and returns its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Sends SIGKILL, to simulate a crash. Waits for the end of the broker, and returns its exit code."""
        return self._end(signal.SIGKILL)

    def wait(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> int:
        """Waits until the broker ends by itself, and returns its exit code. Raises subprocess.TimeoutExpired after
        `timeout_seconds`.
        """
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

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self.ready_timeout_seconds
        while time.monotonic() < deadline:
            if self._node.is_ready():
                return
            code = self._node.exit_code()
            if code is not None:
                self.process = None
                raise RuntimeError(f"the broker ended with exit code {code}; {self._tail()}")
            time.sleep(_POLL_SECONDS)
        self.kill()
        raise RuntimeError(f"the broker was not ready within {self.ready_timeout_seconds} s; {self._tail()}")

    def _tail(self) -> str:
        return "the end of its log:\n" + "\n".join(self._node.last_lines(TAIL_LINES))
