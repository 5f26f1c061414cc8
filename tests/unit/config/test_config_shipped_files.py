"""The files of config/ start a node, warn of nothing, and hold Kafka's own keys and values."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.config.consumer import CONSUMER
from kcli.config.definition import ConfigDef
from kcli.config.not_built import check_can_serve, start_up_warnings
from kcli.config.producer import PRODUCER
from kcli.config.properties import load
from kcli.config.start_up import node_config

CONFIG = Path(__file__).resolve().parents[3] / "config"


def test_server_properties_is_ready_to_serve() -> None:
    config = node_config(load(str(CONFIG / "server.properties")))
    check_can_serve(config)
    assert start_up_warnings(config) == []
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://:9092", "CONTROLLER://:9093"]
    assert [str(listener) for listener in config.advertised_listeners] == ["PLAINTEXT://localhost:9092"]
    assert config.quorum_bootstrap_servers == (("localhost", 9093),)
    assert config.quorum_voters == {}
    assert config.integer("offsets.topic.replication.factor") == 1
    assert config.integer("transaction.state.log.min.isr") == 1


@pytest.mark.parametrize(("name", "node_id"), [("broker", 2), ("controller", 1)])
def test_files_for_one_role(name: str, node_id: int) -> None:
    config = node_config(load(str(CONFIG / f"{name}.properties")))
    assert config.process_roles == {name}
    assert config.node_id == node_id
    assert config.log_dirs == (f"/tmp/kraft-{name}-logs",)


@pytest.mark.parametrize(
    ("name", "table", "keys"),
    [
        ("producer", PRODUCER, {"bootstrap.servers": "localhost:9092", "compression.type": "none"}),
        ("consumer", CONSUMER, {"bootstrap.servers": "localhost:9092", "group.id": "test-consumer-group"}),
    ],
)
def test_files_of_clients(name: str, table: ConfigDef, keys: dict[str, str]) -> None:
    properties = load(str(CONFIG / f"{name}.properties"))
    assert dict(properties) == keys
    assert set(properties) <= set(table)
