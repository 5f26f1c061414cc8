"""Addresses of servers, and the one reader of `host:port`."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_PORT = 65535

# The characters that Kafka allows in a host (Utils.HOST_PORT_PATTERN).
_HOST_PORT = re.compile(r"\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII)
_PROTOCOL = re.compile(r"[0-9a-zA-Z\-%._]*://", re.ASCII)


class Address(NamedTuple):
    """A host and a port; equal to the pair `(host, port)`. Prints with brackets around an IPv6 address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_address(text: str) -> Address | None:
    """Reads `host:port` or `[ipv6]:port`; None if it is neither, or the port is above 65535.

    The host may be empty and the port 0: the caller knows if a server can listen there or a client can go there.
    """
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match[2]) > MAX_PORT:
        return None
    return Address(match[1], int(match[2]))


def read_server(text: str) -> Address | None:
    """Reads an address that a client can go to: None unless it has a host and a port of 1 to 65535.

    As in Kafka's clients, the protocol of a listener may stand in front: `PLAINTEXT://host:9092`.
    """
    protocol = _PROTOCOL.match(text)
    address = read_address(text[protocol.end() :] if protocol else text)
    return address if address is not None and address.host and address.port else None
