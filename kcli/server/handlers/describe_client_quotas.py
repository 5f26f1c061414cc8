"""DescribeClientQuotas (key 48, versions 0-1): the quotas that match a filter (KIP-546). The rules are in
controller/client_quotas.py."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.controller.client_quotas import describe_client_quotas
from kcli.controller.decision import ApiError
from kcli.errors import KafkaError
from kcli.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.context import RequestContext


@dataclass(frozen=True, slots=True)
class Ports:
    loader: MetadataLoader


Context = RequestContext[Ports]


async def handle(context: Context, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    return await describe_client_quotas(context.ports.loader.image, request, context.pace)


async def error_response(
    _context: Context, _request: DescribeClientQuotasRequest, error: KafkaError
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=ApiError.of(error).message, entries=None
    )
