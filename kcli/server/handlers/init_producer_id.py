"""InitProducerId (key 22, versions 0-5): a producer id for an idempotent producer (KIP-98, KIP-360).

Without a transactional id: a fresh id, epoch 0. With one there would have to be a transaction coordinator, which this
broker is not. The coordinator's own errors are retriable, and a client would try for ever: INVALID_REQUEST ends it.
"""

from __future__ import annotations

import logging

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.server.context import RequestContext

_log = logging.getLogger("kcli.server.KafkaApis")

NO_PRODUCER_ID = -1
NO_EPOCH = -1


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        _log.warning(
            "Client %s at %s wants to begin transactions as '%s'; there is no transaction coordinator",
            context.client_id,
            context.peer_host,
            request.transactional_id,
        )
        return _failed(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return _failed(ErrorCode.INVALID_REQUEST)
    producer_id = await context.broker.producer_ids.next_id()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def error_response(
    _context: RequestContext, _request: InitProducerIdRequest, error: KafkaError
) -> InitProducerIdResponse:
    return _failed(error.code)


def _failed(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)
