"""DescribeTransactions (key 65, version 0): the state of the transactional ids that this broker coordinates
(KIP-664).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.requests.access import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID
from kcli.server.requests.context import REFUSAL_COST, RequestContext

ID_COST = 5
"""The cost of a transactional id. It takes 4 µs, and 1 µs more for each partition."""


@dataclass(frozen=True, slots=True)
class Ports:
    transactions: TransactionCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    states = []
    for transactional_id in request.transactional_ids:
        await context.pace(ID_COST)
        states.append(await _visible(context, transactional_id))
    return DescribeTransactionsResponse(transaction_states=tuple(states))


async def error_response(
    context: Context, request: DescribeTransactionsRequest, error: KafkaError
) -> DescribeTransactionsResponse:
    states = []
    for transactional_id in request.transactional_ids:
        await context.pace(REFUSAL_COST)
        states.append(TransactionState(transactional_id=transactional_id, error_code=error.code))
    return DescribeTransactionsResponse(transaction_states=tuple(states))


async def _visible(context: Context, transactional_id: str) -> TransactionState:
    """The state of a transactional id, without the topics that the client may not describe."""
    if not context.rights.allows(DESCRIBE_TRANSACTIONAL_ID, transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return TransactionState(transactional_id=transactional_id, error_code=code)
    state = _described(context, transactional_id)
    if context.rights.is_open or not state.topics:
        return state
    allowed = await context.allowed(DESCRIBE_TOPIC, (topic.topic for topic in state.topics))
    return replace(state, topics=tuple(topic for topic in state.topics if topic.topic in allowed))


def _described(context: Context, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return TransactionState(error_code=ErrorCode.INVALID_REQUEST)
    try:
        runner = context.ports.transactions.shards.runner(transactional_id)
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    return runner.ask(lambda shard, _: shard.describe(transactional_id))
