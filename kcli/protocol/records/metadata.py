"""The records of `__cluster_metadata`: every type and version that Kafka 4.x reads (KIP-500 and its successors).

A record's value is `frame version 1 | api key | record version | fields`. The first three are unsigned varints. The
cluster's metadata.version decides which record version a controller writes (`write_version_for`).
"""

from __future__ import annotations

import re
from typing import Annotated
from uuid import UUID

from kcli.model.ids import (
    FIRST_PRODUCER_ID,
    NO_LEADER,
    NO_LEADER_EPOCH,
    ZERO_ID,
    BrokerId,
    LeaderEpoch,
    ProducerId,
)
from kcli.protocol.fields import Int8, Int16, Int32, Int64, Number, UInt16, since, tag
from kcli.protocol.records.framing import decode_framed, encode_framed
from kcli.protocol.records.schema import Json, record, schema_of, to_json

NodeInt32 = Annotated[BrokerId, Number("i")]
EpochInt32 = Annotated[LeaderEpoch, Number("i")]
ProducerInt64 = Annotated[ProducerId, Number("q")]

NO_LEADER_CHANGE = BrokerId(-2)
# The levels of metadata.version at which versions of records change.
METADATA_VERSION_3_4_IV0 = 8
METADATA_VERSION_3_7_IV2 = 17
METADATA_VERSION_4_0_IV1 = 23
METADATA_VERSION_4_3_IV0 = 30


@record()
class BrokerEndpoint:
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


@record()
class BrokerFeature:
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@record(0, versions=(0, 4))
class RegisterBrokerRecord:
    broker_id: NodeInt32 = BrokerId(0)
    is_migrating_zk_broker: Annotated[bool, since(2)] = False
    incarnation_id: UUID = ZERO_ID
    broker_epoch: Int64 = 0
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = ""
    fenced: bool = True
    in_controlled_shutdown: Annotated[bool, since(1)] = False
    log_dirs: Annotated[tuple[UUID, ...], since(3), tag(0)] = ()
    cordoned_log_dirs: Annotated[tuple[UUID, ...] | None, since(4), tag(1)] = None


@record(1, versions=(0, 0))
class UnregisterBrokerRecord:
    broker_id: NodeInt32 = BrokerId(0)
    broker_epoch: Int64 = 0


@record(2, versions=(0, 0))
class TopicRecord:
    name: str = ""
    topic_id: UUID = ZERO_ID


@record(3, versions=(0, 2))
class PartitionRecord:
    partition_id: Int32 = -1
    topic_id: UUID = ZERO_ID
    replicas: tuple[NodeInt32, ...] = ()
    isr: tuple[NodeInt32, ...] = ()
    removing_replicas: tuple[NodeInt32, ...] = ()
    adding_replicas: tuple[NodeInt32, ...] = ()
    leader: NodeInt32 = NO_LEADER
    leader_recovery_state: Annotated[Int8, tag(0)] = 0
    leader_epoch: EpochInt32 = NO_LEADER_EPOCH
    partition_epoch: Int32 = -1
    directories: Annotated[tuple[UUID, ...], since(1)] = ()
    eligible_leader_replicas: Annotated[tuple[NodeInt32, ...] | None, since(2), tag(1)] = None
    last_known_elr: Annotated[tuple[NodeInt32, ...] | None, since(2), tag(2)] = None


@record(4, versions=(0, 0))
class ConfigRecord:
    resource_type: Int8 = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""


@record(5, versions=(0, 2))
class PartitionChangeRecord:
    """A change of a partition. Fields that are null or absent do not change. Each record increments the partition
    epoch."""

    partition_id: Int32 = -1
    topic_id: UUID = ZERO_ID
    isr: Annotated[tuple[NodeInt32, ...] | None, tag(0)] = None
    leader: Annotated[NodeInt32, tag(1)] = NO_LEADER_CHANGE
    replicas: Annotated[tuple[NodeInt32, ...] | None, tag(2)] = None
    removing_replicas: Annotated[tuple[NodeInt32, ...] | None, tag(3)] = None
    adding_replicas: Annotated[tuple[NodeInt32, ...] | None, tag(4)] = None
    leader_recovery_state: Annotated[Int8, tag(5)] = -1
    eligible_leader_replicas: Annotated[tuple[NodeInt32, ...] | None, since(2), tag(6)] = None
    last_known_elr: Annotated[tuple[NodeInt32, ...] | None, since(2), tag(7)] = None
    directories: Annotated[tuple[UUID, ...] | None, since(1), tag(8)] = None


@record(7, versions=(0, 0))
class FenceBrokerRecord:
    id: NodeInt32 = BrokerId(0)
    epoch: Int64 = 0


@record(8, versions=(0, 0))
class UnfenceBrokerRecord:
    id: NodeInt32 = BrokerId(0)
    epoch: Int64 = 0


@record(9, versions=(0, 0))
class RemoveTopicRecord:
    topic_id: UUID = ZERO_ID


@record(10, versions=(0, 0))
class DelegationTokenRecord:
    owner: str = ""
    requester: str = ""
    renewers: tuple[str, ...] = ()
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: str = ""


@record(11, versions=(0, 0))
class UserScramCredentialRecord:
    name: str = ""
    mechanism: Int8 = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: Int32 = 0


@record(12, versions=(0, 0))
class FeatureLevelRecord:
    name: str = ""
    feature_level: Int16 = 0


@record()
class QuotaEntity:
    entity_type: str = ""
    entity_name: str | None = ""


@record(14, versions=(0, 0))
class ClientQuotaRecord:
    entity: tuple[QuotaEntity, ...] = ()
    key: str = ""
    value: float = 0.0
    remove: bool = False


@record(15, versions=(0, 0))
class ProducerIdsRecord:
    broker_id: NodeInt32 = BrokerId(0)
    broker_epoch: Int64 = -1
    next_producer_id: ProducerInt64 = FIRST_PRODUCER_ID


@record(17, versions=(0, 3))
class BrokerRegistrationChangeRecord:
    broker_id: NodeInt32 = BrokerId(0)
    broker_epoch: Int64 = 0
    fenced: Annotated[Int8, tag(0)] = 0
    in_controlled_shutdown: Annotated[Int8, since(1), tag(1)] = 0
    log_dirs: Annotated[tuple[UUID, ...], since(2), tag(2)] = ()
    cordoned_log_dirs: Annotated[tuple[UUID, ...] | None, since(3), tag(3)] = None


@record(18, versions=(0, 0))
class AccessControlEntryRecord:
    id: UUID = ZERO_ID
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 0
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@record(19, versions=(0, 0))
class RemoveAccessControlEntryRecord:
    id: UUID = ZERO_ID


@record(20, versions=(0, 0))
class NoOpRecord:
    """A record without content. An idle leader writes this record, so that followers see that the leader is alive."""


@record(21, versions=(0, 0))
class ZkMigrationStateRecord:
    zk_migration_state: Int8 = 0


@record(22, versions=(0, 0))
class RemoveUserScramCredentialRecord:
    name: str = ""
    mechanism: Int8 = 0


@record(23, versions=(0, 0))
class BeginTransactionRecord:
    name: Annotated[str | None, tag(0)] = None


@record(24, versions=(0, 0))
class EndTransactionRecord:
    pass


@record(25, versions=(0, 0))
class AbortTransactionRecord:
    reason: Annotated[str | None, tag(0)] = None


@record(26, versions=(0, 0))
class RemoveDelegationTokenRecord:
    token_id: str = ""


@record()
class ControllerEndpoint:
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


@record()
class ControllerFeature:
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@record(27, versions=(0, 0))
class RegisterControllerRecord:
    controller_id: NodeInt32 = BrokerId(0)
    incarnation_id: UUID = ZERO_ID
    zk_migration_ready: bool = False
    end_points: tuple[ControllerEndpoint, ...] = ()
    features: tuple[ControllerFeature, ...] = ()


@record(28, versions=(0, 0))
class ClearElrRecord:
    """Clears the ELRs of a topic. An empty topic name clears the ELRs of all topics."""

    topic_name: str = ""


@record(29, versions=(0, 0))
class UnregisterControllerRecord:
    controller_id: NodeInt32 = BrokerId(0)


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | DelegationTokenRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
    | ZkMigrationStateRecord
    | RemoveUserScramCredentialRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RemoveDelegationTokenRecord
    | RegisterControllerRecord
    | ClearElrRecord
    | UnregisterControllerRecord
)

_TYPES: dict[int, type[MetadataRecord]] = {schema_of(cls).key: cls for cls in MetadataRecord.__args__}


def write_version_for(record: MetadataRecord, metadata_version: int) -> int:
    """The version of `record` that the controller of a cluster at this level of metadata.version writes."""
    match record:
        case RegisterBrokerRecord():
            return 1 + _reached(
                metadata_version,
                METADATA_VERSION_3_4_IV0,
                METADATA_VERSION_3_7_IV2,
                METADATA_VERSION_4_3_IV0,
            )
        case PartitionRecord() | PartitionChangeRecord():
            return _reached(metadata_version, METADATA_VERSION_3_7_IV2, METADATA_VERSION_4_0_IV1)
        case BrokerRegistrationChangeRecord():
            return _lowest_version(record)
        case _:
            return 0


def _reached(metadata_version: int, *thresholds: int) -> int:
    return sum(metadata_version >= threshold for threshold in thresholds)


def _lowest_version(change: BrokerRegistrationChangeRecord) -> int:
    """The lowest version that has all fields that the record changes. Kafka's controller writes this version."""
    if change.cordoned_log_dirs is not None:
        return 3
    if change.log_dirs:
        return 2
    return 1 if change.in_controlled_shutdown else 0


def encode_metadata_record(record: MetadataRecord, version: int) -> bytes:
    """Encodes a record as a value of the metadata log, including the framing."""
    return encode_framed(record, version)


def decode_metadata_record(value: bytes) -> tuple[MetadataRecord, int]:
    """Decodes a record. Returns the record and its version. Raises CorruptRecordError for invalid bytes and unknown
    types."""
    return decode_framed(_TYPES, value)


def metadata_record_type_name(record: MetadataRecord) -> str:
    """The name that Kafka's tools print for a record, such as `FEATURE_LEVEL_RECORD` for `FeatureLevelRecord`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(record).__name__).upper()


def metadata_record_to_json(record: MetadataRecord, version: int) -> dict[str, Json]:
    """Converts a record to the JSON of dump-log and the metadata shell: `{"type", "version", "data"}`."""
    return {
        "type": metadata_record_type_name(record),
        "version": version,
        "data": to_json(record, version),
    }
