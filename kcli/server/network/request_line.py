"""The line of connections whose received requests wait for their turn of the event loop.

A client may send thousands of requests in one write. Each turn of the loop serves only a few requests, one connection
after another. Between two turns the loop reads from other clients and answers them. The limit of a turn counts requests
and bytes, never time, because a simulation must repeat each run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

# The bytes of requests and answers that are served in a turn: one large answer or a few small answers.
BYTES_PER_TURN = 64 * 1024
# A smaller request counts as this many bytes, so a turn serves at most 16 requests.
BYTES_PER_REQUEST_MIN = 4 * 1024
# Kafka's default of queued.max.requests.
QUEUED_REQUESTS_MAX = 500


class InLine(Protocol):
    """A connection with a request that was received and can be served."""

    def take_turn(self) -> int:
        """Serves one request. Returns the bytes that the request uses of BYTES_PER_TURN. If more requests wait, joins
        the line again."""
        ...


class RequestLine:
    """The line of one event loop."""

    __slots__ = ("_is_due", "_line", "_requests_max")

    def __init__(self, requests_max: int = QUEUED_REQUESTS_MAX) -> None:
        """Makes an empty line. `requests_max` is the value of queued.max.requests."""
        self._line: deque[InLine] = deque()
        self._is_due = False
        self._requests_max = requests_max

    @property
    def allowance(self) -> int:
        """The bytes of requests that a connection may serve as soon as they are received. If connections wait in the
        line, the result is 1, and the connection may serve one request.

        If the line is full, the result is 0. Then the connection goes to the end of the line, as a request does in
        Kafka's queue.
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
