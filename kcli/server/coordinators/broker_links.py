"""Requests from this broker to other brokers.

`BrokerLinks` has one connection to each broker, over the inter-broker listener. `GatheredRequests` sends items of many
callers over these connections. Each broker gets one such request at a time. As in Kafka, items that callers add before
the answer arrives are sent together in the next request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcli.client.pool import Backoff, Pool
from kcli.errors import KafkaError, NetworkException, ProtocolError, UnsupportedVersionException
from kcli.metadata.image import MetadataImage
from kcli.model.addresses import Address
from kcli.model.connection_counts import ConnectionCounts
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import Network
from kcli.server.network.links import Secure, open_link, plain_text

_log = logging.getLogger("kcli.server.InterBrokerSendThread")

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

RECONNECT_BACKOFF_S = 0.05
"""The pause after a failed connection or request (reconnect.backoff.ms of Kafka's clients)."""


class BrokerLinks:
    """Connections to other brokers, for one purpose. `listener` is the name of the inter-broker listener. `secure` has
    the security of this listener.
    """

    def __init__(
        self,
        network: Network,
        image: Callable[[], MetadataImage],
        *,
        listener: str,
        client_id: str,
        timeout_s: float,
        secure: Secure = plain_text,
    ) -> None:
        self._image = image
        self._listener = listener
        self.counts = ConnectionCounts()
        self._pool = Pool(
            lambda address: open_link(network, address, client_id, timeout_s, secure, self.counts),
            request_timeout_s=timeout_s,
            address_of=self._address,
            backoff=Backoff(RECONNECT_BACKOFF_S, RECONNECT_BACKOFF_S),
        )

    async def ask(self, broker_id: int, key: ApiKey, request: object, *, at_least: int = 0) -> Any:
        """Sends a request in the newest version that both brokers support, and returns the response.

        Raises NetworkException if the broker cannot be reached or does not answer. Raises UnsupportedVersionException
        if the broker does not support version `at_least`.
        """
        address = self._address(broker_id)
        if address is None:
            raise NetworkException(f"Broker {broker_id} has no listener {self._listener} in the metadata")
        try:
            return await self._pool.send(request, key, to=broker_id, at_least=at_least)
        except UnsupportedVersionException:
            raise
        except (OSError, KafkaError, ProtocolError) as error:
            self._pool.rest(broker_id)
            reason = f"Broker {broker_id} at {address} did not answer {key.name}: {error or 'time-out'}"
            _log.info("%s", reason)
            raise NetworkException(reason) from error

    def close(self) -> None:
        """Closes all connections."""
        self._pool.close()

    def _address(self, broker_id: int) -> Address | None:
        broker = self._image().brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._listener)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[ItemT, ResultT]):
    item: ItemT
    result: asyncio.Future[ResultT]


class GatheredRequests(Generic[ItemT, ResultT]):
    """Sends items to brokers, several of them in one request.

    `exchange` sends a request with several items to a broker. `exchange` returns one result for each item, or raises a
    KafkaError for all items. `key_of` returns the key by which a response identifies an item, so two items with the
    same key are never in one request. The total size of the items in a request is at most `max_size`. The queues have
    no limit, because every item belongs to a request of a client or to a transaction in memory.
    """

    def __init__(
        self,
        exchange: Callable[[int, Sequence[ItemT]], Awaitable[Sequence[ResultT]]],
        *,
        key_of: Callable[[ItemT], Hashable],
        size_of: Callable[[ItemT], int],
        max_size: int,
    ) -> None:
        self._exchange = exchange
        self._key_of = key_of
        self._size_of = size_of
        self._max_size = max_size
        self._queues: dict[int, deque[_Waiting[ItemT, ResultT]]] = {}
        self._senders: set[asyncio.Task[None]] = set()
        self._is_stopped = False

    def send(self, broker_id: int, item: ItemT) -> asyncio.Future[ResultT]:
        """Returns a future of the result. If the caller cancels the future before the item is sent, the item is
        dropped.

        Raises NetworkException after `stop`.
        """
        if self._is_stopped:
            raise NetworkException("This broker is stopping")
        loop = asyncio.get_running_loop()
        result: asyncio.Future[ResultT] = loop.create_future()
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = deque()
            sender = loop.create_task(self._send_all(broker_id, queue), name=f"to broker {broker_id}")
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        queue.append(_Waiting(item, result))
        return result

    async def stop(self) -> None:
        """Stops sending, and cancels the futures of items that have no result yet."""
        self._is_stopped = True
        for sender in tuple(self._senders):
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        self._queues.clear()

    async def _send_all(self, broker_id: int, queue: deque[_Waiting[ItemT, ResultT]]) -> None:
        """Sends until the queue is empty, one request after the other."""
        sent: list[_Waiting[ItemT, ResultT]] = []
        try:
            while queue:
                sent = self._next(queue)
                if sent:
                    await self._send(broker_id, sent)
        finally:
            self._queues.pop(broker_id, None)
            for waiting in (*sent, *queue):
                waiting.result.cancel()

    async def _send(self, broker_id: int, sent: list[_Waiting[ItemT, ResultT]]) -> None:
        error: KafkaError
        try:
            results = await self._exchange(broker_id, [waiting.item for waiting in sent])
        except KafkaError as failure:
            error = failure
        except Exception:
            _log.exception("The answer of broker %d cannot be used", broker_id)
            error = NetworkException(f"The answer of broker {broker_id} cannot be used")
        else:
            for waiting, result in zip(sent, results, strict=True):
                if not waiting.result.done():
                    waiting.result.set_result(result)
            return
        for waiting in sent:
            if not waiting.result.done():
                waiting.result.set_exception(error)

    def _next(self, queue: deque[_Waiting[ItemT, ResultT]]) -> list[_Waiting[ItemT, ResultT]]:
        """Takes the items of the next request out of the queue."""
        chosen: dict[Hashable, _Waiting[ItemT, ResultT]] = {}
        later: list[_Waiting[ItemT, ResultT]] = []
        room = self._max_size
        while queue and room > 0:
            waiting = queue.popleft()
            key = self._key_of(waiting.item)
            if waiting.result.done():
                continue  # the caller does not wait any more
            if key in chosen:
                later.append(waiting)
                continue
            chosen[key] = waiting
            room -= self._size_of(waiting.item)
        queue.extendleft(reversed(later))
        return list(chosen.values())
