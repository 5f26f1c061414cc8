"""A relay on the loopback interface, for clients that do not support the login of the cluster.

librdkafka has neither Kerberos nor logins with delegation tokens. So a tool starts this relay in a thread. librdkafka
connects to the relay, and the relay connects to the brokers with kcli's own login. The relay has one port for each
broker. If an answer contains addresses of brokers, the relay replaces them by its own ports. Other users of the machine
can reach the ports too. So each connection must log in to the relay with PLAIN and a secret that only this process has.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import struct
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from kcli.client.config import ClientConfig
from kcli.client.login import HANDSHAKE_VERSION, log_in
from kcli.errors import ErrorCode, KcliError, ProtocolError
from kcli.model.addresses import Address
from kcli.protocol.messages.api_versions import ApiVersionsResponse
from kcli.protocol.messages.find_coordinator import FindCoordinatorResponse
from kcli.protocol.messages.metadata import MetadataResponse
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import (
    Message,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from kcli.runtime.hosts import host_is_checked
from kcli.security.client import ClientSecurity

USER = "kcli"
"""The user name for a login to the relay. The password is a secret that each process makes."""

HOST = "127.0.0.1"
FRAME_BYTES_MAX = 1 << 30
"""The largest frame. The answer to a consumer's Fetch may have tens of megabytes."""

SECRET_BYTES = 32
AUTHENTICATE_VERSION = 1
"""The version of SaslAuthenticate to a broker. Its answer has the lifetime of the session. Brokers since 2.2 support
it."""

# The answers of later versions contain addresses of brokers beside the records (KIP-951).
_VERSIONS_MAX = {ApiKey.PRODUCE: 9, ApiKey.FETCH: 15}
_WITH_ADDRESSES = (ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.API_VERSIONS)
_BEFORE_LOGIN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_SIZE = struct.Struct(">i")
_CORRELATION = struct.Struct(">i")


@dataclass(slots=True)
class Relay:
    """The ports of the relay, by the addresses of the brokers. `start` runs the relay until the process ends."""

    config: ClientConfig
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES), repr=False)
    _ports: dict[Address, int] = field(default_factory=dict)
    _servers: list[asyncio.Server] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the relay for the servers of the bootstrap list."""
        return ",".join(f"{HOST}:{self._ports[server]}" for server in self.config.servers)

    def start(self) -> None:
        """Starts the relay in a thread, and returns when its ports are open. Raises OSError if a port cannot be
        opened."""
        opened: Future[None] = Future()
        threading.Thread(target=self._run, args=(opened,), daemon=True).start()
        opened.result()

    def _run(self, opened: Future[None]) -> None:
        try:
            asyncio.run(self._serve(opened))
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)  # the caller of `start` gets it

    async def _serve(self, opened: Future[None]) -> None:
        for address in self.config.servers:
            await self._port(address)
        opened.set_result(None)
        await asyncio.Event().wait()

    async def _port(self, address: Address) -> int:
        """Returns the port of the relay for a broker."""
        if address not in self._ports:
            server = await asyncio.start_server(self._accepts(address), HOST, 0)
            self._servers.append(server)
            self._ports[address] = server.sockets[0].getsockname()[1]
        return self._ports[address]

    def _accepts(
        self, address: Address
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with asyncio.timeout(self.config.connection_setup_timeout_ms / 1000):
                    upstream = await _connected(address, self.config)
                try:
                    await self._relay(_Link(reader, writer), upstream, address.host)
                finally:
                    upstream.writer.close()
            except* (OSError, EOFError, KcliError):
                pass  # one side has closed its connection, and the client connects again
            finally:
                writer.close()

        return accept

    async def _relay(self, client: _Link, broker: _Link, host: str) -> None:
        """Relays requests and answers until one side closes its connection.

        The relay logs in to the broker only after the client has sent the correct secret. Without this order, another
        process of this machine could make the relay request Kerberos tickets and tokens.
        """
        waiting: dict[int, tuple[ApiKey, int]] = {}
        async with asyncio.timeout(self.config.connection_setup_timeout_ms / 1000):
            welcome = await self._client_logs_in(client, broker)
            if welcome is None:
                return
            await _log_in(broker, self.config, host)
            await client.send(welcome)
        async with asyncio.TaskGroup() as group:
            answers = group.create_task(self._relay_answers(client, broker, waiting))
            try:
                while True:
                    frame = await client.receive()
                    header = decode_request_header(frame)
                    if header.api_key in _WITH_ADDRESSES:
                        waiting[header.correlation_id] = ApiKey(header.api_key), header.api_version
                    await broker.send(frame)
            finally:
                answers.cancel()

    async def _client_logs_in(self, client: _Link, broker: _Link) -> bytes | None:
        """Answers the login of the client, except its last message. Returns the answer to the last message, or None if
        the client sends a wrong secret. Before the login, any request except ApiVersions ends the connection.
        """
        while True:
            frame = await client.receive()
            header = decode_request_header(frame)
            if header.api_key not in _BEFORE_LOGIN:
                return None
            key, version, correlation = ApiKey(header.api_key), header.api_version, header.correlation_id
            match key:
                case ApiKey.API_VERSIONS:
                    await broker.send(frame)
                    await client.send(await self._changed(await broker.receive(), key, version))
                case ApiKey.SASL_HANDSHAKE:
                    answer = SaslHandshakeResponse(mechanisms=("PLAIN",))
                    client.writer.write(encode_response(answer, key, version, correlation))
                case ApiKey.SASL_AUTHENTICATE:
                    request = decode_request(key, version, frame, header.body_offset)
                    assert isinstance(request, SaslAuthenticateRequest)
                    expected = f"\0{USER}\0{self.secret}".encode()
                    if not hmac.compare_digest(request.auth_bytes, expected):
                        return None
                    return encode_response(SaslAuthenticateResponse(), key, version, correlation)[
                        _SIZE.size :
                    ]
                case _:
                    return None

    async def _relay_answers(
        self, client: _Link, broker: _Link, waiting: dict[int, tuple[ApiKey, int]]
    ) -> None:
        while True:
            frame = await broker.receive()
            (correlation,) = _CORRELATION.unpack_from(frame)
            if correlation in waiting:
                frame = await self._changed(frame, *waiting.pop(correlation))
            await client.send(frame)

    async def _changed(self, frame: bytes, key: ApiKey, version: int) -> bytes:
        """Replaces the addresses of the brokers in an answer by the addresses of the relay."""
        correlation, answer = decode_response(key, version, frame)
        changed: Message = answer
        match answer:
            case MetadataResponse():
                brokers = [
                    replace(broker, host=HOST, port=await self._port(Address(broker.host, broker.port)))
                    for broker in answer.brokers
                ]
                changed = replace(answer, brokers=tuple(brokers))
            case FindCoordinatorResponse():
                coordinators = [
                    replace(
                        coordinator,
                        host=HOST,
                        port=await self._port(Address(coordinator.host, coordinator.port)),
                    )
                    if coordinator.error_code is ErrorCode.NONE
                    else coordinator
                    for coordinator in answer.coordinators
                ]
                changed = replace(answer, coordinators=tuple(coordinators))
                if answer.host:
                    port = await self._port(Address(answer.host, answer.port))
                    changed = replace(changed, host=HOST, port=port)
            case ApiVersionsResponse():
                ranges = [
                    replace(
                        api_key, max_version=min(api_key.max_version, _VERSIONS_MAX[ApiKey(api_key.api_key)])
                    )
                    if api_key.api_key in _VERSIONS_MAX
                    else api_key
                    for api_key in answer.api_keys
                ]
                changed = replace(answer, api_keys=tuple(ranges))
        return encode_response(changed, key, version, correlation)[_SIZE.size :]


@dataclass(frozen=True, slots=True)
class _Link:
    """One connection. Requests and answers are bytes without their size prefix here."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self) -> bytes:
        (size,) = _SIZE.unpack(await self.reader.readexactly(_SIZE.size))
        if not _CORRELATION.size <= size <= FRAME_BYTES_MAX:
            raise ProtocolError(f"a frame of {size} bytes")
        return await self.reader.readexactly(size)

    async def send(self, frame: bytes) -> None:
        self.writer.write(_SIZE.pack(len(frame)))
        self.writer.write(frame)
        await self.writer.drain()


async def _connected(address: Address, config: ClientConfig) -> _Link:
    """Connects to a broker, with TLS if the settings require TLS."""
    security = config.security or ClientSecurity()
    tls = security.tls.context() if security.tls is not None else None
    with host_is_checked(address.host):
        return _Link(*await asyncio.open_connection(address.host, address.port, ssl=tls))


async def _log_in(link: _Link, config: ClientConfig, host: str) -> None:
    """Logs in to a broker."""

    async def ask(message: Message, key: ApiKey) -> Message:
        version = HANDSHAKE_VERSION if key is ApiKey.SASL_HANDSHAKE else AUTHENTICATE_VERSION
        link.writer.write(encode_request(message, key, version, 1, config.client_id))
        return decode_response(key, version, await link.receive())[1]

    if config.security is not None and config.security.sasl is not None:
        await log_in(ask, config.security.sasl, host)
