"""DescribeTransactions (key 65, version 0): the state of the transactional ids that this broker coordinates
(KIP-664).
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID
from kcli.server.requests.answers import then
from kcli.server.requests.turns import REFUSALS_PER_TURN, in_turns

IDS_PER_TURN = 200
"""Transactional ids that are described in one iteration of the event loop. An id takes 4 µs, and 1 µs more for each
partition."""


def handle(
    context: BrokerContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    states = in_turns(request.transactional_ids, lambda name: _allowed(context, name), IDS_PER_TURN)
    return then(states, _response)


def error_response(
    _context: BrokerContext, request: DescribeTransactionsRequest, error: KafkaError
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    states = in_turns(
        request.transactional_ids,
        lambda name: TransactionState(transactional_id=name, error_code=error.code),
        REFUSALS_PER_TURN,
    )
    return then(states, _response)


def _response(states: list[TransactionState]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=tuple(states))


def _allowed(context: BrokerContext, transactional_id: str) -> TransactionState:
    """The state of a transactional id, without the topics that the client may not describe."""
    rights = context.rights
    if not rights.allows(DESCRIBE_TRANSACTIONAL_ID, transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return TransactionState(transactional_id=transactional_id, error_code=code)
    state = _described(context, transactional_id)
    if rights.is_open or not state.topics:
        return state
    seen = rights.allowed(DESCRIBE_TOPIC, (topic.topic for topic in state.topics))
    return replace(state, topics=tuple(topic for topic in state.topics if topic.topic in seen))


def _described(context: BrokerContext, transactional_id: str) -> TransactionState:
    if not transactional_id:
        return TransactionState(error_code=ErrorCode.INVALID_REQUEST)
    try:
        runner = context.ports.transactions.shards.runner(transactional_id)
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    return runner.ask(lambda shard, _: shard.describe(transactional_id))
