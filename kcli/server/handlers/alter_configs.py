"""AlterConfigs (key 33, versions 0-2): the given configs replace all configs of a resource."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from dataclasses import replace
from functools import partial

from kcli.controller.api import ALTER_CONFIGS
from kcli.controller.config_requests import replacing_changes
from kcli.errors import ErrorCode, InvalidRequestException, KafkaError
from kcli.model.configs import ConfigResourceType
from kcli.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.config_changes import (
    check_keys,
    check_resource,
    checked,
    merged,
    passed,
    require_alter,
)
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.answers import finished, then
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, in_turns, run_in_turns


async def handle(context: NodeContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    errors = await checked(
        context,
        request.resources,
        lambda resource: _check(context, resource),
        replacing_changes,
        replace_all=True,
    )
    accepted = await finished(run_in_turns(passed(request.resources, errors), REFUSALS_PER_TURN))
    decided: Iterator[AlterConfigsResourceResponse] = iter(())
    if accepted:
        answer = await ask_controller(context, ALTER_CONFIGS, replace(request, resources=accepted))
        decided = iter(answer.responses)
    responses = merged(
        request.resources,
        errors,
        lambda resource, error: _refused(resource, error.code, error.message),
        lambda _: next(decided),
    )
    return AlterConfigsResponse(responses=await finished(run_in_turns(responses, REFUSALS_PER_TURN)))


def error_response(
    _context: NodeContext, request: AlterConfigsRequest, error: KafkaError
) -> AlterConfigsResponse | Awaitable[AlterConfigsResponse]:
    refused = in_turns(
        request.resources, lambda each: _refused(each, error.code, error.message), REFUSALS_PER_TURN
    )
    return then(refused, lambda responses: AlterConfigsResponse(responses=tuple(responses)))


def _check(context: NodeContext, resource: AlterConfigsResource) -> Steps[None]:
    yield from check_keys(resource.configs, lambda config: config.value is None)
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        raise InvalidRequestException(f"Unknown resource type {resource.resource_type}")
    require_alter(context, resource)
    check_resource(context, resource, partial(replacing_changes, resource))


def _refused(
    resource: AlterConfigsResource, code: ErrorCode, message: str | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
