"""The registrations of controllers: their endpoints and the feature levels that they support (KIP-919)."""

from __future__ import annotations

from kcli.config.features import CONTROLLER_REGISTRATION_FROM
from kcli.controller.decision import Decision
from kcli.errors import UnsupportedVersionException
from kcli.metadata import values
from kcli.metadata.image import MetadataImage
from kcli.model.ids import BrokerId
from kcli.protocol.messages import controller_registration as cr
from kcli.protocol.records.metadata import ControllerEndpoint, ControllerFeature, RegisterControllerRecord


def register_controller(
    image: MetadataImage, request: cr.ControllerRegistrationRequest
) -> Decision[cr.ControllerRegistrationResponse]:
    """Writes the endpoints and features of a controller.

    Raises UnsupportedVersionException if the finalized metadata.version has no such record.
    """
    if image.metadata_version < CONTROLLER_REGISTRATION_FROM.level:
        raise UnsupportedVersionException(
            "The current MetadataVersion is too old to support controller registrations."
        )
    record = RegisterControllerRecord(
        controller_id=BrokerId(request.controller_id),
        incarnation_id=values.known_id(request.incarnation_id),
        zk_migration_ready=request.zk_migration_ready,
        end_points=tuple(
            ControllerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ),
        features=tuple(
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ),
    )
    return Decision((record,), cr.ControllerRegistrationResponse(error_message=None))
