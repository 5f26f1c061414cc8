"""Computes how long a follower holds (delays) requests of clients whose metadata already names this follower as the new
leader.

The brokers do not read a change of the metadata at the same moment, but some milliseconds apart. If the old leader
reads the change of leaders first, it sends its clients to the new leader, which still sees itself as a follower. An
error would make these clients pause, some of them for a second, and later requests of an idempotent producer could
overtake the refused request. So the follower holds the requests until it has read the change too.

A client with old metadata may also send its requests to a follower. The follower cannot distinguish requests after a
change of leaders from requests with old metadata. So the follower holds requests only in a window of WINDOW_MS, and at
most until the end of the window. A rest of REST_MS follows the window. During the rest, the follower refuses all these
requests immediately. The first request after the rest begins a new window. A broker that has just lost the leadership
begins with a rest, because requests for the leader then come from clients with old metadata.
"""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_MS = 100
"""The length of a window. A broker usually reads a change of the metadata within a few milliseconds, and on a busy
machine within a few tens of milliseconds. After an error, clients wait for at least 100 ms (retry.backoff.ms)."""

REST_MS = 1000
"""The length of the rest. This time is long enough for a client with old metadata to read the new metadata."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window and the rest after it. `end_ms` is the end of the window, by the monotonic clock."""

    end_ms: int

    def at(self, now_ms: int) -> Window:
        """The window for a request that arrives now: this window if its rest has not ended, otherwise a new window."""
        return self if now_ms < self.end_ms + REST_MS else Window(now_ms + WINDOW_MS)

    def remaining_ms(self, now_ms: int) -> int:
        """The time for which a request is held. 0 during the rest."""
        return max(self.end_ms - now_ms, 0)


LONG_OVER = Window(-REST_MS)
"""A window whose rest ended before the start of the clock, so that the first request begins a new window."""
