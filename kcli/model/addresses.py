"""Addresses of servers, and the functions that parse `host:port`."""

from __future__ import annotations

import re
from typing import NamedTuple

from kcli.model.java_text import natural

MAX_PORT = 65535

# The characters that Kafka allows in a host (Utils.HOST_PORT_PATTERN).
_HOST_PORT = re.compile(r"\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII)
_PROTOCOL = re.compile(r"[0-9a-zA-Z\-%._]*://", re.ASCII)


class Address(NamedTuple):
    """A host and a port. An address is equal to the pair `(host, port)`. Its text has brackets around an IPv6
    address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_address(text: str) -> Address | None:
    """Parses `host:port` or `[ipv6]:port`. Returns None for any other text or a port above 65535.

    The host may be empty and the port 0. The caller decides whether such an address is valid.
    """
    match = _HOST_PORT.fullmatch(text)
    port = None if match is None else natural(match[2])
    if match is None or port is None or port > MAX_PORT:
        return None
    return Address(match[1], port)


def read_server(text: str) -> Address | None:
    """Parses an address to which a client can connect. Returns None unless it has a host and a port of 1 to 65535.

    As in Kafka's clients, the address may begin with a protocol: `PLAINTEXT://host:9092`.
    """
    protocol = _PROTOCOL.match(text)
    address = read_address(text[protocol.end() :] if protocol else text)
    return address if address is not None and address.host and address.port else None
