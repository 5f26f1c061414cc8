"""AlterUserScramCredentials (key 51, version 0): asks the controller (KIP-554); its rules: controller/scram.py."""

from __future__ import annotations

from kcli.errors import KafkaError
from kcli.model.java_order import hash_order
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kcli.server.requests.context import RequestContext


async def handle(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    return await context.broker.quorum.alter_user_scram_credentials(request)


def error_response(
    _context: RequestContext, request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    users = hash_order(
        [*(each.name for each in request.deletions), *(each.name for each in request.upsertions)]
    )
    return AlterUserScramCredentialsResponse(
        results=tuple(
            AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
            for user in users
        )
    )
