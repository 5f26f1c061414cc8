"""Limits the number of scrapes that are answered at the same time, because an answer with all metrics needs much
memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from kcli.http.server import HttpError

PLACES_MAX = 4
"""The most answers at the same time. With 10,000 partitions, each answer has up to 30 MB of lines in memory."""
PLACES_PER_PEER = 2
"""The most answers to one address at the same time, so that one client cannot take all places."""
WAIT_SECONDS = 1.0
"""The longest wait for a place."""


class Places:
    """Counts the answers that are being made or sent, for each peer address."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def place(self, peer: str) -> AsyncIterator[None]:
        """Holds a place for one answer. Raises HttpError if no place is free within WAIT_SECONDS."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._wait(peer)
        except TimeoutError:
            raise HttpError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"too many answers are sent: {PLACES_MAX} in all, and {PLACES_PER_PEER} to one address",
            ) from None
        self._taken[peer] += 1
        try:
            yield
        finally:
            self._free(peer)

    async def _wait(self, peer: str) -> None:
        while self._taken.total() >= PLACES_MAX or self._taken[peer] >= PLACES_PER_PEER:
            self._freed.clear()
            await self._freed.wait()

    def _free(self, peer: str) -> None:
        self._taken[peer] -= 1
        self._taken = +self._taken  # without the addresses that have no place
        self._freed.set()
