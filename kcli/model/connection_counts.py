"""Counts the connections that a node opens to other nodes for one purpose, and their requests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False, weakref_slot=True)
class ConnectionCounts:
    """The numbers of connections, of requests and answers, and of their bytes, since the start of the node."""

    opened: int = 0
    closed: int = 0
    requests: int = 0
    answers: int = 0
    bytes_out: int = 0
    bytes_in: int = 0

    def sent(self, size_bytes: int) -> None:
        self.requests += 1
        self.bytes_out += size_bytes

    def received(self, size_bytes: int) -> None:
        self.answers += 1
        self.bytes_in += size_bytes
