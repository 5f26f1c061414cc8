"""AlterUserScramCredentials (key 51, version 0): forwards the request to the controller, which changes the SCRAM
credentials of users (KIP-554). The rules are in controller/scram.py."""

from __future__ import annotations

from kcli.controller.api import ALTER_USER_SCRAM_CREDENTIALS
from kcli.errors import KafkaError
from kcli.model.java_order import hash_order_in_slices
from kcli.model.pace import mapped
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import REFUSAL_COST, RequestContext

Context = RequestContext[Ports]


async def handle(
    context: Context, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    return await ask_controller(context, ALTER_USER_SCRAM_CREDENTIALS, request)


async def error_response(
    context: Context, request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    users = [deletion.name for deletion in request.deletions] + [
        upsertion.name for upsertion in request.upsertions
    ]
    results = await mapped(
        context.pace,
        REFUSAL_COST,
        await hash_order_in_slices(users, context.pace, REFUSAL_COST),
        lambda user: AlterUserScramCredentialsResult(
            user=user, error_code=error.code, error_message=error.message
        ),
    )
    return AlterUserScramCredentialsResponse(results=results)
