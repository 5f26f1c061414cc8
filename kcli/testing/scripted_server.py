"""A server on a real socket that answers every API as the test says: for clients and tools, without a broker.

    with ScriptedServer({ApiKey.METADATA: lambda request, version: MetadataResponse(...)}) as server:
        run(["topics", "--list", "--bootstrap-server", server.address])

It runs on a thread with an event loop of its own, so that code that starts an event loop can be tested too. An answer
of None closes the connection; ApiVersions is answered from the keys of the script.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from kcli.protocol.api import API, ApiKey
from kcli.protocol.codec import decode_request, decode_request_header, encode_response
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

Answer = Callable[[Any, int], Any]

_SIZE = struct.Struct(">i")


@dataclass(slots=True)
class ScriptedServer:
    """Answers by script; `requests` has every (key, version, message) in order of arrival."""

    script: Mapping[ApiKey, Answer]
    versions: Mapping[ApiKey, tuple[int, int]] = field(default_factory=dict)
    """Narrower version ranges than ours, to play an older broker."""
    requests: list[tuple[ApiKey, int, Any]] = field(default_factory=list)
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None
    _server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def sent(self, key: ApiKey) -> list[Any]:
        """The requests for one API."""
        return [message for each, _, message in self.requests if each is key]

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
                response = self._answer(await reader.readexactly(size))
                if response is None:
                    break
                writer.write(response)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

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
