"""DescribeTransactions (key 65, version 0): the state of transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID, per_resource

ACCESS = per_resource(DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC)


def handle(context: BrokerContext, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=tuple(_described(context, name) for name in request.transactional_ids)
    )


def error_response(
    _context: BrokerContext, request: DescribeTransactionsRequest, error: KafkaError
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=tuple(
            TransactionState(transactional_id=name, error_code=error.code)
            for name in request.transactional_ids
        )
    )


def _described(context: BrokerContext, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return TransactionState(error_code=ErrorCode.INVALID_REQUEST)
    try:
        runner = context.ports.transactions.shards.runner(transactional_id)
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    return runner.ask(lambda shard, _: shard.describe(transactional_id))
