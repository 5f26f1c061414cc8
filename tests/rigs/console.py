"""The web console against a scripted cluster, and a browser without a screen that calls its API."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp

from kcli.console.console import Console
from kcli.console.settings import ClusterSettings, ConsoleSettings
from kcli.runtime.clock import Clock, SystemClock
from kcli.runtime.network import SystemNetwork
from rigs.scripted_cluster import ScriptedCluster


class Browser:
    """Keeps the cookies of one session, and sends the token against CSRF, as a page does."""

    def __init__(self, address: str, session: aiohttp.ClientSession) -> None:
        self.address = address
        self.http = session
        self.csrf = ""
        self.status = 0
        self.headers: Mapping[str, str] = {}

    async def open(self) -> Any:
        """Begins a session, and returns what the console says of it."""
        found = await self.get("/api/session")
        self.csrf = found["csrf"]
        return found

    async def get(self, path: str, **headers: str) -> Any:
        """Returns the JSON or the text of an answer. The status is kept."""
        async with self.http.get(f"{self.address}{path}", headers=headers, allow_redirects=False) as answer:
            return await self._content(answer)

    async def post(self, path: str, body: object, **headers: str) -> Any:
        """Sends an action with the token."""
        sent = {"X-Kcli-Csrf": self.csrf, "Content-Type": "application/json", **headers}
        async with self.http.post(
            f"{self.address}{path}", data=io.BytesIO(json.dumps(body).encode()), headers=sent
        ) as answer:
            found = await self._content(answer)
        if isinstance(found, dict):
            self.csrf = found.get("csrf", self.csrf)
        return found

    async def _content(self, answer: aiohttp.ClientResponse) -> Any:
        self.status, self.headers = answer.status, answer.headers
        if answer.content_type == "application/json":
            return await answer.json()
        return await answer.text()


@contextlib.asynccontextmanager
async def browser(address: str) -> AsyncIterator[Browser]:
    """Another browser at the same console."""
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of IP addresses too
    async with aiohttp.ClientSession(
        cookie_jar=jar, connector=aiohttp.TCPConnector(force_close=True)
    ) as session:
        yield Browser(address.partition("?")[0].rstrip("/"), session)


@contextlib.asynccontextmanager
async def console(
    *clusters: ClusterSettings, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[str]:
    """A console on a free port. Gives the address that it prints."""
    made = Console(
        ConsoleSettings(clusters=clusters, port=0, **settings), SystemNetwork(), clock or SystemClock()
    )
    try:
        yield await made.start()
    finally:
        await made.stop()


@contextlib.asynccontextmanager
async def scripted(cluster: ScriptedCluster | None = None, **settings: Any) -> AsyncIterator[Browser]:
    """A browser at a console with the cluster `main`, which is scripted and open. It has a session."""
    cluster = cluster or ScriptedCluster()
    with cluster.server as server:
        main = ClusterSettings(name="main", properties={"bootstrap.servers": server.address})
        async with console(main, **settings) as address, browser(address) as found:
            await found.open()
            yield found
