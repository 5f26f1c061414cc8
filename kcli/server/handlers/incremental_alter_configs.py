"""IncrementalAlterConfigs (key 44, versions 0-1): changes single configs of resources (KIP-339).

The broker checks changes of its own configuration. The controller checks all other changes. The broker changes its log
levels (KIP-412) without the controller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kcli.controller.api import INCREMENTAL_ALTER_CONFIGS
from kcli.controller.config_requests import incremental_changes
from kcli.controller.decision import ApiError
from kcli.errors import ErrorCode, InvalidRequestException, KafkaError
from kcli.model.configs import ConfigOperation, ConfigResourceType
from kcli.model.pace import mapped
from kcli.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kcli.server.handlers.shared import broker_loggers
from kcli.server.handlers.shared.config_changes import (
    CHECK_COST,
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


async def handle(
    context: Context, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    resources = request.resources
    errors = await checked(
        context, resources, partial(_check, context), incremental_changes, replace_all=False
    )
    own, others = await _split(context, await passed(context, resources, errors))
    if not request.validate_only:
        for resource in own:
            broker_loggers.apply(incremental_changes(resource))
    decided: Iterator[AlterConfigsResourceResponse] = iter(())
    if others:
        answer = await ask_controller(context, INCREMENTAL_ALTER_CONFIGS, replace(request, resources=others))
        decided = iter(answer.responses)
    responses = await merged(
        context,
        resources,
        errors,
        lambda resource, error: _result(resource, error.code, _text(resource, error)),
        lambda resource: (
            None if resource.resource_type == ConfigResourceType.BROKER_LOGGER else next(decided)
        ),
    )
    return IncrementalAlterConfigsResponse(responses=responses)


async def _split(
    context: Context, resources: tuple[AlterConfigsResource, ...]
) -> tuple[list[AlterConfigsResource], tuple[AlterConfigsResource, ...]]:
    """Divides the resources into resources that this broker changes itself, and resources that the controller
    changes.
    """
    own: list[AlterConfigsResource] = []
    others: list[AlterConfigsResource] = []
    for resource in resources:
        await context.pace(REFUSAL_COST)
        (own if resource.resource_type == ConfigResourceType.BROKER_LOGGER else others).append(resource)
    return own, tuple(others)


async def error_response(
    context: Context, request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    responses = await mapped(
        context.pace,
        REFUSAL_COST,
        request.resources,
        lambda resource: _result(resource, error.code, error.message),
    )
    return IncrementalAlterConfigsResponse(responses=responses)


async def _check(context: Context, resource: AlterConfigsResource) -> None:
    require_alter(context, resource)
    await check_keys(
        context,
        resource.configs,
        lambda config: config.value is None and config.config_operation != ConfigOperation.DELETE,
    )
    for config in resource.configs:
        await context.pace(CHECK_COST)
        if config.config_operation not in _OPERATIONS:
            raise InvalidRequestException(
                f"Unknown config operation {config.config_operation} for {config.name}"
            )
    check_resource(context, resource, partial(incremental_changes, resource))


_OPERATIONS = frozenset(ConfigOperation)


def _text(resource: AlterConfigsResource, error: ApiError) -> str | None:
    """Returns the error text for a resource whose check has failed. As in Kafka, there is no text if the client has no
    permission to change log levels.
    """
    is_refused = error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return (
        None if is_refused and resource.resource_type == ConfigResourceType.BROKER_LOGGER else error.message
    )


def _result(
    resource: AlterConfigsResource, code: ErrorCode, message: str | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
