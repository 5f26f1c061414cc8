"""Finds out why a connection, a TLS handshake or a login failed, and names the setting to change.

The functions connect a second time, without credentials and without a check of the certificate, and find out the
protocol of the port. The functions block, so asyncio code calls them in a thread. They send no passwords.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from kcli.client.diagnosis.certificates import names_of
from kcli.client.diagnosis.ports import look_at, look_at_tls
from kcli.client.tls_errors import WITHOUT_TLS_ON_PURPOSE
from kcli.errors import (
    IllegalSaslStateException,
    SaslAuthenticationException,
    UnsupportedSaslMechanismException,
)
from kcli.model.addresses import Address
from kcli.security.client import ClientSecurity

if TYPE_CHECKING:
    from cryptography import x509

# OpenSSL's codes of certificate errors (X509_V_ERR_…).
_EXPIRED, _NOT_YET_VALID = 10, 9
_WRONG_NAME = (62, 64)


def explain(address: Address, security: ClientSecurity | None, error: Exception) -> str:
    """Returns one line about the cause, or an empty text if the cause is unknown."""
    wants_tls = security is not None and security.tls is not None
    wants_login = security is not None and security.sasl is not None
    match error:
        case UnsupportedSaslMechanismException():
            return "choose one of these mechanisms in sasl.mechanism"
        case IllegalSaslStateException():
            protocol = "SSL" if wants_tls else "PLAINTEXT"
            condition = "If the listener has no login on purpose, set"
            return f"this port asks for no login. {condition} security.protocol={protocol}"
        case SaslAuthenticationException():
            return "check the user and the password in sasl.jaas.config"
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return about_certificate(address, cause)
    if getattr(error, "hint", ""):
        return str(getattr(error, "hint", ""))
    port = look_at(address)
    if wants_tls and not port.is_tls and port.is_kafka:
        return f"this port does not speak TLS. {WITHOUT_TLS_ON_PURPOSE} security.protocol={port.protocol}"
    if not wants_tls and port.is_tls:
        return f"this port speaks TLS, the client does not: set security.protocol={port.protocol}"
    if not wants_login and port.mechanisms is not None:
        return f"this port asks for a login: set security.protocol={port.protocol}"
    return ""


def about_certificate(address: Address, error: ssl.SSLCertVerificationError) -> str:
    """Returns the problem of a server's certificate: wrong dates, wrong names or an unknown authority."""
    certificate = _certificate(address)
    if certificate is None:
        return f"the certificate of {address} is not accepted: {error.verify_message}"
    match error.verify_code:
        case code if code == _EXPIRED:
            return f"a certificate of {address} expired: {_dates(certificate)}"
        case code if code == _NOT_YET_VALID:
            return f"a certificate of {address} is not valid yet: {_dates(certificate)}"
        case code if code in _WRONG_NAME:
            names = " and ".join(names_of(certificate)) or certificate.subject.rfc4514_string()
            return f"the certificate is for {names}, not for {address.host}"
        case _:
            return (
                f"the certificate of {address} comes from {certificate.issuer.rfc4514_string()}, which is not in "
                "ssl.truststore.location"
            )


def _certificate(address: Address) -> x509.Certificate | None:
    try:
        return look_at_tls(address).certificate
    except (OSError, ValueError):
        return None


def _dates(certificate: x509.Certificate) -> str:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return f"it is valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"
