"""The links between the nodes of a cluster on one machine. A link can be cut in one direction or in both.

Each node advertises ports of this proxy to the other nodes. A connection belongs to the link from its source node to
its target node. To find the source, the proxy looks up the process that has the other end of the connection (Linux:
/proc). While a link is cut, its bytes wait in the proxy and arrive later, as with TCP. A new connection is accepted,
but gets no answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

HOST = "127.0.0.1"
READ_BYTES = 256 * 1024
READY_S = 10.0
# The structures nlmsghdr, inet_diag_req_v2, inet_diag_sockid and inet_diag_msg of Linux.
_HEADER = struct.Struct("=IHHII")
_QUERY = struct.Struct("=BBBBI")
_PORTS = struct.Struct(">HH")
_INTERFACE_AND_COOKIE = bytes(4) + b"\xff" * 8
_INODE, _INODE_AT = struct.Struct("=I"), 84
_NETLINK_SOCK_DIAG, _BY_FAMILY, _IS_REQUEST, _ALL_STATES = 4, 20, 1, 0xFFFFFFFF
UNKNOWN = 0
"""The number that stands for the source of a connection from a tool or another program. A link from this source is
never cut."""


@dataclass(frozen=True, slots=True)
class Route:
    """A port of the proxy, and the node and port to which the proxy forwards its connections."""

    proxy_port: int
    target_port: int
    target: int


class Links:
    """Runs the proxy in its own thread. `pids` returns the process id of each node that runs."""

    def __init__(self, routes: list[Route], pids: Callable[[], Mapping[int, int]]) -> None:
        self._routes, self._pids = routes, pids
        self._gates: dict[tuple[int, int], asyncio.Event] = {}
        self._connections: dict[asyncio.Task[None], tuple[int, int]] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="links", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(READY_S), "the ports of the links cannot be opened"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def cut(self, source: int, target: int) -> None:
        """Stops all bytes from the node `source` to the node `target`, until `mend` is called."""
        self._loop.call_soon_threadsafe(lambda: self._gate(source, target).clear())

    def mend(self, *, resets: bool) -> None:
        """Repairs all links. If `resets` is True, closes the connections over cut links. Otherwise the waiting bytes
        arrive."""
        self._loop.call_soon_threadsafe(self._mend, resets)

    def _mend(self, resets: bool) -> None:
        cut = {link for link, gate in self._gates.items() if not gate.is_set()}
        for task, (source, target) in list(self._connections.items()):
            if resets and ((source, target) in cut or (target, source) in cut):
                task.cancel()
        for gate in self._gates.values():
            gate.set()

    def _gate(self, source: int, target: int) -> asyncio.Event:
        gate = self._gates.get((source, target))
        if gate is None:
            gate = self._gates[source, target] = asyncio.Event()
            gate.set()
        return gate

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        servers = [
            await asyncio.start_server(self._accepting(route), HOST, route.proxy_port)
            for route in self._routes
        ]
        self._ready.set()
        await self._stopping.wait()
        for server in servers:
            server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accepting(
        self, route: Route
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            source = owner_of(writer.get_extra_info("peername")[1], route.proxy_port, self._pids())
            self._connections[task] = (source, route.target)
            try:
                # A cancelled task resets the connection.
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await self._relay(route, source, reader, writer)
            finally:
                writer.transport.abort()
                self._connections.pop(task, None)

        return accept

    async def _relay(
        self, route: Route, source: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        there, back = self._gate(source, route.target), self._gate(route.target, source)
        await there.wait()
        await back.wait()
        far_reader, far_writer = await asyncio.open_connection(HOST, route.target_port)
        try:
            pumps = (
                asyncio.ensure_future(_pump(reader, far_writer, there)),
                asyncio.ensure_future(_pump(far_reader, writer, back)),
            )
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            far_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
    while content := await reader.read(READ_BYTES):
        await gate.wait()
        writer.write(content)
        await writer.drain()
    await gate.wait()


def owner_of(port: int, peer_port: int, pids: Mapping[int, int]) -> int:
    """Returns the node whose process has opened the connection from `port` to `peer_port`, or UNKNOWN."""
    inode = _inode_of(port, peer_port)
    if inode is not None:
        wanted = f"socket:[{inode}]"
        for node, pid in pids.items():
            if wanted in _descriptors(pid):
                return node
    return UNKNOWN


def _inode_of(port: int, peer_port: int) -> int | None:
    """Returns the inode of a connection's socket, or None. Asks the kernel (sock_diag(7)), because a search in
    /proc/net/tcp takes far longer on a machine with many connections."""
    address = socket.inet_aton(HOST) + bytes(12)
    identity = _PORTS.pack(port, peer_port) + 2 * address + _INTERFACE_AND_COOKIE
    body = _QUERY.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + identity
    header = _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _IS_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.send(header + body)
        answer = kernel.recv(READ_BYTES)
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _BY_FAMILY:
        return None  # no such connection
    inode: int = _INODE.unpack_from(answer, _INODE_AT)[0]
    return inode


def _descriptors(pid: int) -> Iterator[str]:
    directory = f"/proc/{pid}/fd"
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            yield os.readlink(f"{directory}/{name}")
