"""Converts record fields to image values: ids, lists of directories, tables of endpoints, quota entities."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

from kcli.metadata.image import MIGRATING_DIRECTORY, BrokerRegistration, Endpoint, QuotaEntity, VersionRange
from kcli.protocol.records import metadata as records
from kcli.protocol.records.metadata import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
)


def directories(values: Sequence[uuid.UUID], replicas: int) -> tuple[uuid.UUID, ...]:
    """A partition's directories, one for each replica. Records that were written before KIP-858 have no directories."""
    return tuple(values) or (MIGRATING_DIRECTORY,) * replicas


def endpoints(fields: Iterable[BrokerEndpoint | ControllerEndpoint]) -> Mapping[str, Endpoint]:
    return {
        field.name: Endpoint(field.name, field.host, field.port, field.security_protocol) for field in fields
    }


def version_ranges(fields: Iterable[BrokerFeature | ControllerFeature]) -> Mapping[str, VersionRange]:
    return {
        field.name: VersionRange(field.min_supported_version, field.max_supported_version) for field in fields
    }


def quota_entity(fields: Iterable[records.QuotaEntity]) -> QuotaEntity:
    return tuple(sorted((field.entity_type, field.entity_name) for field in fields))


def broker_registration(record: RegisterBrokerRecord) -> BrokerRegistration:
    return BrokerRegistration(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=endpoints(record.end_points),
        features=version_ranges(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        directories=record.log_dirs,
        is_migrating_zk_broker=record.is_migrating_zk_broker,
    )


def known_id(value: uuid.UUID | None) -> uuid.UUID:
    """Converts an id in a message to an id in a record.

    A message has None in place of the zero id. A record has the zero id.
    """
    return MIGRATING_DIRECTORY if value is None else value
