"""Connections to the other members of the quorum. The raft node decides which request goes to which server.

The code that encodes requests is imported at the first request. The only voter of a quorum sends no request, so its
start does not wait for the import.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kcli.client.pool import Backoff, Pool
from kcli.errors import ErrorCode, KcliError, UnsupportedVersionException
from kcli.model.addresses import Address
from kcli.model.connection_counts import ConnectionCounts
from kcli.raft.messages import Answered, Message, Outgoing, Unanswered, Unsupported
from kcli.runtime.network import Network
from kcli.server.network.links import Secure, open_link, plain_text

_log = logging.getLogger("kcli.server.RaftManager")

RECONNECT_BACKOFF_S = 0.05
"""The pause after a failed connection. It doubles up to RECONNECT_BACKOFF_MAX_S, as in Kafka's raft client."""
RECONNECT_BACKOFF_MAX_S = 0.5


class RaftPeers:
    """Sends requests to other servers. Calls `post` once for each request, with its result."""

    def __init__(
        self,
        network: Network,
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
        self._cluster_id = cluster_id
        self._listener = listener
        self._request_timeout_s = request_timeout_s
        self._post = post
        self.counts = ConnectionCounts()
        self._addresses: dict[int, Address] = {}
        self._troubles: dict[Address, str] = {}
        """The reasons why the last requests have no valid answers. The same reason is logged only once."""
        self._pool = Pool(
            lambda address: open_link(
                network, address, f"raft-client-{node_id}", request_timeout_s, secure, self.counts
            ),
            request_timeout_s=request_timeout_s,
            address_of=self._addresses.get,
            backoff=Backoff(RECONNECT_BACKOFF_S, RECONNECT_BACKOFF_MAX_S),
        )
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
        self._pool.close()

    async def _send(self, outgoing: Outgoing) -> None:
        address = outgoing.peer.address
        before = self._addresses.get(outgoing.peer.id)
        if before is not None and before != address:
            self._troubles.pop(before, None)
        self._addresses[outgoing.peer.id] = address
        message: Message = Unanswered(outgoing.request_id)
        try:
            async with asyncio.timeout(self._request_timeout_s):
                message = await self._exchange(outgoing)
        except UnsupportedVersionException:
            message = Unsupported(outgoing.request_id)
        except (OSError, KcliError) as error:
            self._note(address, f"does not answer: {str(error) or type(error).__name__}")
            if self._addresses[outgoing.peer.id] == address:
                self._pool.disconnect(outgoing.peer.id)
        except Exception:
            # Without a result the raft node would wait for this peer forever.
            _log.exception("The answer of node %d at %s could not be read", outgoing.peer.id, address)
        self._post(message)

    async def _exchange(self, outgoing: Outgoing) -> Message:
        from kcli.server.quorum.raft_client_wire import api_of, decode_response, encode_request

        peer, (key, at_least) = outgoing.peer, api_of(outgoing.request)
        request = encode_request(outgoing.request, self._cluster_id)
        response = await self._pool.send(request, key, to=peer.id, at_least=at_least)
        if getattr(response, "error_code", ErrorCode.NONE) is ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._note(peer.address, f"refuses this node, because its cluster is not {self._cluster_id}")
        else:
            self._note(peer.address, "")
        return Answered(outgoing.request_id, decode_response(outgoing.request, response, self._listener))

    def _note(self, address: Address, trouble: str) -> None:
        """Logs that a server answers again, or why its answer is missing or invalid. The same line is not repeated."""
        if trouble != self._troubles.get(address, ""):
            _log.info("The server at %s %s", address, trouble or "answers again")
            self._troubles[address] = trouble
