"""Converts an image into records. These records are the content of a snapshot of the metadata log.

The records are in Kafka's order: features, brokers, controllers, topics with their partitions, configs, client quotas,
producer ids, ACLs, SCRAM credentials, delegation tokens. If these records are replayed, the result is the same image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcli.config.features import DIRECTORY_ASSIGNMENT_FROM
from kcli.metadata.image import (
    METADATA_VERSION,
    BrokerRegistration,
    ControllerRegistration,
    DelegationToken,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
    VersionRange,
)
from kcli.model.ids import NO_BROKER_EPOCH, BrokerId
from kcli.protocol.records import metadata as records


def image_records(image: MetadataImage) -> Iterator[records.MetadataRecord]:
    """Every record of the image. The record of metadata.version comes first, because the versions of all other records
    depend on it."""
    yield from _features(image)
    for broker in image.brokers.values():
        yield broker_record(broker)
    for controller in image.controllers.values():
        yield controller_record(controller)
    for topic in image.topics:
        yield from _topic_records(topic, image.metadata_version)
    yield from _config_records(image)
    yield from _client_quota_records(image)
    if image.next_producer_id > 0:
        # The image does not store which broker got the last block of ids.
        yield records.ProducerIdsRecord(
            broker_id=BrokerId(-1), broker_epoch=NO_BROKER_EPOCH, next_producer_id=image.next_producer_id
        )
    yield from _security_records(image)


def _features(image: MetadataImage) -> Iterator[records.MetadataRecord]:
    if METADATA_VERSION in image.features:
        yield records.FeatureLevelRecord(name=METADATA_VERSION, feature_level=image.metadata_version)
    for name, level in image.features.items():
        if name != METADATA_VERSION:
            yield records.FeatureLevelRecord(name=name, feature_level=level)


def broker_record(broker: BrokerRegistration) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=tuple(
            records.BrokerEndpoint(
                name=endpoint.name,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in broker.endpoints.values()
        ),
        features=tuple(
            records.BrokerFeature(
                name=name,
                min_supported_version=supported.min_version,
                max_supported_version=supported.max_version,
            )
            for name, supported in broker.features.items()
        ),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.directories,
    )


def controller_record(controller: ControllerRegistration) -> records.RegisterControllerRecord:
    return records.RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=_controller_endpoints(controller.endpoints),
        features=_controller_features(controller.features),
    )


def _controller_endpoints(endpoints: Mapping[str, Endpoint]) -> tuple[records.ControllerEndpoint, ...]:
    return tuple(
        records.ControllerEndpoint(
            name=endpoint.name,
            host=endpoint.host,
            port=endpoint.port,
            security_protocol=endpoint.security_protocol,
        )
        for endpoint in endpoints.values()
    )


def _controller_features(features: Mapping[str, VersionRange]) -> tuple[records.ControllerFeature, ...]:
    return tuple(
        records.ControllerFeature(
            name=name,
            min_supported_version=supported.min_version,
            max_supported_version=supported.max_version,
        )
        for name, supported in features.items()
    )


def _topic_records(topic: TopicImage, metadata_version: int) -> Iterator[records.MetadataRecord]:
    yield records.TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for number, partition in sorted(topic.partitions.items()):
        yield partition_record(topic, number, partition, metadata_version)


def partition_record(
    topic: TopicImage, number: int, partition: PartitionImage, metadata_version: int
) -> records.PartitionRecord:
    """The record of a whole partition. Before KIP-858, this record has no directories."""
    has_directories = metadata_version >= DIRECTORY_ASSIGNMENT_FROM.level
    return records.PartitionRecord(
        partition_id=number,
        topic_id=topic.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing,
        adding_replicas=partition.adding,
        leader=partition.leader,
        leader_recovery_state=int(partition.recovery_state),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories if has_directories else (),
        # An empty list is left out, because an absent field is read as an empty list.
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )


def _config_records(image: MetadataImage) -> Iterator[records.MetadataRecord]:
    for resource, config in image.configs.items():
        for name, value in config.items():
            yield records.ConfigRecord(
                resource_type=int(resource.type), resource_name=resource.name, name=name, value=value
            )


def _client_quota_records(image: MetadataImage) -> Iterator[records.MetadataRecord]:
    for entity, quotas in image.client_quotas.items():
        entries = tuple(records.QuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity)
        for key, value in quotas.items():
            yield records.ClientQuotaRecord(entity=entries, key=key, value=value, remove=False)


def _security_records(image: MetadataImage) -> Iterator[records.MetadataRecord]:
    for acl_id, acl in image.acls.items():
        yield records.AccessControlEntryRecord(
            id=acl_id,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission_type,
        )
    for key, credential in image.scram.items():
        yield records.UserScramCredentialRecord(
            name=key.user,
            mechanism=key.mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
    for token in image.delegation_tokens.values():
        yield delegation_token_record(token)


def delegation_token_record(token: DelegationToken) -> records.DelegationTokenRecord:
    """The record with all fields of a token. Each change of a token writes such a record."""
    return records.DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        expiration_timestamp=token.expiration_timestamp_ms,
        token_id=token.token_id,
    )
