"""Limits the failed logins of each IP address on a listener, and the lines about them in the log.

The function `login_delays` has the rule, because Kafka has no such limit to follow.
"""

from __future__ import annotations

import logging

from kcli.runtime import log_text
from kcli.runtime.limited_lines import LimitedLines
from kcli.security.login_delays import ADDRESSES_MAX, LoginDelays

_log = logging.getLogger("kcli.server.Authentication")

FAILURES_MAX = 100
"""The number of failed logins that an address may have before its logins must wait. Many clients with the same wrong
password reach this number in seconds, but a person does not."""
INTERVAL_SECONDS = 0.1
"""The time between two logins of an address after FAILURES_MAX failures. So a client can try ten passwords per
second."""
WAIT_MAX_SECONDS = 10.0
"""The longest wait of a login. It is below the time limits of clients, which are 30 s."""

NODES_FACTOR = 20
"""The factor by which FAILURES_MAX and the rate of further failures are larger on listeners that nodes use. A client
with a wrong password may have the same address as a node. Without the factor, this client would delay the links of the
node, and replicas would leave the ISR."""


class FailedLogins:
    """The failed logins of one listener. Failures on one listener do not delay the logins on another listener. Times
    are in seconds of a clock that never goes back.
    """

    def __init__(self, *, factor: int = 1) -> None:
        """`factor` multiplies both limits of an address: FAILURES_MAX, and the number of further failures per
        second.
        """
        self._delays = LoginDelays(
            failures_max=FAILURES_MAX * factor,
            interval_seconds=INTERVAL_SECONDS / factor,
            wait_max_seconds=WAIT_MAX_SECONDS,
            addresses_max=ADDRESSES_MAX,
        )
        self._lines = LimitedLines()

    def wait_seconds(self, host: str, now: float) -> float:
        """The time for which a login of this address must wait, or infinity if the login must be refused."""
        return self._delays.wait_seconds(host, now)

    def failed(
        self, host: str, now: float, listener: str, reason: str, defect: Exception | None = None
    ) -> None:
        """Counts a failed login. Logs the failure if the last line about a failure is old enough.

        `defect` is an unexpected error in the code of the login, such as in an operator's own class. The log has its
        traceback.
        """
        self._delays.failed(host, now)
        also = self._lines.ending(now)
        if also is None:
            return
        cause = log_text.reason(reason)
        level = logging.INFO if defect is None else logging.ERROR
        text = "Failed authentication with /%s on listener %s (%s)%s"
        _log.log(level, text, host, listener, cause, also, exc_info=defect)
