"""Which group protocols a broker speaks: what it warns of, what it does not start with, what a group may set."""

from __future__ import annotations

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.group import consumer_group_keys, effective_consumer_times
from kcli.config.not_built import start_up_warnings
from kcli.config.start_up import node_config

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
}
PROTOCOLS = "group.coordinator.rebalance.protocols"


def config(**overrides: str) -> BrokerConfig:
    return node_config(NODE | {name.replace("__", "."): value for name, value in overrides.items()}, {})


def test_the_consumer_protocol_is_enabled_by_default() -> None:
    keys = consumer_group_keys(config())
    assert (keys.assignors, keys.migration_policy, keys.is_enabled) == (
        ("uniform", "range"),
        "bidirectional",
        True,
    )


@pytest.mark.parametrize(("protocols", "enabled"), [("classic", False), ("consumer,classic", True)])
def test_the_consumer_protocol_is_one_of_those_named(protocols: str, enabled: bool) -> None:
    assert (
        consumer_group_keys(config(group__coordinator__rebalance__protocols=protocols)).is_enabled is enabled
    )


def test_the_classic_protocol_cannot_be_left_out() -> None:
    with pytest.raises(ConfigError, match="Disabling the 'classic' protocol is not supported"):
        consumer_group_keys(config(group__coordinator__rebalance__protocols="consumer"))


def test_protocols_that_are_not_built_are_named() -> None:
    (warning,) = start_up_warnings(config(group__coordinator__rebalance__protocols="classic,consumer,share"))
    assert warning.endswith(f"{PROTOCOLS} names what is not built yet: share groups")
    assert start_up_warnings(config(group__coordinator__rebalance__protocols="classic")) == []
    assert start_up_warnings(config(group__consumer__max__size="5")) == []


def test_a_group_has_what_it_set_and_the_brokers_for_the_rest() -> None:
    broker = config(group__consumer__session__timeout__ms="50000")
    assert effective_consumer_times({}, broker) == (50_000, 5_000)
    overrides = {"consumer.heartbeat.interval.ms": "6000"}
    assert effective_consumer_times(overrides, broker) == (50_000, 6_000)
