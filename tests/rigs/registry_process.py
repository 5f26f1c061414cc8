"""Registry processes for tests, and requests to their REST APIs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from kcli.local_cluster.ports import free_port
from rigs.connect_worker import RestResponse, rest_request

READY_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.02


class RegistryProcess:
    """A registry. `overrides` take precedence over the properties that tests need."""

    def __init__(self, directory: Path, bootstrap: str, overrides: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.port = free_port()
        self.log_path = directory / f"registry-{self.port}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._properties = {
            "kafkastore.bootstrap.servers": bootstrap,
            "kafkastore.timeout.ms": "20000",
            "listeners": self.url,
            **(overrides or {}),
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Starts the registry, and waits until it is healthy."""
        assert self.process is None, "it runs already"
        file = self.directory / f"registry-{self.port}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self._properties.items()))
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kcli", "schema-registry", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
            )
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the registry is not ready: {self.log_tail()}")
            time.sleep(_POLL_SECONDS)
        return self

    def _is_ready(self) -> bool:
        try:
            return self.request("GET", "/health").status == 200
        except OSError:
            return False

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None, "it runs"
        self.process.send_signal(number)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        return self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        process = self.process
        assert process is not None, "it runs"
        process.send_signal(number)
        code = process.wait(STOP_TIMEOUT_SECONDS)
        self.process = None
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()

    def log_tail(self) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-30:])

    def request(self, method: str, path: str, body: object = None) -> RestResponse:
        return rest_request(f"{self.url}{path}", method, body)
