"""Listeners of a node: their names, addresses and security protocols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kcli.config.definition import ConfigError
from kcli.model.addresses import Address, read_address, read_server
from kcli.model.java_text import INT_MAX, natural, trim

WILDCARD_HOST = "0.0.0.0"
"""The address of all interfaces, for a server that listens. Other machines cannot connect to this address."""

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener. `name` is in upper case. An empty `host` means every interface. `port` 0 means any free port."""

    name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    def at(self, host: str, port: int) -> Listener:
        """The same listener at another address, for example with the port that the system chose for port 0."""
        return replace(self, host=host, port=port)


def split_list(text: str | None) -> tuple[str, ...]:
    """Splits a text at commas and trims the items. Empty items are left out."""
    return tuple(word for word in (trim(part) for part in (text or "").split(",")) if word)


def parse_protocol_map(text: str, key: str) -> dict[str, str]:
    """Parses `CONTROLLER:PLAINTEXT,…` into a table of security protocols by listener name.

    Raises ConfigError if the text is invalid.
    """
    protocols: dict[str, str] = {}
    for item in split_list(text):
        name, colon, protocol = item.partition(":")
        if not colon or not trim(name):
            raise ConfigError(
                f"Invalid value {text} for configuration {key}: '{item}' is not name:protocol", key=key
            )
        if trim(protocol).upper() not in SECURITY_PROTOCOLS:
            valid = ", ".join(SECURITY_PROTOCOLS)
            raise ConfigError(
                f"Invalid value {text} for configuration {key}: '{trim(protocol)}' is not a security protocol; "
                f"valid are {valid}",
                key=key,
            )
        protocols[trim(name).upper()] = trim(protocol).upper()
    return protocols


def parse_listeners(
    text: str, protocols: Mapping[str, str], *, key: str, distinct_ports: bool
) -> tuple[Listener, ...]:
    """Parses `name://host:port,…`. The names must be different.

    If `distinct_ports` is True, all ports except 0 must be different too.

    Raises ConfigError if the text is invalid.
    """
    listeners: list[Listener] = []
    for uri in split_list(text):
        name, separator, where = uri.rpartition("://")
        address = read_address(where) if separator else None
        if address is None:
            raise _refused(
                key, text, f"Unable to parse {uri} to a broker endpoint; it must be name://host:port"
            )
        name = name.upper()
        if name not in protocols:
            raise _refused(
                key,
                text,
                f"No security protocol defined for listener {name}; name it in listener.security.protocol.map",
            )
        listeners.append(Listener(name, address.host, address.port, protocols[name]))
    if len({listener.name for listener in listeners}) < len(listeners):
        raise _refused(key, text, f"Each listener must have a different name, listeners: {text}")
    if distinct_ports and _clash([listener for listener in listeners if listener.port != 0]):
        raise _refused(key, text, f"Each listener must have a different port, listeners: {text}")
    return tuple(listeners)


def parse_addresses(text: Iterable[str], key: str) -> tuple[Address, ...]:
    """Parses a list of `host:port`. Raises ConfigError if an address is invalid."""
    return tuple(parse_address(item, key) for item in text)


def parse_address(text: str, key: str) -> Address:
    """Parses `host:port`. Raises ConfigError if the text is invalid."""
    address = read_server(text)
    if address is None:
        raise ConfigError(f"Invalid url in {key}: {text}; it must be host:port", key=key)
    return address


def parse_bind_address(text: str, key: str) -> Address:
    """Parses `host:port` of a socket to listen on. No host means every interface. Port 0 means any free port.

    Raises ConfigError if the text is invalid.
    """
    address = read_address(trim(text))
    if address is None:
        raise ConfigError(
            f"Invalid value {text} for configuration {key}: it must be host:port, or :port for every interface",
            key=key,
        )
    return address


def parse_voters(text: Iterable[str], key: str) -> dict[int, Address]:
    """Parses a list of `id@host:port` into a table of (host, port) by id. Raises ConfigError if a voter is invalid."""
    voters: dict[int, Address] = {}
    for item in text:
        node, at, address = item.partition("@")
        node_id = natural(node)
        if not at or node_id is None or node_id > INT_MAX:
            raise ConfigError(
                f"Invalid value {item} for configuration {key}: "
                "Each entry should be in the form `{id}@{host}:{port}`.",
                key=key,
            )
        voters[node_id] = parse_address(address, key)
    return voters


def _clash(listeners: list[Listener]) -> bool:
    """Whether two listeners clash by using the same port.

    A listener with an IPv4 host and a listener with an IPv6 host do not clash (KIP-797).
    """
    ports: dict[int, list[str]] = {}
    for listener in listeners:
        ports.setdefault(listener.port, []).append(listener.host)
    return any(
        len(hosts) > 2 or (len(hosts) == 2 and sum(":" in host for host in hosts) != 1)
        for hosts in ports.values()
    )


def _refused(key: str, text: str, reason: str) -> ConfigError:
    return ConfigError(f"Error creating broker listeners from '{text}': {reason}", key=key)
