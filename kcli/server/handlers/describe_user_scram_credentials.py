"""DescribeUserScramCredentials (key 50, version 0): mechanisms and iterations of users, without keys (KIP-554).

The rules are in controller/scram.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.controller.decision import ApiError
from kcli.controller.scram import describe_user_scram_credentials
from kcli.errors import KafkaError
from kcli.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.context import RequestContext


@dataclass(frozen=True, slots=True)
class Ports:
    loader: MetadataLoader


Context = RequestContext[Ports]


async def handle(
    context: Context, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    return await describe_user_scram_credentials(context.ports.loader.image, request, context.pace)


async def error_response(
    _context: Context, request: DescribeUserScramCredentialsRequest, error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    """The response with the error at the top, and in one result for each user of the request. As in Kafka, these
    results contain no user names.
    """
    message = ApiError.of(error).message
    refused = DescribeUserScramCredentialsResult(error_code=error.code, error_message=message)
    return DescribeUserScramCredentialsResponse(
        error_code=error.code, error_message=message, results=(refused,) * len(request.users or ())
    )
