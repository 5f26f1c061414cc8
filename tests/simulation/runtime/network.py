"""A network in memory. The protocol objects are the same as on a real network, but the connections are slow, split data
and break.

Each direction of a connection is a TCP stream. Bytes arrive in order, in pieces of any size, each after a delay. At
most `WINDOW_BYTES` are on the wire or unread. So if a reader pauses, the writer must pause too. A close is reported
after the last byte. An abort is reported immediately, or after the data on the wire. If a machine loses its power, its
peers notice this only when the machine has restarted. A link between two machines can be cut or slow, in one direction
or in both. Data that is sent over a cut link arrives when the link is repaired, because TCP sends it again.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from kcli.model.addresses import Address
from kcli.runtime.network import BACKLOG, ProtocolFactory
from simulation.runtime.loop import SimLoop, SimProcess

# The most bytes in both kernels for one direction of a connection. It is small, so that flow control is tested.
WINDOW_BYTES = 64 * 1024
# asyncio's limit for the write buffer of a transport.
HIGH_WATER_BYTES = 64 * 1024
# The first port that is given to a client or to a server with port 0 (dynamic ports, RFC 6335).
FIRST_FREE_PORT = 49152
# The longest time until peers notice a loss of power. After this time, the machine runs again, and resets connections
# that it does not know.
SILENCE_S = 3.0
MOMENT_S = 1e-6
# While a link is cut, a client tries to connect at the interval CONNECT_RETRY_S. The attempts end with an error after
# CONNECT_LIMIT_S, as on Linux. The clients here have their own shorter limits.
CONNECT_RETRY_S = 0.5
CONNECT_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Weather:
    """The faults of the network."""

    latency_s: float = 0.0005
    spike_chance: float = 0.01
    spike_s: float = 0.2
    cut_chance: float = 0.2
    """The probability that a piece of data is split."""


class SimNetwork:
    """All machines and the wires between them."""

    def __init__(self, loop: SimLoop, rng: random.Random, weather: Weather | None = None) -> None:
        self.loop = loop
        self.rng = rng
        self.weather = weather or Weather()
        self.servers: dict[Address, SimServer] = {}
        self.transports: dict[SimTransport, None] = {}
        self._cuts: dict[tuple[str, str], None] = {}
        self._delays: dict[tuple[str, str], float] = {}
        self._held: list[_Held] = []
        self._numbers: dict[str, int] = {}
        self._connections = 0
        self._next_port = FIRST_FREE_PORT

    def host(self, name: str) -> SimHost:
        return SimHost(self, name)

    def latency(self) -> float:
        weather = self.weather
        if self.rng.random() < weather.spike_chance:
            return self.rng.random() * weather.spike_s
        return weather.latency_s * (0.5 + self.rng.random())

    def piece_size(self, available: int) -> int:
        """Returns how many of the `available` bytes go into the next segment."""
        chance = self.rng.random()
        if chance >= self.weather.cut_chance or available == 1:
            return available
        if chance < self.weather.cut_chance / 4:
            return self.rng.randint(1, min(available, 8))  # splits the size prefix of a frame, or its header
        return self.rng.randint(1, available)

    def ip_address(self, machine: str) -> str:
        """The address of a machine as its peers see it."""
        number = self._numbers.setdefault(machine, len(self._numbers) + 1)
        return f"10.0.{number >> 8}.{number & 0xFF}"

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port - 1

    def connect(self, client: SimHost, factory: ProtocolFactory, server: SimServer) -> SimTransport:
        """Makes both ends of a new connection, and returns the client's end."""
        self._connections += 1
        name = f"c{self._connections}"
        ours, theirs = Address(client.name, self.free_port()), server.address
        near = SimTransport(self, name, factory(), contextvars.copy_context(), ours, theirs, is_client=True)
        context = server.context.copy()
        far = SimTransport(self, name, context.run(server.factory), context, theirs, ours, is_client=False)
        near.peer, far.peer = far, near
        self.loop.note(f"{name} {client.name} connects to {theirs[0]}:{theirs[1]}")
        far.begin()
        near.begin()
        return near

    def cut(self, chance: float) -> int:
        """Resets each connection with probability `chance`. Returns the number of reset connections."""
        doomed = [each for each in self.transports if each.is_client and self.rng.random() < chance]
        for transport in doomed:
            self.loop.note(f"{transport.name} is cut")
            transport.peer.be_reset()
            transport.be_reset()
        return len(doomed)

    def cut_link(self, source: str, target: str) -> None:
        """Lets nothing through from one machine to another. The other direction is another link."""
        self.loop.note(f"the link from {source} to {target} is cut")
        self._cuts[source, target] = None

    def slow_link(self, source: str, target: str, delay_s: float) -> None:
        """Delays everything from one machine to another by `delay_s` seconds. The other direction is another link."""
        self.loop.note(f"the link from {source} to {target} is slow by {delay_s} s")
        self._delays[source, target] = delay_s

    def delay_of(self, source: str, target: str) -> float:
        """The additional delay of a slow link, or 0.0."""
        return self._delays.get((source, target), 0.0)

    def mend_links(self) -> None:
        """Repairs all links. Everything that was sent over cut links arrives now."""
        if not self._cuts and not self._delays:
            return
        self.loop.note("all links are repaired")
        self._cuts.clear()
        self._delays.clear()
        held, self._held = self._held, []
        for sent in held:
            sent.transport.deliver(sent.arrive, *sent.content)

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def hold(self, transport: SimTransport, arrive: Callable[..., None], content: tuple[bytes, ...]) -> None:
        """Keeps something that was sent over a cut link until the link is repaired."""
        self._held.append(_Held(transport, arrive, content))

    def process_died(self, process: SimProcess, *, silent: bool = False) -> None:
        """Closes the sockets of a process.

        If `silent` is True, the machine has lost its power, so the peers notice the end of the connections later.
        """
        for address, server in list(self.servers.items()):
            if server.process is process:
                del self.servers[address]
        for transport in list(self.transports):
            if transport.process is process:
                delay = self.rng.random() * SILENCE_S if silent else self.latency()
                transport.vanish(delay)


@dataclass(frozen=True, slots=True)
class _Held:
    """A piece of data, or the end of a connection, that a cut link does not let through."""

    transport: SimTransport
    arrive: Callable[..., None]
    content: tuple[bytes, ...]


class SimHost:
    """The `Network` of one machine."""

    def __init__(self, network: SimNetwork, name: str) -> None:
        self._network = network
        self.name = name

    async def create_server(
        self,
        protocol_factory: ProtocolFactory,
        host: str | None,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        backlog: int = BACKLOG,
    ) -> asyncio.AbstractServer:
        """Opens a port. `backlog` has no effect, because the simulated queue of new connections never overflows."""
        assert tls is None, "the simulated network has no TLS"
        if host not in (None, self.name, "localhost"):
            raise OSError(99, f"{host} is not an address of {self.name}")
        address = Address(self.name, port or self._network.free_port())
        if address in self._network.servers:
            raise OSError(98, f"{address} is in use")
        server = self._network.servers[address] = SimServer(self._network, protocol_factory, address)
        return server

    async def create_connection(
        self, protocol_factory: ProtocolFactory, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        assert tls is None, "the simulated network has no TLS"
        address = Address(self.name if host == "localhost" else host, port)
        await asyncio.sleep(self._network.latency())
        await self._reach(address[0])
        server = self._network.servers.get(address)
        if server is None:
            await asyncio.sleep(self._network.latency())
            raise ConnectionRefusedError(111, f"no server listens on {host}:{port}")
        transport = self._network.connect(self, protocol_factory, server)
        try:
            await asyncio.sleep(self._network.latency())
        except asyncio.CancelledError:
            transport.abort()  # as a real loop does
            raise
        return transport, transport.get_protocol()

    async def _reach(self, machine: str) -> None:
        """Waits while the link to a machine, or the link back, is cut. Raises OSError after a long time."""
        network = self._network
        gives_up_at = network.loop.time() + CONNECT_LIMIT_S
        while network.is_cut(self.name, machine) or network.is_cut(machine, self.name):
            if network.loop.time() >= gives_up_at:
                raise TimeoutError(110, f"{machine} does not answer")
            await asyncio.sleep(CONNECT_RETRY_S)


class SimServer(asyncio.AbstractServer):
    """A listening port.

    The object is also its own socket (`sockets[0]`), because callers use only `getsockname` of a socket.
    """

    def __init__(self, network: SimNetwork, factory: ProtocolFactory, address: Address) -> None:
        self._network = network
        self.factory = factory
        self.address = address
        self.context = contextvars.copy_context()
        self.process = SimProcess.current()

    @property
    def sockets(self) -> tuple[SimServer, ...]:
        return (self,)

    def getsockname(self) -> Address:
        return self.address

    def close(self) -> None:
        if self._network.servers.get(self.address) is self:
            del self._network.servers[self.address]

    def is_serving(self) -> bool:
        return self._network.servers.get(self.address) is self

    async def wait_closed(self) -> None:
        assert not self.is_serving(), "closed first"

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    async def start_serving(self) -> None:
        """Does nothing: the server accepts connections from the beginning."""

    async def serve_forever(self) -> None:
        await self._network.loop.create_future()


class SimTransport(asyncio.Transport):
    """One end of a connection. `peer` is the other end."""

    peer: SimTransport

    def __init__(
        self,
        network: SimNetwork,
        name: str,
        protocol: asyncio.BaseProtocol,
        context: contextvars.Context,
        ours: Address,
        theirs: Address,
        *,
        is_client: bool,
    ) -> None:
        peer = (network.ip_address(theirs[0]), theirs[1])
        super().__init__({"sockname": ours, "peername": peer})
        self.name = name
        self.machine = ours[0]
        self.is_client = is_client
        self.process = context.run(SimProcess.current)
        self._network = network
        self._loop = network.loop
        self._protocol = protocol
        self._context = context
        # For sending: the data that the kernel has not accepted yet, and the arrival time of the last piece on the
        # wire.
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._last_arrival = 0.0
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._writing_paused = False
        # For receiving: the number of bytes on the wire, and the unread data in the kernel.
        self._under_way_bytes = 0
        self._unread = bytearray()
        self._ended = False  # whether the peer has closed the connection
        self._reading = True
        self._read_is_due = False
        self._closing = False
        self._gone = False

    def begin(self) -> None:
        self._network.transports[self] = None
        self._soon(self._protocol.connection_made, self)
        self._soon(self._read_if_due)

    # asyncio.Transport.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._gone or not data:
            return
        self._unsent.append(bytes(data))
        self._unsent_bytes += len(data)
        self._push()
        self._pause_above_high_water()

    def _pause_above_high_water(self) -> None:
        if self._unsent_bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            cast(asyncio.Protocol, self._protocol).pause_writing()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._unread.clear()
        if not self._unsent_bytes:
            self._soon(self._finish, None)

    def abort(self) -> None:
        if self._gone:
            return
        self._closing = True
        self._forget()
        self._soon(self._finish, None)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._closing:
            self._reading = True
            self._read_soon()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low
        self._pause_above_high_water()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def can_write_eof(self) -> bool:
        return False

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    # Sending.

    def _push(self) -> None:
        """Sends as much data as the window has room for."""
        while self._unsent_bytes and not self._gone:
            room = WINDOW_BYTES - self.peer._under_way_bytes - len(self.peer._unread)
            if room <= 0:
                break
            piece = self._take(self._network.piece_size(min(room, self._unsent_bytes)))
            self.peer._under_way_bytes += len(piece)
            self._send(self.peer._arrive, piece)
        if self._writing_paused and self._unsent_bytes <= self._low and not self._gone:
            self._writing_paused = False
            self._soon(cast(asyncio.Protocol, self._protocol).resume_writing)
        if self._closing and not self._unsent_bytes and not self._gone:
            self._soon(self._finish, None)

    def _take(self, size: int) -> bytes:
        first = self._unsent.popleft()
        while len(first) < size:
            first += self._unsent.popleft()
        if len(first) > size:
            self._unsent.appendleft(first[size:])
        self._unsent_bytes -= size
        return first[:size]

    def _send(self, arrive: Callable[..., None], *content: bytes) -> None:
        """Sends data, or the end of the connection, to the peer. The peer gets it after everything that was sent
        before."""
        if self._network.is_cut(self.machine, self.peer.machine):
            self._network.hold(self, arrive, content)
        else:
            self.deliver(arrive, *content)

    def deliver(self, arrive: Callable[..., None], *content: bytes) -> None:
        # Each delivery is slightly later than the one before, because a loop does not keep the order of timers with the
        # same time.
        delay = self._network.latency() + self._network.delay_of(self.machine, self.peer.machine)
        arrival = max(self._last_arrival + MOMENT_S, self._loop.time() + delay)
        self._last_arrival = arrival
        self._loop.call_at(arrival, arrive, *content, context=self.peer._context)

    # Receiving.

    def _arrive(self, piece: bytes) -> None:
        self._under_way_bytes -= len(piece)
        if self._gone:
            self._send(self.peer.be_reset)  # the kernel resets a connection whose socket is closed
            return
        if self._closing:
            return
        self._unread += piece
        self._read_soon()

    def _arrive_end(self) -> None:
        self._ended = True
        self._read_soon()

    def _read_soon(self) -> None:
        if self.is_reading() and not self._read_is_due and (self._unread or self._ended):
            self._read_is_due = True
            self._soon(self._read_if_due)

    def _read_if_due(self) -> None:
        """Does one read, as large as the protocol's buffer. The next read is done in another iteration of the event
        loop."""
        self._read_is_due = False
        if not self.is_reading():
            return
        if self._unread:
            self._feed()
            if self.peer._unsent_bytes:
                self._send(self.peer._push)
            self._read_soon()
        elif self._ended and not cast(asyncio.Protocol, self._protocol).eof_received():
            self.close()

    def _feed(self) -> None:
        protocol, unread = self._protocol, self._unread
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(cast(memoryview, protocol.get_buffer(len(unread))))
            assert len(buffer), "a protocol gave an empty buffer to read into"
            size = min(len(buffer), len(unread))
            buffer[:size] = unread[:size]
            del unread[:size]
            self._note_read(size)
            protocol.buffer_updated(size)
        else:
            piece = bytes(unread)
            unread.clear()
            self._note_read(len(piece))
            cast(asyncio.Protocol, protocol).data_received(piece)

    def _note_read(self, size: int) -> None:
        self._loop.note(f"{self.name} {'client' if self.is_client else 'server'} reads {size}", keep=False)

    # The end.

    def _finish(self, error: Exception | None) -> None:
        if self._gone:
            return
        self._leave()
        self._send(self.peer._arrive_end)
        self._protocol.connection_lost(error)

    def be_reset(self) -> None:
        """Resets this end, because the peer or the network reports that the connection does not exist."""
        if not self._gone:
            self._leave()
            self._forget()
            self._soon(self._protocol.connection_lost, ConnectionResetError(104, "reset by peer"))

    def vanish(self, delay: float) -> None:
        """Ends this side of a connection, because its process is dead. The peer notices the end after `delay`
        seconds."""
        self._leave()
        self._forget()
        peer = self.peer
        if peer._gone:
            return
        if self._network.is_cut(self.machine, peer.machine):
            self._network.hold(self, peer.be_reset, ())
        else:
            self._loop.call_later(delay, peer.be_reset, context=peer._context)

    def _leave(self) -> None:
        self._gone = self._closing = True
        self._network.transports.pop(self, None)

    def _forget(self) -> None:
        self._unsent.clear()
        self._unsent_bytes = 0
        self._unread.clear()

    def _soon(self, callback: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon(callback, *arguments, context=self._context)
