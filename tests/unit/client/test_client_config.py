from __future__ import annotations

import pytest

from kcli.client.config import ClientConfigError, client_config, parse_address, parse_addresses
from kcli.model.addresses import Address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:9092", "localhost", 9092),
        ("[::1]:9092", "::1", 9092),
        ("PLAINTEXT://h.example:1", "h.example", 1),
        (" h:65535 ", "h", 65535),
    ],
)
def test_an_address_is_host_and_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize("text", ["", "h", "h:", ":1", "h:0", "h:65536", "h:x", "nonsense"])
def test_wrong_addresses_are_named(text: str) -> None:
    with pytest.raises(ClientConfigError):
        parse_addresses(text)


def test_an_address_prints_as_it_is_written() -> None:
    assert str(Address("::1", 9)) == "[::1]:9"
    assert str(Address("h", 9)) == "h:9"


def test_arguments_go_before_the_properties_file() -> None:
    properties = {"bootstrap.servers": "file:1", "client.id": "file", "request.timeout.ms": "5000"}
    config = client_config(properties, bootstrap_servers="given:2", client_id="tool", api_timeout_ms=7000)
    assert config.servers == (Address("given", 2),)
    assert config.client_id == "file"
    assert (config.request_timeout_ms, config.default_api_timeout_ms) == (5000, 7000)
    assert client_config({}, bootstrap_servers="h:1", client_id="tool").client_id == "tool"


def test_a_long_request_makes_the_call_longer() -> None:
    config = client_config({"request.timeout.ms": "90000"}, bootstrap_servers="h:1")
    assert (config.request_timeout_ms, config.default_api_timeout_ms) == (90_000, 90_000)


def test_controllers_are_asked_when_they_alone_are_named() -> None:
    assert client_config({}, bootstrap_controllers="h:1").servers_are_controllers
    assert client_config({"bootstrap.controllers": "h:1"}).servers_are_controllers
    assert not client_config(
        {"bootstrap.controllers": "h:1"}, bootstrap_servers="b:1"
    ).servers_are_controllers


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"request.timeout.ms": "x"}, "Invalid value x for configuration request.timeout.ms"),
        ({"retry.backoff.ms": "-1"}, "retry.backoff.ms"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ClientConfigError, match=words):
        client_config(properties, bootstrap_servers="h:1")


def test_no_servers_at_all() -> None:
    with pytest.raises(ClientConfigError, match=r"bootstrap\.servers"):
        client_config({})


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_timeout_must_be_greater_than_zero(timeout_ms: int) -> None:
    with pytest.raises(ClientConfigError, match="expected a number greater than 0"):
        client_config({}, bootstrap_servers="h:1", api_timeout_ms=timeout_ms)
