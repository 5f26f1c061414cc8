"""DescribeClientQuotas (key 48, versions 0-1): the quotas that match a filter (KIP-546). The rules are in
controller/client_quotas.py."""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.controller.client_quotas import describe_client_quotas
from kcli.controller.decision import ApiError
from kcli.errors import KafkaError
from kcli.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.turns import run_in_turns

ENTITIES_PER_TURN = 100
"""Entities that are compared with the filter in one iteration of the event loop. An entity takes 20 µs."""


def handle(
    context: BrokerContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse | Awaitable[DescribeClientQuotasResponse]:
    return run_in_turns(describe_client_quotas(context.ports.metadata, request), ENTITIES_PER_TURN)


def error_response(
    _context: BrokerContext, _request: DescribeClientQuotasRequest, error: KafkaError
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=ApiError.of(error).message, entries=None
    )
