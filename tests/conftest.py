"""Fixtures that many tests share: a broker process, and the reference files of a real Kafka where they are.

Also the option `--outcomes`, with which CI learns which tests failed.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from kcli.testing.broker_process import BrokerProcess
    from rigs.certificates import Certificates
    from rigs.databases import Server

# Helpers assert too, and their failures show values like those of tests.
pytest.register_assert_rewrite("rigs")

# How long an example takes says how busy the machine is, nothing about the code.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")
# `make quick` tries a tenth of the usual examples, `make full` ten times as many (tests/rigs/examples.py).
settings.register_profile("quick", settings.get_profile("any-machine"), max_examples=10)
settings.register_profile("full", settings.get_profile("any-machine"), max_examples=1000)

# A shell starts its background processes with SIGINT ignored. A test that interrupts a tool would then wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

NICENESS_BESIDE_SPARK = 5

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption("--sim-seeds", type=int, help="how many stories of tests/sim to run, from seed 0 on")
    group.addoption("--sim-seed", type=int, help="run this one story of tests/sim again (or: KCLI_SIM_SEED)")
    parser.addoption("--full", action="store_true", help="run the larger matrices too, as `make full` does")
    parser.addoption("--outcomes", type=Path, help="write the outcome of each test to this file, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--outcomes")
    # Workers of xdist report to the process that started them, so only that process writes the file.
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        skip = pytest.mark.skip(reason="a larger matrix, which only `make full` runs")
        for item in items:
            if item.get_closest_marker("full") is not None:
                item.add_marker(skip)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Gives the tests of Spark priority over the tests of other workers, and each test the same format of its log.

    One worker runs nearly all of them, one after the other (tests/spark/conftest.py). Without priority, it would end
    long after the other workers.
    """
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if is_worker and not item.get_closest_marker("spark") and os.nice(0) == 0:
        os.nice(NICENESS_BESIDE_SPARK)
    _restore_log_format(item.config)


def _restore_log_format(config: pytest.Config) -> None:
    """Gives `caplog` its own format again. PySpark's logger sets a JSON format on each handler that it gets, and all
    tests of a process share one handler."""
    plugin = config.pluginmanager.get_plugin("logging-plugin")
    if plugin is not None:
        plugin.caplog_handler.setFormatter(plugin.formatter)
        plugin.report_handler.setFormatter(plugin.formatter)


def pytest_collection_finish() -> None:
    """Takes everything that exists before the first test out of the garbage collector's work. Ten thousand collected
    tests are many objects, and without this each full collection visits all of them."""
    gc.collect()
    gc.freeze()


class Outcomes:
    """Records the outcome of each test, and everything that broke outside a test.

    The file is a JSON object. `tests`: node id -> passed, failed or skipped, over setup, call and teardown. `seconds`:
    node id -> the time of these three together, in seconds.
    `broken`: a line for each module that cannot be collected and for each worker that died. The exit code does not
    show these two cases, because under xdist it is 1, as if only tests had failed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._broken: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or self._tests.get(report.nodeid, "passed") == "passed":
            self._tests[report.nodeid] = report.outcome
        self._seconds[report.nodeid] = round(self._seconds.get(report.nodeid, 0.0) + report.duration, 3)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._broken.append(f"{report.nodeid} cannot be collected")

    @pytest.hookimpl(optionalhook=True)  # a hook of xdist, which `-p no:xdist` leaves out
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error is not None:
            self._broken.append(f"worker {node.gateway.id} died: {error}")

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(
            json.dumps({"tests": self._tests, "seconds": self._seconds, "broken": self._broken}),
            encoding="utf-8",
        )


@pytest.fixture(autouse=True)
def _switches_of_the_process() -> Iterator[None]:
    """Fails a test that leaves a switch of the whole process changed, because a later test would fail instead."""
    # A tool runs inside the process of its test, and may change the level of a logger for the rest of its run.
    client_level = logging.getLogger("kcli.client").level
    yield
    logging.getLogger("kcli.client").setLevel(client_level)
    left = [] if gc.isenabled() else ["the garbage collector is off"]
    if logging.root.manager.disable:
        left.append("logging.disable() was not undone")
    gc.enable()
    logging.disable(logging.NOTSET)
    assert not left, left


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for tests that only need some broker; each uses topics and groups of its own."""
    from kcli.testing.broker_process import BrokerProcess

    overrides = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "5",
        # Tests write records with timestamps of years ago; retention would take them half a minute after the start.
        "log.initial.task.delay.ms": "86400000",
        "log.retention.check.interval.ms": "86400000",
    }
    with BrokerProcess(tmp_path_factory.mktemp("broker"), overrides=overrides) as process:
        yield process


@pytest.fixture(scope="session")
def postgresql(shared_directory: Path) -> Iterator[Server]:
    """A PostgreSQL server for the whole test run."""
    from rigs.databases import postgresql_program, shared_postgresql

    if postgresql_program("initdb") is None:
        pytest.skip("PostgreSQL's server is missing (Debian: postgresql)")
    with shared_postgresql(shared_directory) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb(shared_directory: Path) -> Iterator[Server]:
    """A MariaDB server for the whole test run."""
    from rigs.databases import mariadb_program, shared_mariadb

    if mariadb_program("mariadbd") is None:
        pytest.skip("MariaDB's server is missing (Debian: mariadb-server)")
    with shared_mariadb(shared_directory) as server:
        yield server


@pytest.fixture(scope="session")
def shared_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that all processes of the test run have."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of brokers and clients, made by one authority for this run."""
    from rigs.certificates import make_certificates

    return make_certificates(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture
def golden() -> Path:
    """What Apache Kafka 4.1 itself wrote and printed."""
    path = SHARED / "golden"
    if not path.is_dir():
        pytest.skip(f"the reference files of Kafka 4.1 are not here: {path}")
    return path


@pytest.fixture
def real_logs() -> Path:
    """Log files of real systems."""
    path = SHARED / "data"
    if not path.is_dir():
        pytest.skip(f"the sample logs are not here: {path}")
    return path


@pytest.fixture
def kafkas_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs commands as if the user has started Kafka's scripts: with Kafka's texts and exit codes."""
    monkeypatch.setenv("KCLI_SCRIPT", "kafka-script.sh")
