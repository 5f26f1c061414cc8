"""EndTxn (key 26, versions 0-5): commits or aborts a transaction (KIP-98, KIP-360).

From version 5 on (TV2, KIP-890) each end of a transaction raises the producer epoch, and the response has the new
epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcli.coordinator.transaction.state import TV0, TV2
from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.requests.access import WRITE_TRANSACTIONAL_ID
from kcli.server.requests.context import RequestContext
from kcli.server.requests.fenced import fenced_code

_PRODUCER_FENCED_FROM = 2
_TV2_FROM = 5


@dataclass(frozen=True, slots=True)
class Ports:
    transactions: TransactionCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: EndTxnRequest) -> EndTxnResponse:
    context.rights.require_on(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    version = context.api_version
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = await context.ports.transactions.end(request, TV2 if version >= _TV2_FROM else TV0)
    code = fenced_code(version, _PRODUCER_FENCED_FROM, response.error_code)
    return response if code is response.error_code else replace(response, error_code=code)


async def error_response(_context: Context, _request: EndTxnRequest, error: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code)
