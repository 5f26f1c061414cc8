"""A node with TLS listeners, and the contexts of its clients."""

from __future__ import annotations

import ssl

from kcli.config.listener_config import ListenerConfig
from kcli.security.tls.contexts import ClientTls, client_tls, server_context
from rigs.certificates import Certificates, Issued
from rigs.node import config_of

LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
}
"""The listeners of a node with the listener SSL."""


def tls_of(certificates: Certificates, client: Issued | None = None, **properties: str) -> ClientTls:
    """The TLS of a client. In the names of `properties`, an underscore stands for a dot."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return client_tls((certificates.client_config(client) | given).get)


def context_of(certificates: Certificates, client: Issued | None = None, **properties: str) -> ssl.SSLContext:
    """The TLS context of a client that trusts the authority of the tests."""
    return tls_of(certificates, client, **properties).context()


def server_context_of(certificates: Certificates) -> ssl.SSLContext:
    """The TLS context of a listener with the certificate of the tests."""
    config = config_of("unused", **LISTENERS, **certificates.broker_config())
    return server_context(ListenerConfig(config, "SSL"))
