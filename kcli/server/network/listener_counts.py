"""The counts of a listener, for its metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False, weakref_slot=True)
class ListenerCounts:
    """The connections and the traffic of a listener since the start. An answer counts when it is given to the socket,
    or to the line of answers that wait for the socket. `reads` counts reads from sockets.

    `held_ns` is the time in nanoseconds for which connections had to wait for a place.
    """

    opened: int = 0
    closed: int = 0
    accepted: int = 0
    requests: int = 0
    answers: int = 0
    reads: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    held_ns: int = 0
