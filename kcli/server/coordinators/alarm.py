"""The timer of a coordinator's shard: calls a function at the earliest deadline of the shard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

HELD_MS = 20
"""The delay from which on a late alarm shows that the event loop was blocked. Timers of an idle loop are at most a few
milliseconds late."""
LONGEST_GRACE_MS = 500
"""The longest postponement of an alarm. It covers a pause of a busy machine or a full garbage collection, and it is
short compared with the shortest session timeout of Kafka's clients (6 s)."""


class Alarm:
    """Calls a function once, at the earliest deadline that was set.

    If the event loop was blocked when a deadline passed, the sockets may have unread heartbeats from this time. The
    heartbeats must be served before a session expires. So the alarm postpones the call once, by the time for which the
    loop was blocked. Kafka has the same order: an expired timer adds an event at the end of the coordinator's queue.
    """

    def __init__(self, now_ms: Callable[[], int], ring: Callable[[], None]) -> None:
        self._now_ms = now_ms
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._deadline_ms = 0
        self._due_ms = 0
        """The time for which the timer of the loop is set. This time is later than the deadline if the deadline had
        already passed when it was set."""
        self._is_postponed = False

    def set(self, deadline_ms: int) -> None:
        """Adds a deadline. The alarm keeps only the earliest deadline. After the alarm has called its function, later
        deadlines must be added again.
        """
        if self._handle is not None:
            if self._deadline_ms <= deadline_ms:
                return
            self._handle.cancel()
        self._deadline_ms = deadline_ms
        now_ms = self._now_ms()
        self._wait(now_ms, max(deadline_ms - now_ms, 0))

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wait(self, now_ms: int, delay_ms: int) -> None:
        self._due_ms = now_ms + delay_ms
        self._handle = self._loop.call_later(delay_ms / 1000, self._rings)

    def _rings(self) -> None:
        now_ms = self._now_ms()
        held_ms = now_ms - self._due_ms
        self._is_postponed = held_ms > HELD_MS and not self._is_postponed
        if self._is_postponed:
            self._wait(now_ms, min(held_ms, LONGEST_GRACE_MS))
            return
        self._handle = None
        self._ring()
