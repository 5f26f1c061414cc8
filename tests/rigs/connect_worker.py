"""Worker processes of Kafka Connect for tests, and requests to their REST API."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kcli.local_cluster.ports import free_port

READY_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 60.0
REQUEST_TIMEOUT_SECONDS = 100.0
_POLL_SECONDS = 0.05

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True, slots=True)
class RestResponse:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> object:
        """The decoded JSON, or None if the response has none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None


class WorkerProcess:
    """A distributed worker. `overrides` take precedence over the properties that tests need."""

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        overrides: Mapping[str, str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.log_path = directory / f"worker-{self.port}.log"
        self._bootstrap = bootstrap
        self._overrides = dict(overrides or {})
        self._environment = dict(environment or {})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def properties(self) -> dict[str, str]:
        group = self._overrides.get("group.id", "connect")
        return {
            "bootstrap.servers": self._bootstrap,
            "group.id": group,
            "listeners": self.url,
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            "config.storage.topic": f"{group}-configs",
            "offset.storage.topic": f"{group}-offsets",
            "status.storage.topic": f"{group}-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "offset.flush.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            **self._overrides,
        }

    def start(self, *, ready_status: int = 200) -> Self:
        """Starts the worker, and waits until /health answers with a status."""
        assert self.process is None, "it runs already"
        file = self.directory / f"worker-{self.port}.properties"
        file.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in self.properties.items()))
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kcli", "connect-distributed", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | self._environment,
                cwd=self.directory,
            )
        self._wait(ready_status)
        return self

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

    def close(self) -> None:
        """Kills the worker if it still runs."""
        if self.process is not None:
            self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, ready_status: int) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        while True:
            assert self.process is not None, "started"
            if self.process.poll() is not None:
                raise RuntimeError(f"the worker ended with {self.process.returncode}: {self.log_tail()}")
            try:
                if self.request("GET", "/health").status == ready_status:
                    return
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise RuntimeError(f"the worker is not ready: {self.log_tail()}")
            time.sleep(_POLL_SECONDS)

    def log_tail(self) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-30:])

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        text: str | None = None,
    ) -> RestResponse:
        """Sends a request. `body` becomes JSON, and `text` is sent as it is."""
        return rest_request(f"{self.url}{path}", method, body, headers=headers, text=text)


def rest_request(
    url: str,
    method: str = "GET",
    body: object = None,
    *,
    headers: Mapping[str, str] | None = None,
    text: str | None = None,
) -> RestResponse:
    data = text if text is not None else None if body is None else json.dumps(body)
    if headers is None:
        headers = {"Accept": "application/json"} | (
            {"Content-Type": "application/json"} if data is not None else {}
        )
    request = urllib.request.Request(
        url, None if data is None else data.encode(), dict(headers), method=method
    )
    if data is not None and "Content-Type" not in headers:
        request.add_unredirected_header("Content-Type", "")  # urllib would add the type of a form
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_SECONDS) as answer:
            return RestResponse(answer.status, dict(answer.headers), answer.read().decode())
    except urllib.error.HTTPError as error:
        return RestResponse(error.code, dict(error.headers), error.read().decode(errors="replace"))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
