"""Tells a user at a terminal what a command waits for. Without a terminal, nothing is printed.

`Client.call` logs each long wait. Commands that use librdkafka ask the servers themselves, because librdkafka reports a
missing answer only after its own time limits.
"""

from __future__ import annotations

import logging
import socket
import struct
import sys
import threading
from collections.abc import Iterable

from kcli.model.addresses import Address, read_server
from kcli.model.java_text import trim

NOTICE_S = 2.0
"""The wait after which a line is printed."""
ANSWER_S = 1.0
"""The time in which a server that works answers."""

_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 0, -1)
"""An ApiVersions request in version 0, without a client id. Each listener answers it, or closes the connection."""


def show_waits() -> None:
    """Prints the long waits of the admin client, if stderr is a terminal."""
    log = logging.getLogger("kcli.client.waits")
    if not sys.stderr.isatty() or log.level == logging.INFO:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def watch_servers(servers: str, limit: str) -> None:
    """Prints a line after NOTICE_S if no server answers, and if stderr is a terminal. `limit` is the longest wait."""
    if not sys.stderr.isatty():
        return
    timer = threading.Timer(NOTICE_S, _notice, (servers, limit))
    timer.daemon = True
    timer.start()


def _notice(servers: str, limit: str) -> None:
    named = (read_server(trim(text)) for text in servers.split(","))
    if not _any_answers(address for address in named if address is not None):
        sys.stderr.write(notice(servers, limit) + "\n")


def notice(servers: str, limit: str) -> str:
    """Returns the line about servers that do not answer."""
    return (
        f"Waiting for an answer of {servers}. {limit} To find the cause, run: "
        f"kcli doctor --bootstrap-server {servers}"
    )


def _any_answers(addresses: Iterable[Address]) -> bool:
    return any(map(_answers, addresses))


def _answers(address: Address) -> bool:
    """Whether a server answers a first request. A port with TLS answers with an alert."""
    try:
        with socket.create_connection((address.host, address.port), timeout=ANSWER_S) as connection:
            connection.sendall(_API_VERSIONS)
            connection.recv(1)
            return True
    except ConnectionResetError:
        return True  # a listener that expects TLS may close the connection
    except (OSError, UnicodeError):  # a TimeoutError is an OSError; UnicodeError: the text cannot be a host
        return False
