"""The lookup of security keys for a listener and a mechanism."""

from __future__ import annotations

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.listener_config import ListenerConfig
from kcli.config.properties import Properties


def listener_config(texts: dict[str, str]) -> ListenerConfig:
    properties = Properties()
    required = {"node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "C"}
    properties.update_from(required | texts, where="test")
    return ListenerConfig(BrokerConfig(properties), "Clients")


def test_a_key_of_the_listener_takes_precedence_over_the_key_of_the_broker() -> None:
    view = listener_config({"ssl.keystore.type": "PEM", "listener.name.clients.ssl.keystore.type": "PKCS12"})
    assert view.text("ssl.keystore.type") == "PKCS12"
    assert view.key_of("ssl.keystore.type") == "listener.name.clients.ssl.keystore.type"


def test_a_key_that_is_not_set_has_its_default() -> None:
    view = listener_config({})
    assert view.key_of("ssl.keystore.type") is None
    assert view.text("ssl.keystore.type") == "JKS"
    assert view.listed("sasl.enabled.mechanisms") == ("GSSAPI",)
    assert view.integer("connections.max.reauth.ms", "PLAIN") == 0


def test_jaas_is_read_only_with_the_name_of_the_mechanism() -> None:
    assert listener_config({"sasl.jaas.config": "x"}).text("sasl.jaas.config", "PLAIN") is None
    view = listener_config({"scram-sha-256.sasl.jaas.config": "y"})
    assert view.text("sasl.jaas.config", "SCRAM-SHA-256") == "y"
    assert view.text("sasl.jaas.config", "PLAIN") is None


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["connections.max.reauth.ms"], "connections.max.reauth.ms"),
        (["plain.connections.max.reauth.ms", "connections.max.reauth.ms"], "plain.connections.max.reauth.ms"),
        (
            ["listener.name.clients.connections.max.reauth.ms", "plain.connections.max.reauth.ms"],
            "listener.name.clients.connections.max.reauth.ms",
        ),
    ],
)
def test_a_key_of_the_mechanism_comes_first_and_the_listener_before_it(
    keys: list[str], expected: str
) -> None:
    view = listener_config(dict.fromkeys(keys, "5"))
    assert view.key_of("connections.max.reauth.ms", "PLAIN") == expected
