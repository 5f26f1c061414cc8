"""The counts of a listener, for its metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcli.model.observations import Largest, Observations


@dataclass(slots=True, eq=False, weakref_slot=True)
class ListenerCounts:
    """The connections and the traffic of a listener since the start. An answer is counted when it is written to the
    socket, or when it must begin to wait for the socket. `reads` counts reads from sockets.

    `held_ns` is the time in nanoseconds for which connections had to wait for a place. `rate_delays_ms` has the delays
    by max.connection.creation.rate. `quota_delays_ms` has the delays by the quota of an IP address (KIP-612).
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
    largest_answer: Largest = field(default_factory=Largest)
    rate_delays_ms: Observations = field(default_factory=Observations)
    quota_delays_ms: Observations = field(default_factory=Observations)
