"""How long a follower holds the requests of clients that know a newer leader than the follower.

Brokers read a change of the metadata some milliseconds after each other. If the old leader is first, it sends its
clients to a broker that is still a follower. An error would make these clients pause, some of them for a second, and
later requests of an idempotent producer could overtake the refused request. So the follower holds the requests until it
has read the change.

A client with old metadata also sends requests to a follower. The follower cannot see the difference, so a window limits
the time: all requests in the window are held until its end. The next window begins only after a rest, in which requests
are refused at once. A broker that has just lost the leadership begins with a rest, because its clients are the clients
with old metadata.
"""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_MS = 100
"""A broker reads a change of the metadata in a few milliseconds, and on a busy machine in some tens. Clients wait
at least as long after an error (retry.backoff.ms)."""

REST_MS = 1000
"""A client with old metadata reads the new metadata in this time."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window. `end_ms` is a time of the monotonic clock."""

    end_ms: int

    def at(self, now_ms: int) -> Window:
        """The window for a request that arrives now: this window during the window and the rest, then a new window."""
        return self if now_ms < self.end_ms + REST_MS else Window(now_ms + WINDOW_MS)

    def remaining_ms(self, now_ms: int) -> int:
        """The time for which a request is held. 0 during the rest."""
        return max(self.end_ms - now_ms, 0)


LONG_OVER = Window(-REST_MS)
"""A window before the start of the clock, so that the first request begins a window."""
