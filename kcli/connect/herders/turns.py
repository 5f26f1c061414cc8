"""The requests of a herder, one after another: none of them runs during a rebalance."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Request(Generic[T]):
    action: Callable[[], Awaitable[T]]
    result: asyncio.Future[T]


class Turns:
    """A queue of requests. `wake` is called when a request comes."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._requests: deque[_Request[object]] = deque()

    async def run(self, action: Callable[[], Awaitable[T]]) -> T:
        """Runs an action when the herder takes it, and returns its result. A caller that gives up takes it away."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        request = _Request(action, result)
        self._requests.append(request)  # type: ignore[arg-type]
        self._wake()
        return await result

    async def take_all(self) -> None:
        """Runs the requests that wait."""
        while self._requests:
            request = self._requests.popleft()
            if request.result.done():
                continue
            try:
                value = await request.action()
            except Exception as error:
                if not request.result.done():
                    request.result.set_exception(error)
            else:
                if not request.result.done():
                    request.result.set_result(value)

    def refuse_all(self, error: Exception) -> None:
        """Answers the requests that wait with an error, because the worker stops."""
        while self._requests:
            request = self._requests.popleft()
            if not request.result.done():
                request.result.set_exception(error)
