"""DescribeClientQuotas (key 48, versions 0-1): the quotas that match a filter (KIP-546). The rules are in
controller/client_quotas.py."""

from __future__ import annotations

from kcli.controller.client_quotas import describe_client_quotas
from kcli.controller.decision import ApiError
from kcli.errors import KafkaError
from kcli.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_CONFIGS_CLUSTER, whole_request

ACCESS = whole_request(DESCRIBE_CONFIGS_CLUSTER)


def handle(context: BrokerContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    return describe_client_quotas(context.ports.metadata, request)


def error_response(
    _context: BrokerContext, _request: DescribeClientQuotasRequest, error: KafkaError
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=ApiError.of(error).message, entries=None
    )
