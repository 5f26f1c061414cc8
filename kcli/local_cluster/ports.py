"""Free ports of the loopback interface."""

from __future__ import annotations

import contextlib
import secrets
import socket

from kcli.local_cluster.layout import HOST

_PORTS = range(10_240, 32_768)
"""The ports to choose from: five digits, below the range that Linux gives to outgoing connections.

If the broker's port was in the range of Linux, an outgoing connection could take it while the broker does not run.
"""


def free_port() -> int:
    """Returns a free port. The choice uses random numbers of the operating system, because `random` would give parallel
    test processes the same port.
    """
    while True:
        port = secrets.choice(_PORTS)
        if is_free(port):
            return port


def free_ports(count: int) -> list[int]:
    """Returns different free ports."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return sorted(ports)


def is_free(port: int, host: str = HOST) -> bool:
    """Whether a server can listen on the port now. As for a broker, connections that are being closed do not keep the
    port in use.
    """
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return True
    return False
