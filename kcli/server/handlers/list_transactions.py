"""ListTransactions (key 66, versions 0-2): the transactional ids that this broker coordinates (KIP-664).

The filters are a minimum duration (v1, KIP-994) and a regular expression for the whole id (v2, KIP-1152). As in Kafka,
RE2 matches the expression. RE2 needs only linear time for any expression, so it may run on the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container
from itertools import chain
from typing import TYPE_CHECKING

from kcli.coordinator.transaction.state import State
from kcli.errors import InvalidRegularExpression
from kcli.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kcli.protocol.messages.list_transactions import TransactionState as ListedTransaction
from kcli.server.coordinators.transactions import TransactionRunner
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_TRANSACTIONAL_ID, per_resource
from kcli.server.requests.answers import then
from kcli.server.requests.turns import in_turns

if TYPE_CHECKING:
    from kcli.coordinator.transaction.questions import Pattern

ACCESS = per_resource(DESCRIBE_TRANSACTIONAL_ID)

# Kafka accepts the name of the last state as a filter, although no transactional id is ever in this state.
_STATES = frozenset((*(state.label for state in State), "PrepareEpochFence"))


SHARDS_PER_TURN = 1
"""Shards whose transactional ids are listed in one iteration of the event loop. An id takes 2 µs."""


def handle(
    context: BrokerContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:
    pattern = _compiled(request.transactional_id_pattern)

    def listed(runner: TransactionRunner) -> tuple[ListedTransaction, ...]:
        return runner.ask(lambda shard, now_ms: shard.list_transactions(request, pattern, now_ms))

    def visible(
        found: list[tuple[ListedTransaction, ...]],
    ) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:
        states = tuple(chain.from_iterable(found))
        names = (state.transactional_id for state in states)
        allowed = context.rights.allowed_in_turns(DESCRIBE_TRANSACTIONAL_ID, names)
        return then(allowed, lambda seen: _response(request, states, seen))

    runners = tuple(context.ports.transactions.shards.runners())
    return then(in_turns(runners, listed, SHARDS_PER_TURN), visible)


def _response(
    request: ListTransactionsRequest, found: tuple[ListedTransaction, ...], seen: Container[str]
) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        unknown_state_filters=tuple(name for name in request.state_filters if name not in _STATES),
        transaction_states=tuple(state for state in found if state.transactional_id in seen),
    )


def _compiled(pattern: str | None) -> Pattern | None:
    if not pattern:
        return None
    import re2  # imported late, because few clients filter by pattern

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidRegularExpression(f"'{pattern}' is not a regular expression: {said}") from None
    return compiled
