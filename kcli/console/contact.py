"""Watches which servers of a cluster answer, so that a page never shows old values of a dead cluster as new ones.

While a page is open, a small request goes to each server every two seconds, over a connection of its own: a long
answer to another request then does not delay it. A refused connection is known immediately, and a server that is
frozen or cut off is known after four seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from kcli.client.client import AUTHENTICATION_ERRORS
from kcli.client.config import ClientConfig
from kcli.client.connection import Connection
from kcli.client.pool import Pool
from kcli.console.failures import ConsoleError
from kcli.errors import KafkaError, ProtocolError
from kcli.model.addresses import Address
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import Network

T = TypeVar("T")

PROBE_SECONDS = 2.0
"""The pause between two rounds of probes."""

NO_ANSWER_SECONDS = 4.0
"""The longest wait for the answer to a probe. A healthy broker answers in milliseconds, and a busy one in a second."""

USED_SECONDS = 20.0
"""The time for which probes continue after the last request of a page."""

SERVERS_MAX = 16
"""The most servers in one round of probes. In a larger cluster, the rounds take turns."""

REFUSED_SECONDS = 60.0
"""The pause before the next probe of a server that refused the login, for example because the password has changed.
More probes would fill the broker's log with failed logins."""

PATIENCE_SECONDS = 5.0
"""The longest wait for an answer while a server does not answer and other servers do."""

CHECK_SECONDS = 0.2
"""The pause between two checks whether a request still can be answered."""

NO_ANSWER = "NO_ANSWER"


@dataclass(frozen=True, slots=True)
class SilentServer:
    """A server that does not answer: its name, the time since its last answer, and the last error."""

    name: str
    for_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class Silence:
    """The servers that do not answer. `is_whole` is True if no server of the cluster answers."""

    is_whole: bool
    for_ms: int
    servers: tuple[SilentServer, ...]

    def __str__(self) -> str:
        names = ", ".join(f"{server.name} ({server.reason})" for server in self.servers)
        verb = "does" if len(self.servers) == 1 else "do"
        whole = "no server of the cluster answers: " if self.is_whole else ""
        return f"{whole}{names} {verb} not answer since {self.for_ms / 1000:.0f} s"


class NoAnswer(ConsoleError):
    """Raised if the servers that a request needs do not answer."""

    def __init__(self, silence: Silence) -> None:
        super().__init__(HTTPStatus.GATEWAY_TIMEOUT, NO_ANSWER, str(silence))


@dataclass(slots=True)
class _Server:
    """What is known about a server. `silent_since` is the time of its last answer, or of the first failed probe."""

    broker: int | None = None
    answered_at: float | None = None
    silent_since: float | None = None
    reason: str = ""
    rests_until: float = 0.0


class Contact:
    """The state of all servers of one cluster, for one user."""

    def __init__(self, config: ClientConfig, network: Network, now: Callable[[], float]) -> None:
        self._config = config
        self._now = now

        async def connect(address: Address) -> Connection:
            return await Connection.open(
                network, address, config.client_id, NO_ANSWER_SECONDS, config.security
            )

        self._pool = Pool(connect, request_timeout_s=NO_ANSWER_SECONDS)
        self._servers = {address: _Server() for address in config.servers}
        self._used_at = 0.0
        self._turn = 0
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def used(self) -> None:
        """Begins or continues to probe the servers, because a page is open."""
        self._used_at = self._now()
        if not self._is_closed and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="probes of servers")

    def silence(self) -> Silence | None:
        """The servers that do not answer now, or None."""
        silent = [
            SilentServer(_name(address, server), self._ms_since(server.silent_since), server.reason)
            for address, server in self._servers.items()
            if server.silent_since is not None
        ]
        if not silent:
            return None
        # The time since the last answer of any server: the cluster was alive until then.
        is_whole = len(silent) == len(self._servers)
        times = [server.for_ms for server in silent]
        return Silence(is_whole, min(times) if is_whole else max(times), tuple(silent))

    @property
    def is_lost(self) -> bool:
        """Whether no server of the cluster answers."""
        silence = self.silence()
        return silence is not None and silence.is_whole

    async def guarded(self, work: Awaitable[T], *, patience_seconds: float = PATIENCE_SECONDS) -> T:
        """Waits for an answer of the cluster. Raises NoAnswer as soon as no server answers. If only some servers are
        silent, raises NoAnswer after `patience_seconds`."""
        self.used()
        task = asyncio.ensure_future(work)
        began = self._now()
        try:
            while not task.done():
                await asyncio.wait((task,), timeout=CHECK_SECONDS)
                silence = None if task.done() else self.silence()
                if silence is not None and (silence.is_whole or self._now() - began > patience_seconds):
                    raise NoAnswer(silence)
            return await task
        finally:
            task.cancel()

    async def close(self) -> None:
        """Ends the probes, and closes the connections."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _ms_since(self, at: float) -> int:
        return round((self._now() - at) * 1000)

    async def _run(self) -> None:
        try:
            while self._now() - self._used_at < USED_SECONDS:
                await self._round()
                await asyncio.sleep(PROBE_SECONDS)
        finally:
            self._pool.close()
            # Without probes, nothing is known about a server.
            for server in self._servers.values():
                server.answered_at = server.silent_since = None

    async def _round(self) -> None:
        addresses = [
            address for address, server in self._servers.items() if server.rests_until <= self._now()
        ]
        if not addresses:
            return
        first = self._turn % len(addresses)
        self._turn += SERVERS_MAX
        chosen = (addresses[first:] + addresses[:first])[:SERVERS_MAX]
        replies = await asyncio.gather(*map(self._probe, chosen))
        answer = next((reply for reply in replies if reply is not None and reply.brokers), None)
        if answer is not None:
            self._learn({Address(broker.host, broker.port): broker.node_id for broker in answer.brokers})
        elif self.is_lost:
            # The cluster may come back at other addresses, which only the servers of the settings know.
            for address in self._config.servers:
                self._servers.setdefault(address, _Server())

    def _learn(self, brokers: dict[Address, int]) -> None:
        """Follows the brokers of the last answer, and forgets all other servers."""
        for address in self._servers:
            if address not in brokers:
                self._pool.disconnect(address)
        self._servers = {address: self._servers.get(address, _Server()) for address in brokers}
        for address, broker in brokers.items():
            self._servers[address].broker = broker

    async def _probe(self, address: Address) -> MetadataResponse | None:
        """Asks one server for the brokers of the cluster. Returns None if it does not answer."""
        server = self._servers[address]
        try:
            async with asyncio.timeout(NO_ANSWER_SECONDS):
                answer = await self._ask(address)
        except AUTHENTICATION_ERRORS:
            # The server answers, although it refuses this user.
            answer = None
            server.rests_until = self._now() + REFUSED_SECONDS
        except (OSError, KafkaError, ProtocolError) as error:
            self._pool.disconnect(address)
            if server.silent_since is None:
                server.silent_since = self._now() if server.answered_at is None else server.answered_at
            server.reason = _reason(error)
            return None
        server.answered_at, server.silent_since = self._now(), None
        return answer

    async def _ask(self, address: Address) -> MetadataResponse:
        request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
        answer = await self._pool.send(request, ApiKey.METADATA, to=address)
        assert isinstance(answer, MetadataResponse)
        return answer


def _name(address: Address, server: _Server) -> str:
    return str(address) if server.broker is None else f"broker {server.broker} at {address}"


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {NO_ANSWER_SECONDS:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
