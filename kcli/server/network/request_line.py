"""The line of connections whose received requests wait for their turn of the event loop.

A client may send thousands of requests in one write. Each turn of the loop serves a few of them, one connection after
another, so that other clients are read and answered in between. The limit counts requests and bytes, never time,
because a simulation must repeat each run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

# The bytes of requests and answers that are served per turn: one large answer, or a few small ones.
BYTES_PER_TURN = 64 * 1024
# The bytes that each request counts at least: 16 requests per turn.
BYTES_PER_REQUEST_MIN = 4 * 1024
# Kafka's default of queued.max.requests.
QUEUED_REQUESTS_MAX = 500


class InLine(Protocol):
    """A connection with a request that was received and can be served."""

    def take_turn(self) -> int:
        """Serves one request. Returns the bytes that it counts. Joins the line again if more requests wait."""
        ...


class RequestLine:
    """The line of one event loop."""

    __slots__ = ("_is_due", "_line", "_requests_max")

    def __init__(self, requests_max: int = QUEUED_REQUESTS_MAX) -> None:
        """`requests_max`: queued.max.requests."""
        self._line: deque[InLine] = deque()
        self._is_due = False
        self._requests_max = requests_max

    @property
    def allowance(self) -> int:
        """The bytes that a connection may serve when it is read: one request if others wait in the line.

        If the line is full, the connection serves no request at once. It goes to the end of the line, as in Kafka's
        queue.
        """
        if not self._line:
            return BYTES_PER_TURN
        return 1 if len(self._line) < self._requests_max else 0

    def join(self, connection: InLine) -> None:
        self._line.append(connection)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        served = 0
        while self._line and served < BYTES_PER_TURN:
            served += self._line.popleft().take_turn()
        self._is_due = bool(self._line)
        if self._is_due:
            asyncio.get_running_loop().call_soon(self._turn)
