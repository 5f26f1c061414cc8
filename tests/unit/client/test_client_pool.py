"""The pool of connections: one connection to each server, pauses after failures, and servers that move or leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from kcli.client.pool import Backoff, Pool, is_usable
from kcli.errors import NetworkException, ProtocolError, UnsupportedVersionException
from kcli.model.addresses import Address
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.wire.api import ApiKey
from simulation.runtime.loop import SimLoop, simulate

HOME, AWAY = Address("home", 1), Address("away", 2)
KEY, REQUEST = ApiKey.METADATA, MetadataRequest(topics=())
TIMEOUT_S = 30.0


class ScriptedConnection:
    """A connection that answers with its address, or raises `failure`."""

    def __init__(self, address: Address, servers: Servers) -> None:
        self.address, self._servers = address, servers
        self.is_closed = self.is_stale = self.is_retired = False
        self.failure: Exception | None = None
        self.timeouts: list[float] = []

    def version_for(self, _key: ApiKey, *, at_least: int = 0) -> int:
        if at_least > self._servers.newest:
            raise UnsupportedVersionException
        return self._servers.newest

    async def request(self, message: Any, _key: ApiKey, *, version: int, timeout: float) -> Any:
        assert version == self._servers.newest
        self.timeouts.append(timeout)
        if self.failure is not None:
            raise self.failure
        return self.address, message

    def close(self) -> None:
        self.is_closed = True

    def retire(self) -> None:
        self.is_retired = True


@dataclass
class Servers:
    """The servers that the pool connects to. `opened` has each attempt with its time."""

    opened: list[tuple[float, Address]] = field(default_factory=list)
    connections: list[ScriptedConnection] = field(default_factory=list)
    down: set[Address] = field(default_factory=set)
    delay_s: float = 0.0
    newest: int = 5
    addresses: dict[int, Address] = field(default_factory=lambda: {1: HOME, 2: AWAY})

    async def connect(self, address: Address) -> Any:
        self.opened.append((asyncio.get_running_loop().time(), address))
        await asyncio.sleep(self.delay_s)
        if address in self.down:
            raise ConnectionRefusedError
        self.connections.append(ScriptedConnection(address, self))
        return self.connections[-1]

    def pool(self, **settings: Any) -> Pool:
        return Pool(
            self.connect,
            request_timeout_s=TIMEOUT_S,
            address_of=lambda node: self.addresses.get(node),
            **settings,
        )


def on_servers(story: Callable[[Servers], Coroutine[None, None, None]]) -> Callable[[], None]:
    def test() -> None:
        async def main(_loop: SimLoop) -> None:
            await story(Servers())

        simulate(1, main)

    return test


@on_servers
async def test_a_server_has_one_connection_for_each_of_its_names(servers: Servers) -> None:
    """A node of the quorum asks for records by the name of a bootstrap server. The long wait of this request must not
    delay a vote, which goes to the id of the same server."""
    pool = servers.pool()
    assert [await pool.send(REQUEST, KEY, to=to) for to in (1, HOME, 1, HOME)] == [(HOME, REQUEST)] * 4
    assert len(servers.opened) == 2


@on_servers
async def test_requests_that_need_the_same_connection_wait_for_it(servers: Servers) -> None:
    servers.delay_s = 1.0
    pool = servers.pool()
    await asyncio.gather(*(pool.send(REQUEST, KEY, to=1) for _ in range(3)))
    assert len(servers.opened) == 1


@on_servers
async def test_requests_that_wait_for_a_connection_fail_with_it(servers: Servers) -> None:
    """So many requests to a server that is down take the time of one attempt, and not of many."""
    servers.delay_s = 10.0
    servers.down.add(HOME)
    pool = servers.pool()
    requests = (pool.send(REQUEST, KEY, to=1) for _ in range(5))
    errors = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(each) for each in errors] == [ConnectionRefusedError] * 5
    assert (servers.opened, asyncio.get_running_loop().time()) == ([(0.0, HOME)], 10.0)
    servers.down.clear()
    assert await pool.send(REQUEST, KEY, to=1) == (HOME, REQUEST)


@on_servers
async def test_a_slow_server_does_not_hold_the_requests_to_others(servers: Servers) -> None:
    servers.delay_s = 60.0
    pool = servers.pool()
    slow = asyncio.create_task(pool.send(REQUEST, KEY, to=1))
    await asyncio.sleep(0)
    servers.delay_s = 0.0
    await pool.send(REQUEST, KEY, to=2)
    assert not slow.done()
    await slow


@on_servers
async def test_a_connection_that_the_server_closed_is_opened_again(servers: Servers) -> None:
    pool = servers.pool()
    first = await pool.connection(1)
    first.close()
    assert await pool.connection(1) is not first


@on_servers
async def test_a_session_that_ends_soon_keeps_its_unanswered_requests(servers: Servers) -> None:
    pool = servers.pool()
    await pool.send(REQUEST, KEY, to=1)
    first = servers.connections[0]
    first.is_stale = True
    await pool.send(REQUEST, KEY, to=1)
    assert (first.is_retired, first.is_closed) == (True, False)


@pytest.mark.parametrize("failure", [TimeoutError(), NetworkException("gone"), ProtocolError("odd")])
def test_a_connection_without_a_valid_answer_is_closed(failure: Exception) -> None:
    async def main(_loop: SimLoop) -> None:
        servers = Servers()
        pool = servers.pool()
        await pool.connection(1)
        first = servers.connections[0]
        first.failure = failure
        with pytest.raises(type(failure)):
            await pool.send(REQUEST, KEY, to=1)
        assert first.is_closed
        assert await pool.send(REQUEST, KEY, to=1) == (HOME, REQUEST)

    simulate(1, main)


@on_servers
async def test_an_old_failure_does_not_close_the_new_connection(servers: Servers) -> None:
    pool = servers.pool()
    await pool.connection(1)
    first = servers.connections[0]

    async def lost(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(1.0)
        raise NetworkException("gone")

    first.request = lost
    request = asyncio.create_task(pool.send(REQUEST, KEY, to=1))
    await asyncio.sleep(0.5)
    first.close()
    second = await pool.connection(1)
    with pytest.raises(NetworkException):
        await request
    assert await pool.connection(1) is second and is_usable(second)


@on_servers
async def test_a_server_that_is_too_old_stays_connected(servers: Servers) -> None:
    pool = servers.pool()
    with pytest.raises(UnsupportedVersionException):
        await pool.send(REQUEST, KEY, to=1, at_least=servers.newest + 1)
    assert is_usable(await pool.connection(1)) and len(servers.opened) == 1


@on_servers
async def test_the_time_limit_of_a_request_is_that_of_the_pool_or_its_own(servers: Servers) -> None:
    pool = servers.pool()
    await pool.send(REQUEST, KEY, to=1)
    await pool.send(REQUEST, KEY, to=1, timeout_ms=1_500)
    assert servers.connections[0].timeouts == [TIMEOUT_S, 1.5]


@on_servers
async def test_the_pauses_between_failed_attempts_double(servers: Servers) -> None:
    pool = servers.pool(backoff=Backoff(0.5, 2.0))
    servers.down.add(HOME)
    for _ in range(5):
        with pytest.raises(ConnectionRefusedError):
            await pool.connection(1)
    servers.down.clear()
    await pool.connection(1)
    pool.disconnect(1)
    await pool.connection(1)  # without a pause, because the last attempt succeeded
    assert [at for at, _ in servers.opened] == [0.0, 0.5, 1.5, 3.5, 5.5, 7.5, 7.5]


@on_servers
async def test_an_attempt_that_was_cancelled_counts_as_failed(servers: Servers) -> None:
    servers.delay_s = 10.0
    pool = servers.pool(backoff=Backoff(0.5, 2.0))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await pool.connection(1)
    await pool.connection(1)
    assert [at for at, _ in servers.opened] == [0.0, 0.5]


@on_servers
async def test_the_owner_can_delay_the_next_connection(servers: Servers) -> None:
    pool = servers.pool(backoff=Backoff(0.5, 0.5))
    await pool.connection(1)
    pool.rest(1)
    assert servers.connections[0].is_closed
    await pool.connection(1)
    assert servers.opened == [(0.0, HOME), (0.5, HOME)]


@on_servers
async def test_a_server_that_moves_gets_a_new_connection(servers: Servers) -> None:
    pool = servers.pool()
    await pool.connection(1)
    servers.addresses[1] = AWAY
    assert await pool.send(REQUEST, KEY, to=1) == (AWAY, REQUEST)
    assert servers.connections[0].is_closed


@on_servers
async def test_a_server_that_moves_while_its_connection_is_opened(servers: Servers) -> None:
    servers.delay_s = 1.0
    pool = servers.pool()
    waiting = [asyncio.create_task(pool.connection(1)) for _ in range(2)]
    await asyncio.sleep(0.5)
    servers.addresses[1] = AWAY
    assert (await pool.connection(1)).address == AWAY
    for task in waiting:
        with pytest.raises(NetworkException, match="home:1 has moved"):
            await task
    assert [(each.address, each.is_closed) for each in servers.connections] == [(HOME, True), (AWAY, False)]


@on_servers
async def test_the_connection_to_a_server_that_left_is_closed(servers: Servers) -> None:
    pool = servers.pool()
    await pool.connection(1)
    del servers.addresses[1]
    with pytest.raises(NetworkException, match="node 1 is not known"):
        await pool.connection(1)
    await pool.connection(2)
    assert servers.connections[0].is_closed


@on_servers
async def test_an_idle_connection_is_closed_when_another_is_opened(servers: Servers) -> None:
    pool = servers.pool(idle_s=100.0)
    await pool.connection(1)
    await asyncio.sleep(100.0)
    await pool.connection(2)
    assert servers.connections[0].is_retired
    await pool.connection(1)
    assert len(servers.opened) == 3


@on_servers
async def test_after_the_end_the_pool_opens_new_connections(servers: Servers) -> None:
    pool = servers.pool()
    await pool.connection(1)
    assert pool.any_open() is not None
    pool.close()
    assert servers.connections[0].is_closed and pool.any_open() is None
    assert await pool.send(REQUEST, KEY, to=1) == (HOME, REQUEST)
