"""Producer ids: blocks of 1000 from the controller. The next block is requested before the last one is used up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kcli.controller.api import ALLOCATE_PRODUCER_IDS
from kcli.errors import CoordinatorLoadInProgressException, KafkaError
from kcli.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kcli.server.quorum.channel import ControllerChannel
from kcli.server.quorum.loader import MetadataLoader

_log = logging.getLogger("kcli.server.ProducerIdManager")

# The used part of a block from which the next block is requested.
PREFETCH_AT = 0.9
UNREGISTERED_EPOCH = -1
# The longest wait of a client for a new block. A controller in this process answers in a few milliseconds. If no
# controller is active, the client must get an error soon, so that it can send the request again.
BLOCK_WAIT_S = 0.2
# The pause after a failed request for a block, as in Kafka. Clients repeat their requests in the meantime.
RETRY_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """`length` ids from `start` on. The controller gives each id only once."""

    start: int
    length: int


class ProducerIds:
    """Gives out the producer ids of this broker. `allocate` asks the controller for a block."""

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        self._allocate = allocate
        self._block = ProducerIdBlock(0, 0)
        self._used = 0
        self._next: ProducerIdBlock | None = None
        self._request: asyncio.Task[None] | None = None

    async def next_id(self) -> int:
        """Returns a new producer id. Raises CoordinatorLoadInProgressException if the controller gives no
        block of ids.
        """
        if self._used == self._block.length and not self._advance():
            self._ask()
            if self._request is not None:
                await asyncio.wait((self._request,), timeout=BLOCK_WAIT_S)
            if self._used == self._block.length and not self._advance():
                raise CoordinatorLoadInProgressException("No block of producer ids is available yet")
        producer_id = self._block.start + self._used
        self._used += 1
        if self._used >= self._block.length * PREFETCH_AT and self._next is None:
            self._ask()
        return producer_id

    def _advance(self) -> bool:
        if self._next is None:
            return False
        self._block, self._next, self._used = self._next, None, 0
        return True

    def _ask(self) -> None:
        if self._request is None:
            self._request = asyncio.get_running_loop().create_task(self._fetch_block())

    async def _fetch_block(self) -> None:
        try:
            self._next = await self._allocate()
        except KafkaError as error:
            _log.warning("The controller gave no block of producer ids: %s", error.message)
            await asyncio.sleep(RETRY_PAUSE_S)
        finally:
            self._request = None


async def allocate_block(channel: ControllerChannel, loader: MetadataLoader, node_id: int) -> ProducerIdBlock:
    """Asks the controller for a block of ids for this broker. Raises KafkaError."""
    broker = loader.image.brokers.get(node_id)
    request = AllocateProducerIdsRequest(
        broker_id=node_id, broker_epoch=UNREGISTERED_EPOCH if broker is None else broker.epoch
    )
    response = await channel.send(ALLOCATE_PRODUCER_IDS, request)
    return ProducerIdBlock(response.producer_id_start, response.producer_id_len)
