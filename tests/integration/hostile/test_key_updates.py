"""Clients that update their TLS keys: some updates are normal, a flood closes the connection before it costs much."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kcli.server.network.tls_transport import (
    FIRST_READS_SIZE_BYTES,
    KEY_UPDATE_ANSWERS_MAX_BYTES,
    PLAIN_BYTES_PER_ANSWER_BYTE,
    ServerTls,
)
from rigs.certificates import Certificates
from rigs.data_path import BrokerRig, topic_image
from rigs.loops import PATIENCE_S, until
from rigs.tls import context_of, server_context_of

_HASH, _HASH_BYTES, _KEY_BYTES = "sha384", hashlib.sha384().digest_size, 32
_UPDATE = b"\x18\0\0\x01\x01"  # a KeyUpdate that asks the other side to update its keys too
_HANDSHAKE, _DATA = 22, 23


class UpdatingClient:
    """A client of TLS 1.3 on a socket that blocks. After the handshake it encrypts its records itself, because Python's
    module ssl cannot update keys (RFC 8446, section 4.6.3)."""

    def __init__(self, opened: socket.socket, context: ssl.SSLContext, keys: Path) -> None:
        """Makes the handshake. OpenSSL writes its secrets to the file `keys`."""
        context.keylog_filename = str(keys)
        self._opened = opened
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        is_done = False
        while not is_done:
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                is_done = True
            opened.sendall(self._outgoing.read())
            if not is_done:
                self._incoming.write(opened.recv(65536))
        assert self._tls.cipher() == ("TLS_AES_256_GCM_SHA384", "TLSv1.3", 256)
        (line,) = [
            line for line in keys.read_text().splitlines() if line.startswith("CLIENT_TRAFFIC_SECRET_0")
        ]
        self._secret = bytes.fromhex(line.split()[2])
        self._sent = 0

    def updates(self, count: int) -> bytes:
        """The next records: updates of the keys."""
        return b"".join(self._update() for _ in range(count))

    def data(self, content: bytes) -> bytes:
        """The next record: plain bytes."""
        return self._record(content, _DATA)

    def read(self, size: int) -> bytes:
        """Reads so many plain bytes from the server."""
        found = b""
        while len(found) < size:
            try:
                found += self._tls.read(size - len(found))
            except ssl.SSLWantReadError:
                received = self._opened.recv(65536)
                assert received, "the server has closed the connection"
                self._incoming.write(received)
        return found

    def _update(self) -> bytes:
        record = self._record(_UPDATE, _HANDSHAKE)
        self._secret, self._sent = self._derived("traffic upd", _HASH_BYTES), 0
        return record

    def _record(self, content: bytes, kind: int) -> bytes:
        key, iv = self._derived("key", _KEY_BYTES), self._derived("iv", 12)
        nonce = (int.from_bytes(iv) ^ self._sent).to_bytes(12)
        self._sent += 1
        plain = content + bytes((kind,))
        header = struct.pack(">BHH", _DATA, 0x0303, len(plain) + 16)
        return header + AESGCM(key).encrypt(nonce, plain, header)

    def _derived(self, label: str, size: int) -> bytes:
        """HKDF-Expand-Label of RFC 8446, section 7.1, for results of at most one hash."""
        name = b"tls13 " + label.encode()
        info = struct.pack(">HB", size, len(name)) + name + b"\0"
        return hmac.digest(self._secret, info + b"\x01", _HASH)[:size]


UPDATE_BYTES = 27
FREE_COUNT = KEY_UPDATE_ANSWERS_MAX_BYTES // UPDATE_BYTES
# ApiVersions version 0 with correlation id 7 and an empty client id.
REQUEST = struct.pack(">ihhih", 10, 18, 0, 7, 0)


def run(
    directory: Path, certificates: Certificates, play: Callable[[UpdatingClient, socket.socket], None]
) -> None:
    """Plays a client in a thread. Returns when the broker has closed all connections."""

    def client(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as opened:
            play(UpdatingClient(opened, context_of(certificates), directory / "keys"), opened)

    async def main() -> None:
        rig = BrokerRig(directory, topic_image("t", 1))
        rig.tls, rig.client_tls = ServerTls(server_context_of(certificates)), context_of(certificates)
        async with rig:
            await asyncio.wait_for(asyncio.to_thread(client, rig.listener.port), 2 * PATIENCE_S)
            await until(lambda: not rig.sockets.connections)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def ask(client: UpdatingClient, opened: socket.socket) -> None:
    opened.sendall(client.data(REQUEST))
    (size,) = struct.unpack(">i", client.read(4))
    assert client.read(size)[:4] == struct.pack(">i", 7)


def received_until_closed(opened: socket.socket) -> int:
    """The number of bytes that the broker sends before it closes the connection."""
    count = 0
    try:
        while received := opened.recv(65536):
            count += len(received)
    except ConnectionResetError:
        pass
    return count


def test_some_key_updates_are_answered_and_change_nothing(tmp_path: Path, certificates: Certificates) -> None:
    def play(client: UpdatingClient, opened: socket.socket) -> None:
        ask(client, opened)
        opened.sendall(client.updates(FREE_COUNT))
        ask(client, opened)
        # Enough plain bytes pay for the same number of key updates again: a request with a long client id.
        length = 30_000
        for _ in range(PLAIN_BYTES_PER_ANSWER_BYTE * KEY_UPDATE_ANSWERS_MAX_BYTES // length + 1):
            request = struct.pack(">ihhih", 10 + length, 18, 0, 7, length) + b"c" * length
            for at in range(0, len(request), 16_000):
                opened.sendall(client.data(request[at : at + 16_000]))
            (size,) = struct.unpack(">i", client.read(4))
            client.read(size)
        opened.sendall(client.updates(FREE_COUNT))
        ask(client, opened)

    run(tmp_path, certificates, play)


def test_a_flood_of_key_updates_closes_the_connection(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    def play(client: UpdatingClient, opened: socket.socket) -> None:
        flood = client.updates(20_000)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            opened.sendall(flood)
        assert received_until_closed(opened) <= FIRST_READS_SIZE_BYTES

    with caplog.at_level(logging.WARNING):
        run(tmp_path, certificates, play)
    assert ["too many key updates" in each for each in caplog.messages] == [True]
