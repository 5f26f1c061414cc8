"""A server on a real socket for tests of clients and tools. For each API, a function of the test makes the answer.

    with ScriptedServer({ApiKey.METADATA: lambda request, version: MetadataResponse(...)}) as server:
        run(["topics", "--list", "--bootstrap-server", server.address])

The server runs on threads, so that tests can also use code that starts an event loop. If a function returns None, the
connection is closed. The server itself answers ApiVersions, with the APIs of the script.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.codec import decode_request, decode_request_header, encode_response

ScriptedAnswer = Callable[[Any, int], Any]

_SIZE = struct.Struct(">i")

MAX_REQUEST_BYTES = 100 * 1024 * 1024
"""The largest request in bytes, as in Kafka (socket.request.max.bytes). If a client uses TLS, the first bytes of its
handshake look like a larger size, so the server closes the connection.
"""


@dataclass(slots=True)
class ScriptedServer:
    """Answers requests with the functions of `script`. `requests` contains (key, version, message) of all requests in
    the order of their arrival.
    """

    script: Mapping[ApiKey, ScriptedAnswer]
    versions: Mapping[ApiKey, tuple[int, int]] = field(default_factory=dict)
    """The version ranges of APIs that differ from kcli's ranges, to simulate an older broker."""
    requests: list[tuple[ApiKey, int, Any]] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    """The TLS context of the server, or None for a server without TLS."""
    port: int = 0
    _listener: socket.socket | None = None
    _peers: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The address of the server, as host:port."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept, self._listener)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._listener is not None
        for each in (self._listener, *self._peers):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the client has closed the connection
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._peers):
            each.close()

    def sent(self, key: ApiKey) -> list[Any]:
        """Returns the requests that the server has received for one API."""
        return [message for each, _, message in self.requests if each is key]

    def _start(self, work: Callable[[socket.socket], None], on: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(on,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            self._peers.append(peer)
            self._start(self._serve, peer)

    def _serve(self, peer: socket.socket) -> None:
        if self.tls is not None:
            peer = self.tls.wrap_socket(peer, server_side=True, do_handshake_on_connect=False)
            self._peers.append(peer)
            try:
                peer.do_handshake()
            except OSError:
                _drain(peer)
                return
        with peer.makefile("rb") as incoming:
            try:
                while len(head := incoming.read(_SIZE.size)) == _SIZE.size:
                    (size,) = _SIZE.unpack(head)
                    if size > MAX_REQUEST_BYTES:
                        break
                    response = self._answer(incoming.read(size))
                    if response is None:
                        break
                    peer.sendall(response)
                peer.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def _answer(self, frame: bytes) -> bytes | None:
        header = decode_request_header(frame)
        key, version = ApiKey(header.api_key), header.api_version
        message = decode_request(key, version, frame, header.body_offset)
        self.requests.append((key, version, message))
        response = self._api_versions() if key is ApiKey.API_VERSIONS else self.script[key](message, version)
        if response is None:
            return None
        if isinstance(response, bytes):
            return response
        return encode_response(response, key, version, header.correlation_id)

    def _api_versions(self) -> ApiVersionsResponse:
        ranges = {
            key: self.versions.get(key, (API[key].min_version, API[key].max_version))
            for key in (ApiKey.API_VERSIONS, *self.script)
        }
        return ApiVersionsResponse(
            api_keys=tuple(
                ApiVersion(api_key=int(key), min_version=least, max_version=most)
                for key, (least, most) in ranges.items()
            )
        )


def _drain(peer: socket.socket) -> None:
    """Reads until the client closes the connection. If the server closed it first, the client could lose the alert that
    reports why a TLS handshake failed.
    """
    try:
        while socket.socket.recv(peer, 4096):
            pass
    except OSError:
        return
