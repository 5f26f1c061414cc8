"""Assigns blocks of producer ids to brokers, so that no two producers ever get the same id (KIP-730)."""

from __future__ import annotations

from kcli.controller.brokers import known_broker
from kcli.controller.controller import Controller
from kcli.controller.decision import Decision, decide
from kcli.errors import UnknownServerException
from kcli.model.ids import BrokerId, ProducerId
from kcli.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from kcli.protocol.records.metadata import ProducerIdsRecord

BLOCK_SIZE = 1000
MAX_PRODUCER_ID = (1 << 63) - 1


def allocate_producer_ids(
    controller: Controller, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Gives the next block of producer ids to a broker. Raises StaleBrokerEpoch if the broker is not registered with
    this epoch."""
    known_broker(controller.image, request.broker_id, request.broker_epoch)
    first = controller.image.next_producer_id
    if first > MAX_PRODUCER_ID - BLOCK_SIZE:
        raise UnknownServerException(
            f"Exhausted all producerIds as the next block's end producerId is {first + BLOCK_SIZE}"
        )
    record = ProducerIdsRecord(
        broker_id=BrokerId(request.broker_id),
        broker_epoch=request.broker_epoch,
        next_producer_id=ProducerId(first + BLOCK_SIZE),
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return decide([record], response)
