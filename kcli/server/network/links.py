"""Connections from this node to other nodes.

A node is the client of other brokers and of controllers. Each link reads the security settings of its listener when the
link connects. So new certificates apply from the next connection on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.config.definition import ConfigError
from kcli.errors import KafkaError, NetworkException
from kcli.model.addresses import Address
from kcli.model.connection_counts import ConnectionCounts
from kcli.runtime.network import Network

if TYPE_CHECKING:
    from kcli.client.connection import Connection
    from kcli.security.client import ClientSecurity

Secure = Callable[[], "ClientSecurity | None"]
"""Returns the TLS and SASL settings of the next connection. None means a connection without TLS and SASL. Raises
ConfigError if the settings are invalid."""


def plain_text() -> None:
    """Returns None, for links without TLS and SASL."""


async def open_link(
    network: Network,
    address: Address,
    client_id: str,
    timeout_s: float,
    secure: Secure,
    counts: ConnectionCounts | None = None,
) -> Connection:
    """Connects to another node, and logs in. `counts` are the shared counts of all links with the same purpose.

    Raises OSError, TimeoutError, NetworkException or ProtocolError. A refused certificate or login is a
    NetworkException too. The caller can try again: operators change certificates and credentials on one node after the
    other, so the other node may accept the next attempt.
    """
    from kcli.client.connection import Connection  # imported late, because its codec is slow to import

    try:
        link = await Connection.open(network, address, client_id, timeout_s, secure())
    except NetworkException:
        raise
    except (KafkaError, ConfigError, ValueError) as error:
        raise NetworkException(f"cannot connect to {address}: {error}") from error
    if counts is not None:
        link.counts = counts
        counts.opened += 1
    return link
