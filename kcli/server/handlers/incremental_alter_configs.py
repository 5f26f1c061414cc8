"""IncrementalAlterConfigs (key 44, versions 0-1): changes single configs of resources (KIP-339).

The broker checks changes of its own configuration. The controller checks all other changes. The broker changes its log
levels (KIP-412) without the controller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from dataclasses import replace
from functools import partial

from kcli.controller.api import INCREMENTAL_ALTER_CONFIGS
from kcli.controller.config_requests import incremental_changes
from kcli.controller.decision import ApiError
from kcli.errors import ErrorCode, InvalidRequestException, KafkaError
from kcli.model.configs import ConfigOperation, ConfigResourceType
from kcli.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared import broker_loggers
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


async def handle(
    context: NodeContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    errors = await checked(
        context,
        request.resources,
        lambda resource: _check(context, resource),
        incremental_changes,
        replace_all=False,
    )
    accepted = await finished(run_in_turns(passed(request.resources, errors), REFUSALS_PER_TURN))
    own, others = await finished(run_in_turns(_split(accepted), REFUSALS_PER_TURN))
    if not request.validate_only:
        for resource in own:
            broker_loggers.apply(incremental_changes(resource))
    decided: Iterator[AlterConfigsResourceResponse] = iter(())
    if others:
        answer = await ask_controller(context, INCREMENTAL_ALTER_CONFIGS, replace(request, resources=others))
        decided = iter(answer.responses)
    responses = merged(
        request.resources,
        errors,
        lambda resource, error: _told(resource, error.code, _text(resource, error)),
        lambda resource: (
            None if resource.resource_type == ConfigResourceType.BROKER_LOGGER else next(decided)
        ),
    )
    return IncrementalAlterConfigsResponse(
        responses=await finished(run_in_turns(responses, REFUSALS_PER_TURN))
    )


def _split(
    resources: tuple[AlterConfigsResource, ...],
) -> Steps[tuple[list[AlterConfigsResource], tuple[AlterConfigsResource, ...]]]:
    """Divides the resources into resources that this broker changes itself, and resources that the controller
    changes.
    """
    own: list[AlterConfigsResource] = []
    others: list[AlterConfigsResource] = []
    for resource in resources:
        (own if resource.resource_type == ConfigResourceType.BROKER_LOGGER else others).append(resource)
        yield
    return own, tuple(others)


def error_response(
    _context: NodeContext, request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse | Awaitable[IncrementalAlterConfigsResponse]:
    refused = in_turns(
        request.resources, lambda each: _told(each, error.code, error.message), REFUSALS_PER_TURN
    )
    return then(refused, lambda responses: IncrementalAlterConfigsResponse(responses=tuple(responses)))


def _check(context: NodeContext, resource: AlterConfigsResource) -> Steps[None]:
    require_alter(context, resource)
    yield from check_keys(
        resource.configs,
        lambda config: config.value is None and config.config_operation != ConfigOperation.DELETE,
    )
    for config in resource.configs:
        if config.config_operation not in _OPERATIONS:
            raise InvalidRequestException(
                f"Unknown config operation {config.config_operation} for {config.name}"
            )
        yield
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


def _told(
    resource: AlterConfigsResource, code: ErrorCode, message: str | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
