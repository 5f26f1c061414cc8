"""Serves IncrementalAlterConfigs and AlterConfigs. If a resource is refused, the other resources still change."""

from __future__ import annotations

from kcli.controller.configs import ConfigChange, ResourceChange, alter_all
from kcli.controller.decision import Decision, decide
from kcli.controller.settings import ControllerSettings
from kcli.metadata.image import MetadataImage
from kcli.model.configs import ConfigOperation
from kcli.protocol.messages import alter_configs, incremental_alter_configs
from kcli.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kcli.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def incremental(
    image: MetadataImage, settings: ControllerSettings, request: IncrementalAlterConfigsRequest
) -> Decision[IncrementalAlterConfigsResponse]:
    """Changes single keys of each resource (KIP-339)."""
    asked = [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [
                ConfigChange(config.name, ConfigOperation(config.config_operation), config.value)
                for config in resource.configs
            ],
        )
        for resource in request.resources
    ]
    records, errors = alter_all(image, asked, settings)
    response = IncrementalAlterConfigsResponse(
        responses=tuple(
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, error in zip(request.resources, errors, strict=True)
        )
    )
    return decide([] if request.validate_only else records, response)


def replacing(
    image: MetadataImage, settings: ControllerSettings, request: AlterConfigsRequest
) -> Decision[AlterConfigsResponse]:
    """Replaces all keys of each resource (AlterConfigs, the older API)."""
    asked = [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [ConfigChange(config.name, ConfigOperation.SET, config.value) for config in resource.configs],
            replace_all=True,
        )
        for resource in request.resources
    ]
    records, errors = alter_all(image, asked, settings)
    response = AlterConfigsResponse(
        responses=tuple(
            alter_configs.AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, error in zip(request.resources, errors, strict=True)
        )
    )
    return decide([] if request.validate_only else records, response)
