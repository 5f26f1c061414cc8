"""A real Prometheus in its own process, which scrapes the nodes of a test."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kcli.testing.broker_process import free_port

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
DATA_SECONDS = 60.0
"""The longest wait for data. A rate needs two scrapes, and the lag of a group two samples of the broker."""
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Job:
    """The addresses that have the metrics of a job, the profile, and the path."""

    targets: Sequence[str]
    profile: str = "default"
    path: str = "/metrics"


class Prometheus:
    """Scrapes each job every second."""

    def __init__(self, directory: Path, jobs: Mapping[str, Job], rules: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        config = {  # JSON is also YAML
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {
                    "job_name": name,
                    "metrics_path": job.path,
                    "params": {"profile": [job.profile]},
                    "static_configs": [{"targets": list(job.targets)}],
                }
                for name, job in jobs.items()
            ],
        }
        directory.mkdir(parents=True)
        (directory / "prometheus.yml").write_text(json.dumps(config))

    def __enter__(self) -> Self:
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self.directory / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self.directory / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + START_SECONDS
        while not self._is_ready():
            assert self._process.poll() is None and time.monotonic() < until, (
                self.directory / "log"
            ).read_text()
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of the HTTP API. Raises AssertionError with the text of an error."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def query(self, query: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        found = self.get("query", query=query)["result"]
        assert isinstance(found, list)
        return found

    def names(self, job: str) -> set[str]:
        """The names of all metrics of a job."""
        return set(self.get("label/__name__/values", **{"match[]": f'{{job="{job}"}}'}))

    def without_data(self, queries: Collection[str]) -> list[str]:
        """The queries that have no data at the same time, after a wait of at most DATA_SECONDS."""
        return wait_until_empty(lambda: [query for query in queries if not self.query(query)])

    def without_names(self, job: str, names: Collection[str]) -> list[str]:
        """The names that no metric of a job has, after a wait of at most DATA_SECONDS."""
        return wait_until_empty(lambda: sorted(set(names) - self.names(job)))


def wait_until_empty(missing: Callable[[], list[str]]) -> list[str]:
    """The last result of `missing`: an empty list, or what is still missing after DATA_SECONDS."""
    until = time.monotonic() + DATA_SECONDS
    while (found := missing()) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    return found
