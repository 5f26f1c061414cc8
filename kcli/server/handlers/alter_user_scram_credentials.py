"""AlterUserScramCredentials (key 51, version 0): forwards the request to the controller, which changes the SCRAM
credentials of users (KIP-554). The rules are in controller/scram.py."""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.controller.api import ALTER_USER_SCRAM_CREDENTIALS
from kcli.errors import KafkaError
from kcli.model.java_order import hash_order_steps
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, run_in_turns


async def handle(
    context: NodeContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    return await ask_controller(context, ALTER_USER_SCRAM_CREDENTIALS, request)


def error_response(
    _context: NodeContext, request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse | Awaitable[AlterUserScramCredentialsResponse]:
    return run_in_turns(_refused(request, error), REFUSALS_PER_TURN)


def _refused(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> Steps[AlterUserScramCredentialsResponse]:
    users = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    results = []
    for user in (yield from hash_order_steps(users)):
        results.append(
            AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
        )
        yield
    return AlterUserScramCredentialsResponse(results=tuple(results))
