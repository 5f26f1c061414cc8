"""Limits the lines in the log that clients can cause.

Each line that a request or a connection can cause is written through `LimitedLines`. So a hostile client cannot fill a
disk with lines. `log_text` limits the texts of clients in these lines.
"""

from __future__ import annotations

INTERVAL_SECONDS = 1.0
"""The time between two lines. A client that connects all the time must not fill a disk with lines."""


class LimitedLines:
    """Counts the lines that are not logged. Times are in seconds of a clock that never goes back."""

    __slots__ = ("_logged_at", "_silent_count")

    def __init__(self) -> None:
        self._logged_at = float("-inf")
        self._silent_count = 0

    def ending(self, now: float) -> str | None:
        """Returns the text for the end of the next line: the number of lines that were not logged since the last line.
        Returns None if the next line must not be logged.
        """
        if now - self._logged_at < INTERVAL_SECONDS:
            self._silent_count += 1
            return None
        count, self._logged_at, self._silent_count = self._silent_count, now, 0
        return f"; {count} failures before are not logged" if count else ""
