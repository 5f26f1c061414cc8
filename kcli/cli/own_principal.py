"""Finds the principal of a tool's own client in the settings of this client."""

from __future__ import annotations

from kcli.client.config import ClientConfig
from kcli.config.definition import ConfigError
from kcli.security.client import ClientSecurity
from kcli.security.mechanisms.client import ClientCredentials, Credentials, KerberosCredentials
from kcli.security.principal import ANONYMOUS
from kcli.security.tls.contexts import ClientTls

UNKNOWN_PRINCIPAL = "User:<your name>"
"""The principal of a client whose settings do not show it, such as a client that logs in with a token."""


def own_principal(config: ClientConfig) -> str:
    """Returns the principal that a broker with default settings gives to the client."""
    security = config.security or ClientSecurity()
    if security.sasl is not None:
        return _of_login(security.sasl)
    if security.tls is None:
        return str(ANONYMOUS)
    return _of_certificate(security.tls)


def _of_login(credentials: ClientCredentials) -> str:
    match credentials:
        case Credentials(is_token=False):
            return f"User:{credentials.username}"
        case KerberosCredentials(principal=str(principal)):
            # The rule DEFAULT of sasl.kerberos.principal.to.local.rules keeps the first part of the name.
            return f"User:{principal.partition('@')[0].partition('/')[0]}"
        case _:
            return UNKNOWN_PRINCIPAL


def _of_certificate(tls: ClientTls) -> str:
    """The principal that a broker without mapping rules makes from the client's certificate."""
    from cryptography.hazmat.primitives.serialization import Encoding

    from kcli.security.tls.distinguished_name import subject_text
    from kcli.security.tls.stores import load_key_store

    try:
        keys = load_key_store(tls.stores)
    except ConfigError:
        return UNKNOWN_PRINCIPAL
    if keys is None:
        return str(ANONYMOUS)
    return f"User:{subject_text(keys.entries[0].chain[0].public_bytes(Encoding.DER))}"
