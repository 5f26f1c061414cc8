"""ListTransactions (key 66, versions 0-2): the transactional ids that this broker coordinates (KIP-664).

The filters are a minimum duration (v1, KIP-994) and a regular expression for the whole id (v2, KIP-1152). As in Kafka,
RE2 matches the expression. `coordinator/patterns.py` has the limits of an expression.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container, Iterable, Sequence
from typing import TypeVar

from kcli.coordinator.patterns import PATTERN_MAX_CHARS, compiled_pattern
from kcli.coordinator.transaction.questions import Filter
from kcli.coordinator.transaction.state import TransactionStatus
from kcli.errors import InvalidRegularExpression
from kcli.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kcli.protocol.messages.list_transactions import TransactionState as ListedTransaction
from kcli.server.coordinators.regex_search import compiled_in_a_turn
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_TRANSACTIONAL_ID
from kcli.server.requests.answers import finished, then
from kcli.server.requests.turns import Steps, run_in_turns

Item = TypeVar("Item")

# Kafka accepts the name of the last state as a filter, although no transactional id is ever in this state.
_STATES = frozenset((*(status.label for status in TransactionStatus), "PrepareEpochFence"))


IDS_PER_TURN = 500
"""Transactional ids that are compared with the filters in one iteration of the event loop. An id takes 2 µs."""


def handle(
    context: BrokerContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:
    def visible(
        states: list[ListedTransaction],
    ) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:
        names = (state.transactional_id for state in states)
        allowed = context.rights.allowed_in_turns(DESCRIBE_TRANSACTIONAL_ID, names)
        return then(allowed, lambda seen: run_in_turns(_response(request, states, seen), IDS_PER_TURN))

    if request.transactional_id_pattern:
        return then(_matching(context, request, request.transactional_id_pattern), visible)
    return then(run_in_turns(_listed(context, request), IDS_PER_TURN), visible)


async def _matching(
    context: BrokerContext, request: ListTransactionsRequest, pattern: str
) -> list[ListedTransaction]:
    """Lists the transactions whose id matches the pattern. A client chooses the pattern and the ids, so a thread
    matches them."""
    await finished(compiled_in_a_turn(pattern))
    _check(pattern)
    states = await finished(run_in_turns(_listed(context, request), IDS_PER_TURN))
    names = [state.transactional_id for state in states]
    matched = set((await context.ports.groups.regexes.find((pattern,), names))[pattern])
    return [state for state in states if state.transactional_id in matched]


def _listed(context: BrokerContext, request: ListTransactionsRequest) -> Steps[list[ListedTransaction]]:
    producer_ids = yield from _distinct(request.producer_id_filters)
    states = yield from _distinct(request.state_filters)
    wanted = Filter(producer_ids or None, states or None, request.duration_filter)
    found = []
    for runner in tuple(context.ports.transactions.shards.runners()):
        for state in runner.ask(lambda shard, now_ms: shard.list_transactions(wanted, now_ms)):
            if state is not None:
                found.append(state)
            yield
    return found


def _distinct(items: Iterable[Item]) -> Steps[set[Item]]:
    found = set()
    for item in items:
        found.add(item)
        yield
    return found


def _response(
    request: ListTransactionsRequest, found: Sequence[ListedTransaction], seen: Container[str]
) -> Steps[ListTransactionsResponse]:
    unknown, states = [], []
    for name in request.state_filters:
        if name not in _STATES:
            unknown.append(name)
        yield
    for state in found:
        if state.transactional_id in seen:
            states.append(state)
        yield
    return ListTransactionsResponse(unknown_state_filters=tuple(unknown), transaction_states=tuple(states))


def _check(pattern: str) -> None:
    found = compiled_pattern(pattern)
    if isinstance(found, str):
        shown = f"'{pattern}'" if len(pattern) <= PATTERN_MAX_CHARS else "The pattern"
        raise InvalidRegularExpression(f"{shown} is not a regular expression: {found}")
