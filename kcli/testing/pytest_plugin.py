"""Fixtures for pytest: a broker, and a cluster of three nodes. To use them, name this module in conftest.py:

    pytest_plugins = ["kcli.testing.pytest_plugin"]

Override the fixture `kcli_settings` to set properties of the brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from kcli.testing.broker_process import BrokerProcess
from kcli.testing.cluster_processes import ClusterProcesses

NODES = 3
SETTINGS = {
    # The first member of a group does not wait for others.
    "group.initial.rebalance.delay.ms": "0",
    # A small number of partitions is created and loaded faster.
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}
SESSION_SETTINGS = {
    # After this time, other nodes lead the partitions of a killed node, and the node may register again.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="session")
def kcli_settings() -> Mapping[str, str]:
    """The properties of the brokers of both fixtures, except their addresses and directories."""
    return SETTINGS


@pytest.fixture(scope="session")
def kcli_broker(
    tmp_path_factory: pytest.TempPathFactory, kcli_settings: Mapping[str, str]
) -> Iterator[BrokerProcess]:
    """A broker that all tests of the session share."""
    with BrokerProcess(tmp_path_factory.mktemp("kcli-broker"), kcli_settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def kcli_cluster(
    tmp_path_factory: pytest.TempPathFactory, kcli_settings: Mapping[str, str]
) -> Iterator[ClusterProcesses]:
    """A cluster of three nodes that all tests of a module share. A test that kills a node must start the node again."""
    settings = {**SESSION_SETTINGS, **kcli_settings}
    with ClusterProcesses(
        tmp_path_factory.mktemp("kcli-cluster"), nodes=NODES, overrides=settings
    ) as cluster:
        yield cluster
