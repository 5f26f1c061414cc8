"""Connections to the other members of the quorum. The raft node decides which request goes to which server.

The code that encodes requests is imported at the first request. The only voter of a quorum sends no request, so its
start does not wait for the import.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.errors import ErrorCode, KcliError, UnsupportedVersionException
from kcli.model.addresses import Address
from kcli.model.connection_counts import ConnectionCounts
from kcli.model.ids import BrokerId
from kcli.raft.messages import Answered, Message, Outgoing, Unanswered, Unsupported
from kcli.runtime.clock import Clock
from kcli.runtime.network import Network
from kcli.server.network.links import Secure, is_usable, open_link, plain_text

if TYPE_CHECKING:
    from kcli.client.connection import Connection

_log = logging.getLogger("kcli.server.RaftManager")

RECONNECT_BACKOFF_S = 0.05
"""The pause after a failed connection. It doubles up to RECONNECT_BACKOFF_MAX_S, as in Kafka's raft client."""
RECONNECT_BACKOFF_MAX_S = 0.5


@dataclass(slots=True)
class _Link:
    """The connection to one peer. No connection is opened before the time `retry_at`. The lock `opening` is held while
    a connection is opened, because the raft node may send a new request while an older one waits for the connection.
    """

    address: Address
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_replaced: bool = False
    connection: Connection | None = None
    backoff_s: float = RECONNECT_BACKOFF_S
    retry_at: float = 0.0
    trouble: str = ""
    """The reason why the last request has no valid answer. The same reason is logged only once."""


class RaftPeers:
    """Sends requests to other servers. Calls `post` once for each request, with its result."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        *,
        node_id: int,
        cluster_id: str,
        listener: str,
        request_timeout_s: float,
        post: Callable[[Message], None],
        secure: Secure = plain_text,
    ) -> None:
        """`listener` is the name of the listener for connections to controllers. `secure` has the security of this
        listener.
        """
        self._network = network
        self._clock = clock
        self._client_id = f"raft-client-{node_id}"
        self._cluster_id = cluster_id
        self._listener = listener
        self._request_timeout_s = request_timeout_s
        self._post = post
        self._secure = secure
        self.counts = ConnectionCounts()
        self._links: dict[BrokerId, _Link] = {}
        self._requests: set[asyncio.Task[None]] = set()

    def send(self, outgoing: Outgoing) -> None:
        task = asyncio.get_running_loop().create_task(self._send(outgoing), name="raft-request")
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def stop(self) -> None:
        """Ends the unfinished requests without a result, and closes the connections."""
        tasks = list(self._requests)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for link in self._links.values():
            if link.connection is not None:
                link.connection.close()

    async def _send(self, outgoing: Outgoing) -> None:
        link = self._link(outgoing)
        message: Message = Unanswered(outgoing.request_id)
        try:
            async with asyncio.timeout(self._request_timeout_s):
                message = await self._exchange(link, outgoing)
        except UnsupportedVersionException:
            message = Unsupported(outgoing.request_id)
        except (OSError, TimeoutError, KcliError) as error:
            _note(link, f"does not answer: {str(error) or type(error).__name__}")
            if link.connection is not None:
                link.connection.close()
                link.connection = None
        except Exception:
            # Without a result the raft node would wait for this peer forever.
            _log.exception("The answer of node %d at %s could not be read", outgoing.peer.id, link.address)
        self._post(message)

    def _link(self, outgoing: Outgoing) -> _Link:
        peer = outgoing.peer
        link = self._links.get(peer.id)
        if link is None or link.address != peer.address:
            if link is not None:
                link.is_replaced = True
                if link.connection is not None:
                    link.connection.close()
            link = self._links[peer.id] = _Link(peer.address)
        return link

    async def _exchange(self, link: _Link, outgoing: Outgoing) -> Message:
        from kcli.server.quorum.raft_client_wire import api_of, decode_response, encode_request

        connection = await self._connected(link)
        key, at_least = api_of(outgoing.request)
        response = await connection.request(
            encode_request(outgoing.request, self._cluster_id),
            key,
            version=connection.version_for(key, at_least=at_least),
            timeout=self._request_timeout_s,
        )
        if getattr(response, "error_code", ErrorCode.NONE) is ErrorCode.INCONSISTENT_CLUSTER_ID:
            _note(link, f"refuses this node, because its cluster is not {self._cluster_id}")
        else:
            _note(link, "")
        return Answered(outgoing.request_id, decode_response(outgoing.request, response, self._listener))

    async def _connected(self, link: _Link) -> Connection:
        """The open connection, or a new one after the back-off of the last failure. Raises OSError, TimeoutError and
        KcliError."""
        async with link.opening:
            if not is_usable(link.connection):
                if link.connection is not None:
                    link.connection.retire()
                link.connection = await self._open(link)
            assert link.connection is not None
            return link.connection

    async def _open(self, link: _Link) -> Connection:
        wait_s = link.retry_at - self._clock.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        # An attempt to connect counts as failed until the peer has answered.
        link.retry_at = self._clock.monotonic() + link.backoff_s
        link.backoff_s = min(link.backoff_s * 2, RECONNECT_BACKOFF_MAX_S)
        connection = await open_link(
            self._network, link.address, self._client_id, self._request_timeout_s, self._secure, self.counts
        )
        link.backoff_s, link.retry_at = RECONNECT_BACKOFF_S, 0.0
        if link.is_replaced:
            connection.close()
        return connection


def _note(link: _Link, trouble: str) -> None:
    """Logs that a server answers again, or why its answer is missing or invalid. The same line is not repeated."""
    if trouble != link.trouble:
        _log.info("The server at %s %s", link.address, trouble or "answers again")
        link.trouble = trouble
