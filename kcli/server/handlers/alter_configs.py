"""AlterConfigs (key 33, versions 0-2): the given configs replace all configs of a resource."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kcli.controller.api import ALTER_CONFIGS
from kcli.controller.config_requests import replacing_changes
from kcli.errors import ErrorCode, InvalidRequestException, KafkaError
from kcli.model.configs import ConfigResourceType
from kcli.model.pace import mapped
from kcli.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kcli.server.handlers.shared.config_changes import (
    Ports,
    check_keys,
    check_resource,
    checked,
    merged,
    passed,
    require_alter,
)
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.context import REFUSAL_COST, RequestContext

Context = RequestContext[Ports]


async def handle(context: Context, request: AlterConfigsRequest) -> AlterConfigsResponse:
    resources = request.resources
    errors = await checked(context, resources, partial(_check, context), replacing_changes, replace_all=True)
    accepted = await passed(context, resources, errors)
    decided: Iterator[AlterConfigsResourceResponse] = iter(())
    if accepted:
        answer = await ask_controller(context, ALTER_CONFIGS, replace(request, resources=accepted))
        decided = iter(answer.responses)
    responses = await merged(
        context,
        resources,
        errors,
        lambda resource, error: _refused(resource, error.code, error.message),
        lambda _: next(decided),
    )
    return AlterConfigsResponse(responses=responses)


async def error_response(
    context: Context, request: AlterConfigsRequest, error: KafkaError
) -> AlterConfigsResponse:
    responses = await mapped(
        context.pace,
        REFUSAL_COST,
        request.resources,
        lambda resource: _refused(resource, error.code, error.message),
    )
    return AlterConfigsResponse(responses=responses)


async def _check(context: Context, resource: AlterConfigsResource) -> None:
    await check_keys(context, resource.configs, lambda config: config.value is None)
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
