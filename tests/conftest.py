"""Fixtures that many tests share: a broker process, and the reference files of a real Kafka where they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from kcli.testing.broker_process import BrokerProcess

# How long an example takes says how busy the machine is, nothing about the code.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption("--sim-seeds", type=int, help="how many stories of tests/sim to run, from seed 0 on")
    group.addoption("--sim-seed", type=int, help="run this one story of tests/sim again (or: KCLI_SIM_SEED)")


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
