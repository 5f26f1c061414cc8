"""Delays the logins of an address after failed logins.

An address may fail a number of times, and then once per interval. Above this limit, each login from the address waits,
also a login with the correct password. So a client cannot try many passwords, and other clients with the same address
can still log in.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

ADDRESSES_MAX = 10_000
"""The most addresses that are remembered. The address whose last failure is the oldest is forgotten first."""

_IPV6_PREFIX_BITS = 64  # a provider gives each customer at least all addresses with one such prefix


class LoginDelays:
    """The failed logins of each address. Times are in seconds of a clock that never goes back."""

    def __init__(
        self,
        *,
        failures_max: int,
        interval_seconds: float,
        wait_max_seconds: float,
        addresses_max: int = ADDRESSES_MAX,
    ) -> None:
        """An address may have `failures_max` failures. Each later login takes `interval_seconds`."""
        self._free_seconds = failures_max * interval_seconds
        self._interval = interval_seconds
        self._wait_max = wait_max_seconds
        self._addresses_max = addresses_max
        # For each address, the time at which all its failures are forgotten. Each failure makes this time later by the
        # interval.
        self._forgiven_at: OrderedDict[str, float] = OrderedDict()

    def wait_seconds(self, host: str, now: float) -> float:
        """The time for which a login of this address must wait. Logins of an address wait one after another, so each
        call with a result above 0 makes the next login wait longer. Returns infinity if the wait would be longer than
        the longest wait.
        """
        address = address_of(host)
        forgiven_at = self._forgiven_at.get(address)
        if forgiven_at is None:
            return 0.0
        wait = forgiven_at - now - self._free_seconds
        if wait <= 0:
            return 0.0
        if wait > self._wait_max:
            return float("inf")
        self._forgiven_at[address] = forgiven_at + self._interval
        return wait

    def failed(self, host: str, now: float) -> None:
        """Counts a failed login."""
        address = address_of(host)
        self._forgiven_at[address] = max(self._forgiven_at.get(address, now), now) + self._interval
        self._forgiven_at.move_to_end(address)
        if len(self._forgiven_at) > self._addresses_max:
            self._forgiven_at.popitem(last=False)


def address_of(host: str) -> str:
    """The address under which failures are counted. With IPv6, it is a prefix that one customer has."""
    if ":" not in host:
        return host
    try:
        network = ipaddress.ip_network((host.partition("%")[0], _IPV6_PREFIX_BITS), strict=False)
    except ValueError:
        return host
    return str(network)
