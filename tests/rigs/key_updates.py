"""A client of TLS 1.3 that updates its keys (RFC 8446, section 4.6.3). The module ssl of Python cannot do this."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
import ssl
import struct
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_HASH, _HASH_BYTES, _KEY_BYTES = "sha384", hashlib.sha384().digest_size, 32
_UPDATE = b"\x18\0\0\x01\x01"  # a KeyUpdate that asks the other side to update its keys too
_HANDSHAKE, _DATA = 22, 23


class UpdatingClient:
    """A client on a socket that blocks. After the handshake it encrypts its records itself."""

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
