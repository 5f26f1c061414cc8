"""InitProducerId (key 22, versions 0-5): returns a producer id and an epoch. The epoch fences earlier producers with
this id (KIP-98, KIP-360).

A request without a transactional id gets a new producer id with epoch 0. The transaction coordinator answers a request
with a transactional id. If the transactional id has an open transaction, the coordinator first aborts this transaction.
Until the abort is complete, the client gets CONCURRENT_TRANSACTIONS and retries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcli.errors import ClusterAuthorizationException, ErrorCode, KafkaError
from kcli.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.quorum.producer_ids import ProducerIds
from kcli.server.requests.access import (
    IDEMPOTENT_WRITE,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
)
from kcli.server.requests.context import RequestContext
from kcli.server.requests.fenced import fenced_code

_PRODUCER_FENCED_FROM = 4


@dataclass(frozen=True, slots=True)
class Ports:
    producer_ids: ProducerIds
    transactions: TransactionCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: InitProducerIdRequest) -> InitProducerIdResponse:
    _require_rights(context, request.transactional_id)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _failed(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return InitProducerIdResponse(
            producer_id=await context.ports.producer_ids.next_id(), producer_epoch=0
        )
    if not request.transactional_id:
        return _failed(ErrorCode.INVALID_REQUEST)
    response = await context.ports.transactions.init_producer_id(request)
    code = fenced_code(context.api_version, _PRODUCER_FENCED_FROM, response.error_code)
    return replace(response, error_code=code)


async def error_response(
    _context: Context, _request: InitProducerIdRequest, error: KafkaError
) -> InitProducerIdResponse:
    return _failed(error.code)


def _require_rights(context: Context, transactional_id: str | None) -> None:
    """Raises KafkaError if the client may not get a producer id. An idempotent producer needs the permission to write
    to at least one topic (KIP-679), or the older permission IdempotentWrite.
    """
    rights = context.rights
    if rights.is_open:
        return
    if transactional_id is not None:
        rights.require_on(WRITE_TRANSACTIONAL_ID, transactional_id)
    elif not rights.allows(IDEMPOTENT_WRITE, traced=True) and not rights.allows_some(WRITE_TOPIC):
        raise ClusterAuthorizationException


def _failed(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
