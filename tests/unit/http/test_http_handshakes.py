"""A handshake that gives way before it has its transport."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from kcli.http.handshakes import Handshakes
from rigs.loops import on_a_loop


class Transport:
    """The transport of an accepted connection."""

    aborted = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("10.0.0.1", 1) if name == "peername" else default

    def write(self, data: bytes) -> None: ...

    def writelines(self, data: list[bytes]) -> None: ...

    def abort(self) -> None:
        self.aborted = True


@on_a_loop
async def test_a_displaced_handshake_closes_its_connection_when_it_gets_one() -> None:
    """A server makes several protocols before the first of them gets its transport."""
    handshakes = Handshakes(lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    protocol: Any = handshakes.protocol(asyncio.Protocol())
    assert protocol.waits_since > 0, "it is not the oldest"
    protocol.abort()
    assert len(handshakes) == 0
    transport: Any = Transport()
    protocol.connection_made(transport)
    assert transport.aborted
    protocol.connection_lost(None)
    await asyncio.sleep(0)
