"""Converts addresses of clients to the form in which Java prints them. ACLs and audit lines contain this form."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

KEPT_ADDRESSES = 1024
"""The most IPv6 addresses whose Java form is cached. The conversion takes a few microseconds."""


def host_address(host: str) -> str:
    """The address as Java's `InetAddress.getHostAddress` returns it.

    An IPv6 address gets all eight groups: `::1` becomes `0:0:0:0:0:0:0:1`. An IPv4 address in an IPv6 address is
    printed as IPv4. Other texts are returned unchanged.
    """
    return _full_form(host) if ":" in host else host


@lru_cache(KEPT_ADDRESSES)
def _full_form(host: str) -> str:
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = (address.packed[at : at + 2].hex().lstrip("0") or "0" for at in range(0, 16, 2))
    scope = f"%{address.scope_id}" if address.scope_id else ""
    return ":".join(groups) + scope
