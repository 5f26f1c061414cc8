"""EndTxn (key 26, versions 0-5): commits or aborts a transaction (KIP-98, KIP-360).

From version 5 on (TV2, KIP-890) each end of a transaction raises the producer epoch, and the response has the new
epoch.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from kcli.coordinator.transaction.state import TV0, TV2
from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import WRITE_TRANSACTIONAL_ID
from kcli.server.requests.answers import then
from kcli.server.requests.fenced import fenced_code

_PRODUCER_FENCED_FROM = 2
_TV2_FROM = 5


def handle(context: BrokerContext, request: EndTxnRequest) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    context.rights.require_on(WRITE_TRANSACTIONAL_ID, request.transactional_id)
    version = context.api_version
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)

    def answered(answer: EndTxnResponse) -> EndTxnResponse:
        code = fenced_code(version, _PRODUCER_FENCED_FROM, answer.error_code)
        return answer if code is answer.error_code else replace(answer, error_code=code)

    return then(context.ports.transactions.end(request, TV2 if version >= _TV2_FROM else TV0), answered)


def error_response(_context: BrokerContext, _request: EndTxnRequest, error: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code)
