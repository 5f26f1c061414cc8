"""A distributed worker of Connect, as a process: what a user does by REST and with `kcli connect`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from kcli.testing.broker_process import BrokerProcess
from rigs.connect_worker import WorkerProcess

PATIENCE_SECONDS = 60.0

FLAKY = """
import time
from pathlib import Path

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType
from kcli.connectors.interface import SourceConnector, SourceTask


class FlakyTask(SourceTask):
    def poll(self):
        with Path(self.config["file"]).open("a+") as starts:
            starts.seek(0)
            if len(starts.readlines()) >= 2:
                time.sleep(0.1)
                return []
            print("started", file=starts)
        raise ValueError("not yet")

    def start(self, config):
        self.config = config


class FlakySource(SourceConnector):
    config_def = ConfigDef([ConfigKey("file", ConfigType.STRING, None, required=True)])
    task_class = FlakyTask

    def task_configs(self, max_tasks):
        return [self.config]

    def alter_offsets(self, config, offsets):
        asked = Path(config["file"] + ".asked")
        asked.touch()
        while asked.exists():
            time.sleep(0.01)
        return True
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    directory = tmp_path_factory.mktemp("connect")
    (directory / "plugins").mkdir()
    (directory / "plugins/flaky.py").write_text(FLAKY)
    overrides = {"plugin.path": "plugins", "scheduled.rebalance.max.delay.ms": "300000"}
    with (
        BrokerProcess(directory / "broker", {"group.initial.rebalance.delay.ms": "0"}) as broker,
        WorkerProcess(directory, broker.bootstrap, overrides) as worker,
    ):
        yield worker.start()


def _connect(worker: WorkerProcess, *words: str) -> str:
    command = [sys.executable, "-m", "kcli", "connect", *words, "--url", worker.url]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    ).stdout


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.05)


def _states(worker: WorkerProcess, name: str) -> list[str]:
    body = worker.request("GET", f"/connectors/{name}/status").body
    tasks = cast(list[dict[str, str]], cast(dict[str, object], body).get("tasks", []))
    return [task["state"] for task in tasks]


def _create(worker: WorkerProcess, name: str, config: dict[str, str]) -> None:
    response = worker.request("PUT", f"/connectors/{name}/config", config)
    assert response.status == 201, response.text


def test_a_failed_task_is_restarted_if_its_configuration_asks_for_it(worker: WorkerProcess) -> None:
    starts = worker.directory / "starts"
    config = {
        "connector.class": "flaky.FlakySource",
        "file": str(starts),
        "kcli.restart.backoff.ms": "100",
        "kcli.restart.backoff.max.ms": "200",
    }
    _create(worker, "flaky", config)
    _until(lambda: _connect(worker, "logs", "flaky").count("The failed task is restarted in") == 2)
    _until(lambda: _states(worker, "flaky") == ["RUNNING"])
    assert starts.read_text() == "started\n" * 2
    bad = worker.request("PUT", "/connectors/flaky/config", {**config, "kcli.restart.backoff.ms": "-1"})
    assert bad.status == 400 and "kcli.restart.backoff.ms" in bad.text


def test_offsets_that_are_altered_for_long_hold_up_nothing_else(worker: WorkerProcess) -> None:
    file = worker.directory / "altered"
    config = {"connector.class": "flaky.FlakySource", "file": str(file)}
    _create(worker, "altered", config)
    assert worker.request("PUT", "/connectors/altered/stop").status == 204
    _until(lambda: '"STOPPED"' in worker.request("GET", "/connectors/altered/status").text)
    asked = file.with_name("altered.asked")
    with ThreadPoolExecutor() as pool:
        reset = pool.submit(worker.request, "DELETE", "/connectors/altered/offsets")
        _until(asked.exists)
        _create(worker, "beside", config)
        assert not reset.done()
        asked.unlink()
        assert reset.result().status == 200


def test_a_new_connector_says_that_it_finds_old_offsets(worker: WorkerProcess) -> None:
    source = worker.directory / "in.txt"
    source.write_text("a\nb\n")
    config = {
        "connector.class": "FileStreamSource",
        "file": str(source),
        "topic": "lines",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    _create(worker, "lines", config)
    _until(lambda: "position" in worker.request("GET", "/connectors/lines/offsets").text)
    assert "earlier connector" not in _connect(worker, "logs", "lines")
    assert worker.request("DELETE", "/connectors/lines").status == 204
    _until(lambda: worker.request("GET", "/connectors/lines").status == 404)
    _create(worker, "lines", config)
    _until(lambda: _states(worker, "lines") == ["RUNNING"])
    assert "An earlier connector with this name has left 1 offsets." in _connect(worker, "logs", "lines")


def test_the_status_says_when_the_work_of_a_lost_worker_is_assigned(worker: WorkerProcess) -> None:
    assert worker.request("GET", "/rebalance").body == {"delay_ms": 0}
    with WorkerProcess(
        worker.directory,
        worker.properties["bootstrap.servers"],
        {
            "session.timeout.ms": "6000",
            "plugin.path": "plugins",
            "scheduled.rebalance.max.delay.ms": "300000",
        },
    ) as other:
        other.start()
        for number in range(2):
            config = {"connector.class": "flaky.FlakySource", "file": str(worker.directory / "spread")}
            _create(worker, f"spread-{number}", config)
        address = other.url.removeprefix("http://")

        def is_on_other() -> bool:
            return any(
                address in worker.request("GET", f"/connectors/spread-{n}/status").text for n in range(2)
            )

        _until(is_on_other)
        lost = next(
            n for n in range(2) if address in worker.request("GET", f"/connectors/spread-{n}/status").text
        )
        other.stop()
    _until(lambda: worker.request("GET", "/rebalance").body != {"delay_ms": 0})
    _until(lambda: "UNASSIGNED" in _connect(worker, "status", f"spread-{lost}"))
    assert "The others take over its work in " in _connect(worker, "status", f"spread-{lost}")
