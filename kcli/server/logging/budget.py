"""Limits the number of lines in the log with the same text and different values.

Clients cause many of the lines, also lines that no code limits itself, such as the joins of members of groups. Without
this limit, a client in a loop could fill the log, and older lines would be deleted. A normal start or change of a
cluster stays below the limit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from kcli.server.logging.names import AUDIT, REQUESTS

LINES_MAX = 1000
"""The most lines with the same text in a short time. A change of a large cluster writes a few hundred."""
LINES_PER_SECOND = 20.0
"""The rate of further lines. 20 lines of 300 bytes are 0.5 GB per day, which the rotation of the files deletes."""
TEXTS_MAX = 10_000
"""The most texts that are counted. kcli has about a thousand."""

UNLIMITED = frozenset({AUDIT, REQUESTS})
"""The loggers without a limit. An auditor needs each line, and the log of requests is on only for a search."""


@dataclass(slots=True)
class _Budget:
    left: float
    counted_at: float
    dropped: int = 0


class LineBudget:
    """A filter for handlers. Lines below INFO have no limit, because an operator has asked for them."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._budgets: dict[tuple[str, str], _Budget] = {}

    def __call__(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.INFO or record.name in UNLIMITED:
            return True
        # Each handler asks, and all of them must get the same result.
        known: bool | None = getattr(record, "is_in_budget", None)
        if known is None:
            known = record.is_in_budget = self._takes(record)
        return known

    def _takes(self, record: logging.LogRecord) -> bool:
        budget = self._budget((record.name, str(record.msg)))
        now = self._now()
        gained = (now - budget.counted_at) * LINES_PER_SECOND
        budget.left, budget.counted_at = min(budget.left + gained, float(LINES_MAX)), now
        if budget.left < 1:
            budget.dropped += 1
            return False
        budget.left -= 1
        if budget.dropped:
            record.msg = f"{record.msg}; {budget.dropped} lines like this before are not logged"
            budget.dropped = 0
        return True

    def _budget(self, text: tuple[str, str]) -> _Budget:
        budget = self._budgets.get(text)
        if budget is None:
            if len(self._budgets) >= TEXTS_MAX:
                self._budgets.clear()
            budget = self._budgets[text] = _Budget(float(LINES_MAX), self._now())
        return budget
