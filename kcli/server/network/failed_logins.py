"""Limits the failed logins of each IP address on a listener, and the lines about them in the log.

Kafka has no such limit. An address may fail FAILURES_MAX times, and then once per INTERVAL_SECONDS. Above this limit,
each login from the address waits, also a login with the correct password. So a client cannot try many passwords, and
other clients with the same address can still log in.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import OrderedDict

from kcli.runtime import log_text
from kcli.runtime.limited_lines import LimitedLines

_log = logging.getLogger("kcli.server.Authentication")

FAILURES_MAX = 100
"""The number of failed logins that an address may have before its logins must wait. Many clients with the same wrong
password reach this number in seconds, but a person does not."""
INTERVAL_SECONDS = 0.1
"""The time between two logins of an address after FAILURES_MAX failures. So a client can try ten passwords per
second."""
WAIT_MAX_SECONDS = 10.0
"""The longest wait of a login. It is below the time limits of clients, which are 30 s."""
ADDRESSES_MAX = 10_000
"""The most addresses that are remembered. The address whose last failure is the oldest is forgotten first."""

NODES_FACTOR = 20
"""The factor by which FAILURES_MAX and the rate of further failures are larger on listeners that nodes use. A client
with a wrong password may have the same address as a node. Without the factor, this client would delay the links of the
node, and replicas would leave the ISR."""

_IPV6_PREFIX_BITS = 64  # a provider gives each customer at least all addresses with one such prefix


class FailedLogins:
    """The failed logins of one listener. Failures on one listener do not delay the logins on another listener. Times
    are in seconds of a clock that never goes back.
    """

    def __init__(self, *, factor: int = 1) -> None:
        """`factor` multiplies both limits of an address: FAILURES_MAX, and the number of further failures per
        second.
        """
        self._free_seconds = FAILURES_MAX * INTERVAL_SECONDS
        self._interval = INTERVAL_SECONDS / factor
        # For each address, the time at which all its failures are forgotten. Each failure makes this time later by the
        # interval.
        self._forgiven_at: OrderedDict[str, float] = OrderedDict()
        self._lines = LimitedLines()

    def wait_seconds(self, host: str, now: float) -> float:
        """The time for which a login of this address must wait. Logins of an address wait one after another, so each
        call with a result above 0 makes the next login wait longer. Returns infinity if the wait would be longer than
        WAIT_MAX_SECONDS.
        """
        address = _address(host)
        forgiven_at = self._forgiven_at.get(address)
        if forgiven_at is None:
            return 0.0
        wait = forgiven_at - now - self._free_seconds
        if wait <= 0:
            return 0.0
        if wait > WAIT_MAX_SECONDS:
            return float("inf")
        self._forgiven_at[address] = forgiven_at + self._interval
        return wait

    def failed(
        self, host: str, now: float, listener: str, reason: str, defect: Exception | None = None
    ) -> None:
        """Counts a failed login. Logs the failure if the last line about a failure is old enough.

        `defect` is an unexpected error in the code of the login, such as in an operator's own class. The log has its
        traceback.
        """
        address = _address(host)
        self._forgiven_at[address] = max(self._forgiven_at.get(address, now), now) + self._interval
        self._forgiven_at.move_to_end(address)
        if len(self._forgiven_at) > ADDRESSES_MAX:
            self._forgiven_at.popitem(last=False)
        also = self._lines.ending(now)
        if also is None:
            return
        cause = log_text.reason(reason)
        level = logging.INFO if defect is None else logging.ERROR
        text = "Failed authentication with /%s on listener %s (%s)%s"
        _log.log(level, text, host, listener, cause, also, exc_info=defect)


def _address(host: str) -> str:
    if ":" not in host:
        return host
    try:
        network = ipaddress.ip_network((host.partition("%")[0], _IPV6_PREFIX_BITS), strict=False)
    except ValueError:
        return host
    return str(network)
