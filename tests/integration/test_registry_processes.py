"""Two registry processes while leaders die and freeze: no id is given twice, and no schema is lost."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kcli.testing.broker_process import BrokerProcess
from rigs.registry_process import RegistryProcess

GROUP = {"kafkagroup.session.timeout.ms": "1500", "kafkagroup.heartbeat.interval.ms": "200"}
PATIENCE_SECONDS = 120.0
CLIENTS = 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    properties = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    with BrokerProcess(tmp_path_factory.mktemp("data"), properties) as process:
        yield process


def schema(number: int) -> str:
    return json.dumps({"title": f"t{number}", "type": "object"})


class Clients:
    """Clients that register schemas at several registries, each schema until it has an id."""

    def __init__(self, registries: Sequence[RegistryProcess], count: int) -> None:
        self._registries = registries
        self._count = count
        self._done = itertools.count(1)
        self.ids: dict[int, int] = {}
        self.half = threading.Event()
        """Set when half of the schemas are registered."""

    def register(self, number: int) -> None:
        body = {"schema": schema(number), "schemaType": "JSON"}
        deadline = time.monotonic() + PATIENCE_SECONDS
        for attempt in itertools.count(number):
            registry = self._registries[attempt % len(self._registries)]
            try:
                answer = registry.request("POST", f"/subjects/s{number % 7}-{number}/versions", body)
            except OSError:
                answer = None
            if answer is not None and answer.status == 200:
                assert isinstance(answer.body, dict)
                self.ids[number] = answer.body["id"]
                if next(self._done) * 2 >= self._count:
                    self.half.set()
                return
            assert answer is None or answer.status == 500, answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.02)


def registered(registries: Sequence[RegistryProcess], count: int, fault: str) -> None:
    """Registers schemas during a fault of the leader, and checks their ids afterwards."""
    clients = Clients(registries, count)
    with ThreadPoolExecutor(CLIENTS) as pool:
        working = [pool.submit(clients.register, number) for number in range(count)]
        assert clients.half.wait(PATIENCE_SECONDS)
        leader = leader_of(registries)
        if fault == "kill":
            leader.kill()
        else:
            leader.send(signal.SIGSTOP)
            time.sleep(3.0)  # longer than a session
            leader.send(signal.SIGCONT)
        for one in working:
            one.result()
    if fault == "kill":
        leader.start()
    assert len(set(clients.ids.values())) == count, "an id was given twice"
    assert sorted(clients.ids.values()) == list(range(1, count + 1)), "the ids have a gap"
    for registry in registries:
        wait_until_read(registry, count)
        for number, schema_id in clients.ids.items():
            answer = registry.request("GET", f"/schemas/ids/{schema_id}")
            assert isinstance(answer.body, dict)
            assert json.loads(answer.body["schema"]) == json.loads(schema(number))


def leader_of(registries: Sequence[RegistryProcess]) -> RegistryProcess:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        for registry in registries:
            body = registry.request("GET", "/health").body
            if isinstance(body, dict) and body["message"] == "This registry is the leader.":
                return registry
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_until_read(registry: RegistryProcess, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(json.loads(registry.request("GET", "/subjects").text)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("fault", "count"),
    [
        ("kill", 40),
        pytest.param("kill", 1000, marks=pytest.mark.full),
        pytest.param("freeze", 1000, marks=pytest.mark.full),
    ],
)
def test_no_id_is_doubled_and_no_schema_is_lost(
    broker: BrokerProcess, tmp_path: Path, fault: str, count: int
) -> None:
    name = f"{fault}-{count}"
    properties = GROUP | {"schema.registry.group.id": name, "kafkastore.topic": name}
    with (
        RegistryProcess(tmp_path, broker.bootstrap, properties) as first,
        RegistryProcess(tmp_path, broker.bootstrap, properties) as second,
    ):
        registered([first.start(), second.start()], count, fault)
        assert first.stop() == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ("", 'Missing required configuration "kafkastore.bootstrap.servers"'),
        ("kafkastore.bootstrap.servers=a:1\nlisteners=x", "Listener doesn't have the right format"),
        (
            "kafkastore.bootstrap.servers=127.0.0.1:1\nkafkastore.init.timeout.ms=200",
            "The registry cannot start",
        ),
    ],
)
def test_an_error_of_the_start_is_one_line_and_exit_code_1(
    tmp_path: Path, properties: str, message: str
) -> None:
    file = tmp_path / "schema-registry.properties"
    file.write_text(properties)
    run = subprocess.run(
        [sys.executable, "-m", "kcli", "schema-registry", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 1
    assert message in run.stdout + run.stderr
    assert "Traceback" not in run.stdout + run.stderr
