"""Checks the dates and the names of a server's certificate. The caller passes the certificate and the time."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kcli.client.diagnosis.finding import Finding, ok, warning, wrong

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

STEP = "certificate"
EXPIRES_SOON = timedelta(days=30)
"""A certificate that expires within this time gets a warning, because many operators need some weeks to replace a
certificate.
"""
_WILDCARD = "*."


def judge(certificate: Certificate, host: str, subject: str, now: datetime, *, checks_name: bool) -> Finding:
    """Checks the dates of a certificate, and its names if the client checks names.

    `host` is the name to which the client connects. `now` has a time zone.
    """
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > ends:
        return wrong(
            STEP,
            subject,
            f"the certificate expired on {ends:%Y-%m-%d}",
            "replace the certificate of the broker",
        )
    if now < begins:
        return wrong(
            STEP,
            subject,
            f"the certificate is not valid before {begins:%Y-%m-%d}",
            "compare the clock of this machine with the clock of the machine that made the certificate",
        )
    names = tuple(names_of(certificate))
    if checks_name and not any(_matches(name, host) for name in names):
        shown = ", ".join(names) or "no name at all"
        return wrong(
            STEP,
            subject,
            f"the certificate is for {shown}, and not for {host}",
            f"connect to one of these names, or make a certificate with {host} as subject alternative name",
        )
    if ends - now < EXPIRES_SOON:
        return warning(
            STEP,
            subject,
            f"the certificate expires on {ends:%Y-%m-%d}, in {(ends - now).days} days",
            "replace the certificate of the broker before this day",
        )
    return ok(STEP, subject, f"for {', '.join(names) or 'no name'}, valid until {ends:%Y-%m-%d}")


def issuer_of(certificate: Certificate) -> str:
    """The name of the authority that issued the certificate, as text."""
    return certificate.issuer.rfc4514_string() or "an authority without a name"


def names_of(certificate: Certificate) -> Iterator[str]:
    """Yields the DNS names and IP addresses of the subject alternative names. The common name is not used
    (RFC 6125).
    """
    from cryptography import x509

    try:
        alternative_names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    yield from alternative_names.get_values_for_type(x509.DNSName)
    yield from map(str, alternative_names.get_values_for_type(x509.IPAddress))


def _matches(name: str, host: str) -> bool:
    """Whether a name of a certificate covers a host. A wildcard covers one part of a host name between dots
    (RFC 6125).
    """
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(host)
    except ValueError:
        pass
    name, host = name.lower().rstrip("."), host.lower().rstrip(".")
    if name.startswith(_WILDCARD):
        return name[len(_WILDCARD) :] == host.partition(".")[2]
    return name == host
