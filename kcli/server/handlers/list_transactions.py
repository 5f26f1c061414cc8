"""ListTransactions (key 66, versions 0-2): the transactional ids that this broker coordinates (KIP-664), those that run
longer than so many milliseconds (v1, KIP-994), those whose whole name matches (v2, KIP-1152).

A pattern costs what it costs on the loop that serves everybody, so it may not be one that can take exponential time.
"""

from __future__ import annotations

import re

from kcli.coordinator.transaction.state import State
from kcli.errors import InvalidRegularExpression
from kcli.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kcli.server.context import RequestContext

_STATES = frozenset(state.label for state in State)
# A group that ends with a repetition and is itself repeated: `(a+)+`, `(a|b*)*`, `(.{2,})+`. Kafka's engine is linear.
_NESTED_REPEAT = re.compile(r"[*+}][^()]*\)\s*[*+{]")


def handle(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    shards = context.broker.transactions.shards
    pattern = _compiled(request.transactional_id_pattern)
    now_ms = shards.now_ms()
    return ListTransactionsResponse(
        unknown_state_filters=tuple(name for name in request.state_filters if name not in _STATES),
        transaction_states=tuple(
            found
            for runner in shards.runners()
            for found in runner.shard.list_transactions(request, pattern, now_ms)
        ),
    )


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if not pattern:
        return None
    if _NESTED_REPEAT.search(pattern):
        raise InvalidRegularExpression(f"'{pattern}' repeats a repetition, which may take for ever to match")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidRegularExpression(f"'{pattern}' is not a regular expression: {error}") from None
