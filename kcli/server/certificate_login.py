"""The login of a client by its TLS certificate, on a listener with the protocol SSL."""

from __future__ import annotations

import logging
import ssl

from kcli.config.listener_config import ListenerConfig
from kcli.errors import ProtocolError
from kcli.security.principal import ANONYMOUS_SESSION, Principal, Session
from kcli.security.tls.contexts import ignores_client_auth, server_context, server_stores
from kcli.security.tls.distinguished_name import subject_text
from kcli.security.tls.principal_mapping import PrincipalMapping, parse_rules
from kcli.server.network.connection import Authenticate, Connection
from kcli.server.network.tls_transport import ServerTls

_log = logging.getLogger("kcli.server.ListenerSecurity")


def server_tls(config: ListenerConfig) -> ServerTls:
    """Makes the TLS of a listener. Raises ConfigError if the configuration has a mistake. Logs a warning for each key
    that has no effect."""
    if ignores_client_auth(config):
        _log.warning(
            "ssl.client.auth has no effect on the SASL_SSL listener %s: set listener.name.%s.ssl.client.auth",
            config.listener,
            config.listener.lower(),
        )
    return ServerTls(server_context(config, server_stores(config)))


def certificate_login(config: ListenerConfig) -> Authenticate:
    """The login of a listener. Raises ConfigError if ssl.principal.mapping.rules is invalid."""
    rules = parse_rules(config.text("ssl.principal.mapping.rules"))
    return lambda connection: certificate_session(connection, rules)


def certificate_session(connection: Connection, rules: PrincipalMapping) -> Session:
    """The session of a client: the name in its certificate, or ANONYMOUS without a certificate.

    Raises ProtocolError if the rules give no name.
    """
    assert connection.transport is not None, "the handshake is complete"
    tls = connection.transport.get_extra_info("ssl_object")
    assert isinstance(tls, ssl.SSLObject)
    certificate = tls.getpeercert(binary_form=True)
    if certificate is None:
        return ANONYMOUS_SESSION
    try:
        return Session(Principal("User", rules.name(subject_text(certificate))))
    except ValueError as error:
        raise ProtocolError(str(error)) from error
