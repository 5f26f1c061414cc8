"""Converts addresses of clients to the form in which Java prints them. ACLs and audit lines contain this form."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

from kcli.model.java_text import natural

_IPV4_PARTS, _IPV4_TEXT_MAX = 4, 15
_LIKE_A_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)(?:\.(?:0[xX][0-9a-fA-F]*|[0-9]+)){0,3}\.?")
KEPT_ADDRESSES = 1024
"""The most IPv6 addresses whose Java form is cached. The conversion takes a few microseconds."""


def host_address(host: str) -> str:
    """The address as Java's `InetAddress.getHostAddress` returns it.

    An IPv6 address gets all eight groups: `::1` becomes `0:0:0:0:0:0:0:1`. An IPv4 address in an IPv6 address is
    printed as IPv4. Other texts are returned unchanged.
    """
    return _full_form(host) if ":" in host else host


def parse_literal(text: str) -> str | None:
    """Parses an IP address as Java's `InetAddress.getByName` does. Returns the usual short form, such as `::1`.

    Java also accepts `127.1`, `[::1]`, and decimal numbers with leading zeros, which the C library reads as octal.
    Returns None for the name of a host, and raises ValueError for a text that is neither.
    """
    if ":" in text:
        return _ipv6(text[1:-1] if text.startswith("[") and text.endswith("]") else text)
    parts = text.split(".")
    numbers = [number for part in parts if (number := natural(part)) is not None]
    if len(numbers) == len(parts) <= _IPV4_PARTS and len(text) <= _IPV4_TEXT_MAX:
        *leading, last = numbers
        if all(number <= 0xFF for number in leading) and last < 1 << 8 * (_IPV4_PARTS + 1 - len(numbers)):
            value = (
                sum(number << 8 * (_IPV4_PARTS - 1 - place) for place, number in enumerate(leading)) + last
            )
            return str(ipaddress.IPv4Address(value))
    if _LIKE_A_NUMBER.fullmatch(text):
        raise ValueError(
            f"{text} is not an IP address"
        )  # the C library would read it, for example as hexadecimal
    return None


def _ipv6(text: str) -> str:
    address = ipaddress.IPv6Address(text)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.scope_id is not None and natural(address.scope_id) is None:
        raise ValueError(f"{text}: no scope_id found")
    return str(address)


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
