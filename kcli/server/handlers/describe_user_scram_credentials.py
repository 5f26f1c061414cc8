"""DescribeUserScramCredentials (key 50, version 0): mechanisms and iterations of users, without keys (KIP-554).

The rules are in controller/scram.py.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.controller.decision import ApiError
from kcli.controller.scram import describe_user_scram_credentials
from kcli.errors import KafkaError
from kcli.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.turns import run_in_turns

USERS_PER_TURN = 200
"""Users that are described in one iteration of the event loop. A user takes 5 µs."""


def handle(
    context: NodeContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse | Awaitable[DescribeUserScramCredentialsResponse]:
    return run_in_turns(describe_user_scram_credentials(context.ports.metadata, request), USERS_PER_TURN)


def error_response(
    _context: NodeContext, request: DescribeUserScramCredentialsRequest, error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    """The response with the error at the top, and in one result for each user of the request. As in Kafka, these
    results contain no user names.
    """
    message = ApiError.of(error).message
    refused = DescribeUserScramCredentialsResult(error_code=error.code, error_message=message)
    return DescribeUserScramCredentialsResponse(
        error_code=error.code, error_message=message, results=(refused,) * len(request.users or ())
    )
