"""The clients of one user to one cluster, with bounds on what they do at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypeVar, cast

from kcli.client.admin.admin import AdminClient
from kcli.console.cache import Cache
from kcli.console.identity import Identity
from kcli.http.server import HttpError
from kcli.runtime.network import Network

T = TypeVar("T")

CALLS_AT_ONCE = 16
"""The most requests of pages that one connection serves at the same time. Others wait."""

STREAMS_AT_ONCE = 16
"""The most streams of one connection, such as live tails. One person looks at a few."""


class ClusterConnection:
    """An admin client, the answers that are kept, and everything that ends with the session."""

    def __init__(self, identity: Identity, network: Network, now: Callable[[], float]) -> None:
        """Raises ClientConfigError if the properties are invalid."""
        self.identity = identity
        self.admin = AdminClient(identity.config(), network)
        self._network = network
        self.cache = Cache(now)
        self._turns = asyncio.Semaphore(CALLS_AT_ONCE)
        self._streams = 0
        self._kept: dict[str, object] = {}
        self._owned: dict[str, Callable[[], Awaitable[None]]] = {}

    def keep(self, name: str, make: Callable[[], T]) -> T:
        """Returns something that a page keeps until the session ends. `make` makes it at its first use."""
        if name not in self._kept:
            self._kept[name] = make()
        return cast(T, self._kept[name])

    def own(self, name: str, close: Callable[[], Awaitable[None]]) -> None:
        """Registers a function that closes something of a page at the end of the session."""
        self._owned[name] = close

    def client(self) -> AdminClient:
        """Makes another client of the same user. The caller closes it. A long Fetch then delays no other call."""
        return AdminClient(self.admin.config, self._network)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until a request may use the cluster."""
        async with self._turns:
            yield

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[None]:
        """Counts a stream. Raises HttpError if there are too many."""
        if self._streams >= STREAMS_AT_ONCE:
            raise HttpError(
                HTTPStatus.TOO_MANY_REQUESTS, f"{STREAMS_AT_ONCE} streams are open: close one first"
            )
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    async def close(self) -> None:
        """Closes the clients. Calls on their way end with an error."""
        self.cache.close()
        owned, self._owned = self._owned, {}
        for close in owned.values():
            await close()
        await self.admin.close()
