"""The clients of one user to one cluster, with limits on the number of requests at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypeVar, cast
from weakref import WeakSet

from kcli.client.admin.admin import AdminClient
from kcli.console.cache import Cache
from kcli.console.contact import Contact
from kcli.console.failures import LOGIN_NEEDED, ConsoleError
from kcli.console.identity import Identity
from kcli.http.server import HttpError
from kcli.runtime.network import Network

T = TypeVar("T")

CALLS_AT_ONCE = 16
"""The most requests of pages that one connection serves at the same time. Further requests wait."""

STREAMS_AT_ONCE = 16
"""The most streams of one connection, such as live tails. One person watches only a few streams."""


class ClusterConnection:
    """An admin client, kept answers, and other objects that are closed at the end of the session."""

    def __init__(self, identity: Identity, network: Network, now: Callable[[], float]) -> None:
        """Raises ClientConfigError if the properties are invalid."""
        self.identity = identity
        self.admin = AdminClient(identity.config(), network)
        self._network = network
        self.contact = Contact(self.admin.config, network, now)
        self.cache = Cache(now, lambda: self.contact.is_lost)
        self._turns = asyncio.Semaphore(CALLS_AT_ONCE)
        self._streams: set[asyncio.Timeout] = set()
        self._requests: set[asyncio.Timeout] = set()
        self._clients: WeakSet[AdminClient] = WeakSet()
        self._is_closed = False
        self._kept: dict[str, object] = {}
        self._owned: dict[str, Callable[[], Awaitable[None]]] = {}

    def keep(self, name: str, make: Callable[[], T]) -> T:
        """Returns an object that a page keeps until the session ends. `make` makes the object at its first use."""
        if name not in self._kept:
            self._kept[name] = make()
        return cast(T, self._kept[name])

    def own(self, name: str, close: Callable[[], Awaitable[None]]) -> None:
        """Registers a function that is called at the end of the session."""
        self._owned[name] = close

    def client(self) -> AdminClient:
        """Makes another client of the same user, for example for a long Fetch that must not delay other requests. The
        caller closes it.

        At the end of the session, the client is closed too. Raises HttpError if the session has ended.
        """
        client = self.lasting_client()
        self._clients.add(client)
        return client

    def lasting_client(self) -> AdminClient:
        """Makes a client for work that continues after the end of the session. The caller closes it."""
        self._check_open()
        return AdminClient(self.admin.config, self._network)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until a request may use the cluster. Raises HttpError if the session has ended, or ends while the
        request waits."""
        async with self._until_closed(self._requests), self._turns:
            yield

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[None]:
        """Counts a stream while the block runs. Raises HttpError if there are too many streams, and at the end of the
        session."""
        self._check_open()
        if len(self._streams) >= STREAMS_AT_ONCE:
            raise HttpError(
                HTTPStatus.TOO_MANY_REQUESTS, f"{STREAMS_AT_ONCE} streams are open: close one first"
            )
        async with self._until_closed(self._streams):
            yield

    @asynccontextmanager
    async def _until_closed(self, ends: set[asyncio.Timeout]) -> AsyncIterator[None]:
        """Cancels the block at the end of the session, and raises HttpError."""
        self._check_open()
        end = asyncio.timeout(None)
        ends.add(end)
        try:
            async with end:
                yield
        except TimeoutError:
            if end.expired():
                raise _session_ended() from None
            raise
        finally:
            ends.discard(end)

    async def close(self) -> None:
        """Ends the requests and the streams, and closes the clients."""
        self._is_closed = True
        # A closed client connects again at its next call, so the requests and the streams must end first.
        for end in (*self._streams, *self._requests):
            end.reschedule(0.0)
        await asyncio.sleep(0)
        self.cache.close()
        await self.contact.close()
        owned, self._owned = self._owned, {}
        for close in owned.values():
            await close()
        for client in (self.admin, *self._clients):
            await client.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise _session_ended()


def _session_ended() -> ConsoleError:
    return ConsoleError(HTTPStatus.UNAUTHORIZED, LOGIN_NEEDED, "the session has ended: log in again")
