"""The queue of connections that have received requests which are not served yet.

A client may send thousands of requests in one write. Each iteration of the event loop serves only a few of them, one
connection after another. Between two iterations, the loop reads from other clients and sends them answers. An iteration
has a limit on requests and on bytes. It has no time limit, because a simulation must give the same result in every run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

# The bytes of requests and answers that are served in a turn: one large answer or a few small answers.
BYTES_PER_TURN = 64 * 1024
# A smaller request counts as this many bytes, so a turn serves at most 32 requests, which take 1 to 2 ms. Each turn
# costs about as much as a request, because it wakes the loop and sends to every client separately.
BYTES_PER_REQUEST_MIN = 2 * 1024
# Kafka's default of queued.max.requests.
QUEUED_REQUESTS_MAX = 500


class InLine(Protocol):
    """A connection with a request that was received and can be served."""

    def serve_turn(self, bytes_max: int) -> int:
        """Serves at least one request, and more requests until `bytes_max` bytes are used. Returns the used bytes. If
        more requests wait, adds the connection to the queue again.
        """
        ...


class RequestLine:
    """The queue of one event loop."""

    __slots__ = ("_is_due", "_left", "_line", "_requests_max")

    def __init__(self, requests_max: int = QUEUED_REQUESTS_MAX) -> None:
        """Makes an empty queue. `requests_max` is the value of queued.max.requests."""
        self._line: deque[InLine] = deque()
        self._is_due = False
        self._left = BYTES_PER_TURN
        self._requests_max = requests_max

    @property
    def allowance(self) -> int:
        """The bytes of requests that a connection may serve as soon as the requests are received. The result is 1 if
        connections wait in the queue, or if other connections have used up the limit of this iteration of the loop.
        With this result, the connection may serve one request.

        If the queue is full, the result is 0. With this result, the connection goes to the end of the queue, as a
        request does in Kafka.
        """
        if not self._line:
            return max(self._left, 1)
        return 1 if len(self._line) < self._requests_max else 0

    def count(self, used_bytes: int) -> None:
        """Counts requests that were served as soon as they were received. A single request does not count, because each
        connection may always serve one request.
        """
        if used_bytes > BYTES_PER_REQUEST_MIN:
            self._left -= used_bytes
            self._run_soon()

    def join(self, connection: InLine) -> None:
        self._line.append(connection)
        self._run_soon()

    def _run_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Serves the connections in the queue during one iteration of the loop. Each connection gets an equal part of
        the remaining limits.
        """
        line, left = self._line, BYTES_PER_TURN
        for waiting in range(len(line), 0, -1):
            if left <= 0:
                break
            left -= line.popleft().serve_turn(max(left // waiting, 1))
        self._left = left
        self._is_due = False
        if line:
            self._run_soon()
