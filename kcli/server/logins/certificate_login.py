"""The login of a client by its TLS certificate, on a listener with the protocol SSL."""

from __future__ import annotations

import ssl

from kcli.config.listener_config import ListenerConfig
from kcli.errors import ProtocolError
from kcli.security.principal import ANONYMOUS_SESSION, Principal, Session
from kcli.security.tls.distinguished_name import subject_text
from kcli.security.tls.principal_mapping import PrincipalMapping, parse_rules
from kcli.server.network.connection import Authenticate, Connection


def certificate_login(config: ListenerConfig) -> Authenticate:
    """Returns the function that makes the session of a new connection. Raises ConfigError if
    ssl.principal.mapping.rules is invalid.
    """
    rules = parse_rules(config.text("ssl.principal.mapping.rules"))
    return lambda connection: certificate_session(connection, rules)


def certificate_session(connection: Connection, rules: PrincipalMapping) -> Session:
    """Returns the session of a client. The principal comes from the name in the client's certificate. A client without
    a certificate is ANONYMOUS.

    Raises ProtocolError if no rule applies to the name in the certificate.
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
