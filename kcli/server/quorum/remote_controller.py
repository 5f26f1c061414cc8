"""Requests from this node to the active controller in another process.

A connection has one request in flight, and the next requests wait in order. If the controller is no longer active, the
request is sent again to the new active controller. If the controller closes the connection or does not answer, the
request is sent again after the waiting requests. So a caller who needs a fixed order must wait for each answer. The
queue needs no limit, because each connection of a client has at most one request in the queue.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.client.pool import Pool
from kcli.controller.api import OWN_REQUEST, Client, ControllerApi, ControllerRequestContext
from kcli.errors import (
    ErrorCode,
    NetworkException,
    ProtocolError,
    TimeoutException,
    UnknownServerException,
    UnsupportedVersionException,
    error_for,
)
from kcli.model.addresses import Address
from kcli.model.connection_counts import ConnectionCounts
from kcli.model.observations import Observations
from kcli.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.packing import INT32
from kcli.runtime.network import Network
from kcli.security.principal import Principal
from kcli.security.principal_bytes import encode_principal
from kcli.server.network.links import Secure, open_link, plain_text

if TYPE_CHECKING:
    from kcli.client.connection import Connection

_log = logging.getLogger("kcli.server.NodeToControllerChannelManager")

Q = TypeVar("Q")
R = TypeVar("R")

ApiRanges = Mapping[int, tuple[int, int]]
"""The lowest and the highest supported version of each API."""

# The pause while no controller is known. Kafka asks the quorum at the same interval.
UNKNOWN_CONTROLLER_PAUSE_S = 0.1
# The pause before a new connection (reconnect.backoff.ms of Kafka's clients).
RECONNECT_BACKOFF_S = 0.05

OPENING_MIN_S = 2.0
"""The shortest time limit for opening a connection, with its TLS handshake and its login. The time limit of a heartbeat
may be shorter, and with that limit a slow node would never get a connection."""

FORWARDING_LIMIT_S = 60.0
"""The time limit of forwarded requests and of allocations of producer ids, as in Kafka."""
ASSIGNMENTS_LIMIT_S = 60.0
"""The time limit of directory assignments, as in Kafka."""
REGISTRATION_LIMIT_S = 5.0
"""The time limit of the registration of a controller, as in Kafka."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request that waits for its answer. `message` makes the request only when the connection is open, because the
    frame inside an Envelope depends on the versions that the server supports. `since` is the time at which the time
    limit begins.
    """

    key: ApiKey
    message: Callable[[Connection], object]
    answer: asyncio.Future[Any]
    since: float


class RemoteController:
    """The active controller, over the network.

    `find` returns the address of the active controller, or None if this node knows of no active controller. A request
    older than `limit_s` is not sent again (None: no limit). If a server does not answer for `socket_timeout_s`, the
    connection is closed. `secure` has the security of the controller listener.
    """

    def __init__(
        self,
        network: Network,
        find: Callable[[], Address | None],
        *,
        client_id: str,
        limit_s: float | None,
        socket_timeout_s: float,
        secure: Secure = plain_text,
    ) -> None:
        self._find = find
        self.limit_s = limit_s
        self._timeout_s = socket_timeout_s if limit_s is None else min(socket_timeout_s, limit_s)
        opening_s = min(socket_timeout_s, max(self._timeout_s, OPENING_MIN_S))
        self._queue: OrderedDict[_Request, None] = OrderedDict()
        self._sender: asyncio.Task[None] | None = None
        self._address: Address | None = None
        """The address of the connection, if there is one."""
        self._recorded: Address | None = None  # the last controller that a log line named
        self._trouble = ""
        self.counts = ConnectionCounts()
        self._pool = Pool(
            lambda address: open_link(network, address, client_id, opening_s, secure, self.counts),
            request_timeout_s=self._timeout_s,
        )
        self.queued_ms = Observations()
        self.remote_ms = Observations()
        """The times from the sending of a request to its answer. `queued_ms` has the times that requests waited in the
        queue."""
        self.versions: ApiRanges = {}
        """The API versions of the last controller. Empty before the first connection."""

    async def send(
        self,
        api: ControllerApi[Q, R],
        request: Q,
        context: ControllerRequestContext = OWN_REQUEST,
        *,
        since: float | None = None,
    ) -> R:
        """Returns the response. Raises KafkaError for a top-level error, and TimeoutException if no controller answers.

        `since` is the time of the loop at which the time limit begins, or None for the time of this call. A request on
        behalf of a client goes in an Envelope, so that the controller checks the client's permissions.
        """
        if context.client is not None:
            response: Any = await self._send_for(context.client, api.key, request, since)
        else:
            response = await self._ask(api.key, lambda _connection: request, since)
        code = getattr(response, "error_code", ErrorCode.NONE)
        if code is not ErrorCode.NONE:
            raise error_for(code, getattr(response, "error_message", None))
        answer: R = response
        return answer

    async def forward(self, frame: bytes, principal: Principal, host: str) -> bytes:
        """Sends the frame of a client in an Envelope. Returns the response frame, without size prefix.

        Raises UnsupportedVersionException if the controller cannot read the request. If the controller refuses the
        Envelope for another reason, raises UnknownServerException, because the client did not cause the error.
        """
        envelope = _envelope(frame, principal, host)
        return _opened(await self._ask(ApiKey.ENVELOPE, lambda _connection: envelope))

    @property
    def queue_length(self) -> int:
        """The number of requests without an answer."""
        return len(self._queue)

    async def stop(self) -> None:
        """Cancels the requests without an answer, and closes the connection."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        for request in self._queue:
            request.answer.cancel()
        self._queue.clear()
        self._pool.close()

    async def _send_for(self, client: Client, key: ApiKey, request: object, since: float | None) -> Any:
        """Sends a request for a client, in the newest version that both sides support. Call this method if this node
        has made the request, or has changed the client's request."""
        from kcli.protocol.wire.codec import decode_response, encode_request

        version = -1

        def envelope(connection: Connection) -> EnvelopeRequest:
            nonlocal version
            version = connection.version_for(key)
            frame = encode_request(request, key, version, 0, client.id)
            return _envelope(frame[INT32.size :], client.principal, client.host)

        answer = _opened(await self._ask(ApiKey.ENVELOPE, envelope, since))
        return decode_response(key, version, answer)[1]

    async def _ask(
        self, key: ApiKey, message: Callable[[Connection], object], since: float | None = None
    ) -> Any:
        loop = asyncio.get_running_loop()
        request = _Request(key, message, loop.create_future(), loop.time() if since is None else since)
        self._queue[request] = None
        if self._sender is None or self._sender.done():
            self._sender = loop.create_task(self._send_all(), name="to-controller")
        try:
            return await request.answer
        finally:
            # The caller may no longer wait. If the client has disconnected, its frame must not stay in memory.
            self._queue.pop(request, None)

    # The queue.

    async def _send_all(self) -> None:
        while self._queue:
            request = next(iter(self._queue))
            if self.is_expired(request.since):
                self._expire(request)
            elif pause_s := await self._try(request):
                for expired in [waiting for waiting in self._queue if self.is_expired(waiting.since)]:
                    self._expire(expired)
                self._pool.close()
                await asyncio.sleep(pause_s)

    def is_expired(self, since: float) -> bool:
        """Whether the time limit of a request that began at `since` has passed."""
        return self.limit_s is not None and asyncio.get_running_loop().time() - since >= self.limit_s

    def _expire(self, request: _Request) -> None:
        reason = f"No active controller answered {request.key.name} within {self.limit_s:g} s"
        self._answer(request, error=TimeoutException(reason))

    async def _try(self, request: _Request) -> float | None:
        """Sends the request once. Returns None if the request is answered. Otherwise the request stays in the queue,
        and this method returns the pause before the next attempt.
        """
        address = self._find()
        if address is None:
            self._note("The quorum has no leader that this node knows")
            return UNKNOWN_CONTROLLER_PAUSE_S
        try:
            connection = await self._connected(address)
            version = connection.version_for(request.key)
            began = asyncio.get_running_loop().time()
            self.queued_ms.add((began - request.since) * 1000)
            response = await connection.request(
                request.message(connection), request.key, version=version, timeout=self._timeout_s
            )
            self.remote_ms.add((asyncio.get_running_loop().time() - began) * 1000)
        except (OSError, TimeoutError, NetworkException, ProtocolError) as error:
            self._note(f"The controller at {address} does not answer: {str(error) or type(error).__name__}")
            if request in self._queue:
                # The controller may be unable to read this request, and must get the other ones.
                self._queue.move_to_end(request)
            return RECONNECT_BACKOFF_S
        except Exception as error:  # the request cannot be sent in this version, or its content is invalid
            self._answer(request, error=error)
            return None
        if _is_from_other(response):
            self._note(f"The node at {address} is not the active controller")
            return RECONNECT_BACKOFF_S
        self._trouble = ""
        self._answer(request, response)
        return None

    def _note(self, trouble: str) -> None:
        """Logs why a request is not answered. Logs the same reason only once, until a request is answered."""
        if trouble != self._trouble:
            self._trouble = trouble
            _log.info("%s", trouble)

    def _answer(self, request: _Request, response: object = None, error: Exception | None = None) -> None:
        self._queue.pop(request, None)
        if request.answer.done():
            return  # the caller no longer waits
        if error is None:
            request.answer.set_result(response)
        else:
            request.answer.set_exception(error)

    async def _connected(self, address: Address) -> Connection:
        """The connection to the active controller. Raises OSError, TimeoutError, NetworkException or ProtocolError."""
        if self._address != address:
            self._pool.close()
            self._address = address
        connection = await self._pool.connection(address)
        self.versions = connection.versions
        if address != self._recorded:
            self._recorded = address
            _log.info("Recorded new KRaft controller, from now on will use node %s", address)
        return connection


def _is_from_other(response: object) -> bool:
    """Whether a response comes from a node that is not the active controller. Such a response has the error
    NOT_CONTROLLER at the top. The response to CreateTopics has no error field at the top, so each topic has the error.
    For a request in an Envelope, the response to the Envelope has the error.
    """
    errors = [getattr(response, "error_code", ErrorCode.NONE)]
    errors += [topic.error_code for topic in getattr(response, "topics", ()) if hasattr(topic, "error_code")]
    return ErrorCode.NOT_CONTROLLER in errors


def _envelope(frame: bytes, principal: Principal, host: str) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=frame,
        request_principal=encode_principal(principal),
        client_host_address=ipaddress.ip_address(host).packed,
    )


def _opened(response: EnvelopeResponse) -> bytes:
    """Takes the response frame out of the response to an Envelope. Raises KafkaError if the controller refused the
    Envelope.
    """
    if response.error_code is ErrorCode.UNSUPPORTED_VERSION:
        raise UnsupportedVersionException
    if response.error_code is not ErrorCode.NONE or response.response_data is None:
        _log.error("The controller refused a forwarded request: %s", ErrorCode(response.error_code).name)
        raise UnknownServerException
    return response.response_data
