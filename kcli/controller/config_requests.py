"""Serves IncrementalAlterConfigs and AlterConfigs. If a resource is refused, the other resources still change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from kcli.controller.configs import ConfigChange, ResourceChange, alter_all
from kcli.controller.decision import Decision, DecisionSteps, StepCounter
from kcli.controller.settings import ControllerSettings
from kcli.metadata.image import MetadataImage
from kcli.model.configs import ConfigOperation
from kcli.protocol.messages import alter_configs, incremental_alter_configs
from kcli.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kcli.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def incremental_changes(resource: incremental_alter_configs.AlterConfigsResource) -> Iterator[ConfigChange]:
    """The operations on the keys of a resource. Raises ValueError for an unknown operation."""
    for config in resource.configs:
        yield ConfigChange(config.name, ConfigOperation(config.config_operation), config.value)


def replacing_changes(resource: alter_configs.AlterConfigsResource) -> Iterator[ConfigChange]:
    """The new values of a resource."""
    for config in resource.configs:
        yield ConfigChange(config.name, ConfigOperation.SET, config.value)


def incremental(
    image: Callable[[], MetadataImage], settings: ControllerSettings, request: IncrementalAlterConfigsRequest
) -> DecisionSteps[IncrementalAlterConfigsResponse]:
    """Changes single keys of each resource (KIP-339)."""
    changes = (
        ResourceChange(resource.resource_type, resource.resource_name, partial(incremental_changes, resource))
        for resource in request.resources
    )
    records, errors = yield from alter_all(image, changes, settings, validate_only=request.validate_only)
    responses = []
    step = StepCounter()
    # If the response is large, the records are appended before it is complete. It is sent when they are committed.
    for resource, error in zip(request.resources, errors, strict=True):
        if step.is_full:
            yield records
            records = ()
        responses.append(
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return Decision(records, IncrementalAlterConfigsResponse(responses=tuple(responses)))


def replacing(
    image: Callable[[], MetadataImage], settings: ControllerSettings, request: AlterConfigsRequest
) -> DecisionSteps[AlterConfigsResponse]:
    """Replaces all keys of each resource (AlterConfigs, the older API)."""
    changes = (
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            partial(replacing_changes, resource),
            replace_all=True,
        )
        for resource in request.resources
    )
    records, errors = yield from alter_all(image, changes, settings, validate_only=request.validate_only)
    responses = []
    step = StepCounter()
    for resource, error in zip(request.resources, errors, strict=True):
        if step.is_full:
            yield records
            records = ()
        responses.append(
            alter_configs.AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return Decision(records, AlterConfigsResponse(responses=tuple(responses)))
