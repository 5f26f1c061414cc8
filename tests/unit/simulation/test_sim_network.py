"""The simulated network: streams in order, in pieces, with flow control, that end as TCP's do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from simulation.runtime.loop import SimLoop, SimProcess, simulate
from simulation.runtime.network import WINDOW_BYTES, SimNetwork, SimTransport, Weather

PORT = 9092
BAD = Weather(spike_chance=0.1, cut_chance=0.9)


class Reader(asyncio.BufferedProtocol):
    """Keeps what comes; `room` is how much it takes at a time."""

    def __init__(self, room: int = 1000) -> None:
        self.received = bytearray()
        self.reads = 0
        self.events: list[str] = []
        self.transport: SimTransport | None = None
        self._buffer = bytearray(room)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimTransport)
        self.transport = transport
        self.events.append("made")

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.reads += 1
        self.received += self._buffer[:nbytes]

    def eof_received(self) -> bool:
        self.events.append("eof")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("reset" if exc else "lost")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


Story = Callable[[SimNetwork, Reader, Reader], Awaitable[None]]


def connected(story: Story, *, seed: int = 1, weather: Weather | None = None) -> None:
    """Runs `story(network, client, server)` on a connection."""

    async def main(loop: SimLoop) -> None:
        network = SimNetwork(loop, random.Random(seed), weather)
        servers: list[Reader] = []

        def accept() -> Reader:
            servers.append(Reader())
            return servers[-1]

        server = await network.host("server").create_server(accept, None, PORT)
        _, client = await network.host("client").create_connection(Reader, "server", PORT)
        assert isinstance(client, Reader)
        await asyncio.sleep(1)
        await story(network, client, servers[0])
        server.close()
        await server.wait_closed()

    simulate(seed, main)


def transport_of(reader: Reader) -> SimTransport:
    assert reader.transport is not None
    return reader.transport


@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_in_order(seed: int) -> None:
    content = random.Random(seed).randbytes(300_000)

    async def story(network: SimNetwork, client: Reader, server: Reader) -> None:
        at = 0
        while at < len(content):
            size = network.rng.randint(1, 40_000)
            transport_of(client).write(memoryview(content)[at : at + size])
            at += size
            await asyncio.sleep(network.rng.random() * 0.01)
        await asyncio.sleep(60)
        assert bytes(server.received) == content
        assert server.reads > len(content) // 1000

    connected(story, seed=seed, weather=BAD)


def test_a_reader_that_pauses_makes_the_writer_pause() -> None:
    async def story(network: SimNetwork, client: Reader, server: Reader) -> None:
        transport_of(server).pause_reading()
        assert not transport_of(server).is_reading()
        transport_of(client).set_write_buffer_limits(high=1000)
        assert transport_of(client).get_write_buffer_limits() == (250, 1000)
        transport_of(client).write(b"x" * (WINDOW_BYTES + 5000))
        await asyncio.sleep(10)
        assert client.events == ["made", "pause"]
        assert transport_of(client).get_write_buffer_size() == 5000
        assert not server.received
        transport_of(server).resume_reading()
        await asyncio.sleep(10)
        assert client.events == ["made", "pause", "resume"]
        assert len(server.received) == WINDOW_BYTES + 5000

    connected(story)


def test_a_close_is_heard_after_the_last_byte() -> None:
    async def story(network: SimNetwork, client: Reader, server: Reader) -> None:
        transport_of(client).write(b"goodbye" * 30_000)
        transport_of(client).close()
        transport_of(client).write(b"too late")
        assert transport_of(client).is_closing()
        assert client.events == ["made", "pause"]
        await asyncio.sleep(10)
        assert bytes(server.received) == b"goodbye" * 30_000
        assert server.events == ["made", "eof", "lost"]
        assert client.events == ["made", "pause", "resume", "lost"]
        assert not network.transports

    connected(story, weather=BAD)


def test_an_abort_drops_what_was_not_sent() -> None:
    async def story(network: SimNetwork, client: Reader, server: Reader) -> None:
        transport_of(client).write(b"x" * (WINDOW_BYTES + 5000))
        transport_of(client).abort()
        await asyncio.sleep(10)
        assert len(server.received) <= WINDOW_BYTES
        assert server.events == ["made", "eof", "lost"]
        assert client.events[-1] == "lost"

    connected(story)


def test_a_cut_is_heard_on_both_sides() -> None:
    async def story(network: SimNetwork, client: Reader, server: Reader) -> None:
        assert network.cut(1.0) == 1
        await asyncio.sleep(1)
        assert client.events == server.events == ["made", "reset"]

    connected(story)


@pytest.mark.parametrize("silent", [False, True])
def test_a_dead_process_is_heard_of_and_hears_nothing(silent: bool) -> None:
    async def main(loop: SimLoop) -> None:
        network = SimNetwork(loop, random.Random(1))
        server = Reader()
        process = SimProcess("server")
        await process.spawn(network.host("server").create_server(lambda: server, None, PORT))
        _, client = await network.host("client").create_connection(Reader, "server", PORT)
        assert isinstance(client, Reader)
        await asyncio.sleep(1)
        transport_of(client).write(b"x")
        loop.kill(process)
        network.process_died(process, silent=silent)
        await asyncio.sleep(0.01)
        assert client.events == (["made"] if silent else ["made", "reset"])
        await asyncio.sleep(10)
        assert client.events == ["made", "reset"]
        assert server.events == ["made"]
        assert not server.received
        with pytest.raises(ConnectionRefusedError):
            await network.host("client").create_connection(Reader, "server", PORT)

    simulate(3, main)


def test_each_host_has_its_own_addresses_and_ports() -> None:
    async def main(loop: SimLoop) -> None:
        network = SimNetwork(loop, random.Random(1))
        host = network.host("server")
        chosen = await host.create_server(Reader, "localhost", 0)
        port = chosen.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        assert port > 0
        with pytest.raises(OSError, match="in use"):
            await host.create_server(Reader, "server", port)
        with pytest.raises(OSError, match="not an address"):
            await host.create_server(Reader, "elsewhere", 0)
        transport, _ = await host.create_connection(Reader, "localhost", port)
        assert transport.get_extra_info("peername") == (network.ip_address("server"), port)
        assert network.ip_address("server") != network.ip_address("client")
        assert transport.get_extra_info("socket") is None

    simulate(1, main)


def test_a_cut_link_lets_nothing_through_in_one_direction_until_it_is_repaired() -> None:
    async def story(network: SimNetwork, client: Reader, server: Reader) -> None:
        assert client.transport is not None and server.transport is not None
        network.cut_link("client", "server")
        client.transport.write(b"first ")
        server.transport.write(b"heard")
        await asyncio.sleep(5)
        client.transport.write(b"second")
        client.transport.close()
        await asyncio.sleep(5)
        assert (bytes(client.received), bytes(server.received)) == (b"heard", b"")
        assert server.events == ["made"]
        network.mend_links()
        await asyncio.sleep(1)
        assert bytes(server.received) == b"first second"
        assert server.events == ["made", "eof", "lost"]

    connected(story, weather=BAD)


def test_over_a_cut_link_no_connection_is_made() -> None:
    async def main(loop: SimLoop) -> None:
        network = SimNetwork(loop, random.Random(1))
        await network.host("server").create_server(Reader, None, PORT)
        for source, target in (("client", "server"), ("server", "client")):
            network.cut_link(source, target)
            connecting = asyncio.ensure_future(
                network.host("client").create_connection(Reader, "server", PORT)
            )
            await asyncio.sleep(10)
            assert not connecting.done()
            network.mend_links()
            await asyncio.wait_for(connecting, 2)
        network.cut_link("client", "server")
        with pytest.raises(TimeoutError):
            await network.host("client").create_connection(Reader, "server", PORT)

    simulate(1, main)


def test_the_death_of_a_process_behind_a_cut_link_is_noticed_when_the_link_is_repaired() -> None:
    async def main(loop: SimLoop) -> None:
        network = SimNetwork(loop, random.Random(1))
        servers: list[Reader] = []

        def accept() -> Reader:
            servers.append(Reader())
            return servers[-1]

        async def serve() -> None:
            await network.host("server").create_server(accept, None, PORT)
            await asyncio.sleep(1000)

        process = SimProcess("server")
        process.spawn(serve(), name="serve")
        await asyncio.sleep(0.1)
        _, client = await network.host("client").create_connection(Reader, "server", PORT)
        assert isinstance(client, Reader)
        network.cut_link("server", "client")
        loop.kill(process)
        network.process_died(process)
        await asyncio.sleep(10)
        assert client.events == ["made"]
        network.mend_links()
        await asyncio.sleep(1)
        assert client.events == ["made", "reset"]

    simulate(1, main)


def test_a_slow_link_delays_one_direction_until_it_is_repaired() -> None:
    async def story(network: SimNetwork, client: Reader, server: Reader) -> None:
        network.slow_link("client", "server", 2.0)
        transport_of(client).write(b"slow")
        transport_of(server).write(b"fast")
        await asyncio.sleep(1)
        assert (bytes(client.received), bytes(server.received)) == (b"fast", b"")
        await asyncio.sleep(2)
        assert bytes(server.received) == b"slow"
        network.mend_links()
        transport_of(client).write(b" and fast")
        await asyncio.sleep(1)
        assert bytes(server.received) == b"slow and fast"

    connected(story)
