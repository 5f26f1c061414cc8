"""ListTransactions (key 66, versions 0-2): the transactional ids that this broker coordinates (KIP-664).

The filters are a minimum duration (v1, KIP-994) and a regular expression for the whole id (v2, KIP-1152). As in Kafka,
RE2 matches the expression. `coordinator/patterns.py` has the limits of an expression.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from kcli.coordinator.patterns import PATTERN_MAX_CHARS, compiled_pattern
from kcli.coordinator.transaction.questions import Filter
from kcli.coordinator.transaction.state import TransactionStatus
from kcli.errors import InvalidRegularExpression
from kcli.model.pace import Pace
from kcli.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kcli.protocol.messages.list_transactions import TransactionState as ListedTransaction
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.regex_search import compile_in_a_turn
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.requests.access import DESCRIBE_TRANSACTIONAL_ID
from kcli.server.requests.context import RequestContext

Item = TypeVar("Item")

# Kafka accepts the name of the last state as a filter, although no transactional id is ever in this state.
_STATES = frozenset((*(status.label for status in TransactionStatus), "PrepareEpochFence"))


ID_COST = 2


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator
    transactions: TransactionCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: ListTransactionsRequest) -> ListTransactionsResponse:
    pattern = request.transactional_id_pattern
    if pattern:
        await compile_in_a_turn(pattern)
        _check(pattern)
    states = await _listed(context, request)
    if pattern:
        states = await _matching(context, pattern, states)
    allowed = await context.allowed(DESCRIBE_TRANSACTIONAL_ID, (state.transactional_id for state in states))
    unknown = []
    for name in request.state_filters:
        await context.pace(ID_COST)
        if name not in _STATES:
            unknown.append(name)
    visible = []
    for state in states:
        await context.pace(ID_COST)
        if state.transactional_id in allowed:
            visible.append(state)
    return ListTransactionsResponse(unknown_state_filters=tuple(unknown), transaction_states=tuple(visible))


async def _matching(
    context: Context, pattern: str, states: list[ListedTransaction]
) -> list[ListedTransaction]:
    """The transactions whose id matches the pattern. A client chooses the pattern and the ids, so a thread matches
    them."""
    names = [state.transactional_id for state in states]
    matched = set((await context.ports.groups.regexes.find((pattern,), names))[pattern])
    return [state for state in states if state.transactional_id in matched]


async def _listed(context: Context, request: ListTransactionsRequest) -> list[ListedTransaction]:
    """The transactions that pass the other filters."""
    producer_ids = await _distinct(request.producer_id_filters, context.pace)
    states = await _distinct(request.state_filters, context.pace)
    filters = Filter(producer_ids or None, states or None, request.duration_filter)
    listed = []
    for runner in tuple(context.ports.transactions.shards.runners()):
        for state in runner.ask(lambda shard, now_ms: shard.list_transactions(filters, now_ms)):
            await context.pace(ID_COST)
            if state is not None:
                listed.append(state)
    return listed


async def _distinct(items: Iterable[Item], pace: Pace) -> set[Item]:
    distinct = set()
    for item in items:
        await pace(ID_COST)
        distinct.add(item)
    return distinct


def _check(pattern: str) -> None:
    compiled = compiled_pattern(pattern)
    if isinstance(compiled, str):
        shown = f"'{pattern}'" if len(pattern) <= PATTERN_MAX_CHARS else "The pattern"
        raise InvalidRegularExpression(f"{shown} is not a regular expression: {compiled}")
