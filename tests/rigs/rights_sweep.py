"""The rights that each API asks for, as data: a small request of each API, and the grants with which it succeeds.

Each row is sent by four users: without any ACL, with Describe on everything, with exactly the grants of the row, and
with the grants and a denial of each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kcli.errors import ErrorCode
from kcli.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey
from rigs.twin.case import Data, build

NAMES: Mapping[ResourceType, Sequence[str]] = {
    ResourceType.TOPIC: ("t", "t2", "missing"),
    ResourceType.GROUP: ("g", "missing"),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
    ResourceType.TRANSACTIONAL_ID: ("x",),
    ResourceType.USER: ("User:owner",),
}
"""The only resources that ACLs of the sweep name. Nothing with the name `missing` exists."""

REFUSALS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
Grant = tuple[AclOperation, ResourceType]
BATCH = bytes(encode_batch([Record(0, 1_760_000_000_000, None, b"v", ())]))
IN_TRANSACTION = bytes(
    encode_batch(
        [Record(0, 1_760_000_000_000, None, b"v", ())],
        transactional=True,
        producer_id=9999,
        producer_epoch=0,
        base_sequence=0,
    )
)


@dataclass(frozen=True, slots=True)
class Row:
    """A request and its grants, such as `READ GROUP + READ TOPIC`.

    The first grant is checked first, so its type of resource gives the error of a client without rights. `shows` is the
    list in the answer that is empty without the grants, if the API filters its answer and refuses nothing. `on` is the
    only listener with this rule. If it is empty, the row is sent to each listener that serves the API.
    """

    key: ApiKey
    version: int
    grants: str
    request: Mapping[str, Data] = field(default_factory=dict)
    shows: str = ""
    on: str = ""

    @property
    def needs(self) -> tuple[Grant, ...]:
        parts = (part.split() for part in self.grants.split(" + "))
        return tuple((AclOperation[operation], ResourceType[kind]) for operation, kind in parts)

    @property
    def refusal(self) -> ErrorCode:
        return REFUSALS[self.needs[0][1]]

    @property
    def described_refusal(self) -> ErrorCode | None:
        """The error for a client that may describe everything, or None if this is enough."""
        for operation, kind in self.needs:
            if operation is not AclOperation.DESCRIBE:
                return REFUSALS[kind]
        return None

    def places(self) -> tuple[str, ...]:
        """The listeners to which the row is sent."""
        spec = API[self.key]
        roles = {"SASL": spec.on_broker, "CONTROLLER": spec.on_controller}
        if self.on:
            return (self.on,)
        return tuple(name for name, serves in roles.items() if serves)

    def message(self) -> Any:
        return build(codec.message_class(self.key, "request"), self.request)


def _topics(partition: Mapping[str, Data], more: Mapping[str, Data] | None = None) -> Mapping[str, Data]:
    return {"topics": [{"name": "t", "partitions": [partition]}], **(more or {})}


_OFFSET: Mapping[str, Data] = {"partition_index": 0, "committed_offset": 0}
_RESOURCES: tuple[tuple[str, int, str], ...] = (
    ("TOPIC", 2, "t"), ("GROUP", 32, "g"), ("CLUSTER", 4, "1"), ("CLUSTER", 16, "m"),
)  # fmt: skip
"""The types of resources with configs: the type that is checked, its number in config APIs, and a name."""

_K = ApiKey
SWEEP: tuple[Row, ...] = (
    Row(_K.PRODUCE, 9, "WRITE TOPIC", {"acks": -1, "timeout_ms": 5000, "topic_data": [
        {"name": "t", "partition_data": [{"index": 0, "records": BATCH}]}]}),
    Row(_K.PRODUCE, 9, "WRITE TRANSACTIONAL_ID + WRITE TOPIC", {
        "transactional_id": "x", "acks": -1, "timeout_ms": 5000,
        "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": IN_TRANSACTION}]}]}),
    Row(_K.FETCH, 12, "READ TOPIC", {"session_epoch": -1, "topics": [
        {"topic": "t", "partitions": [{"partition": 0}]}]}, on="SASL"),
    Row(_K.FETCH, 12, "CLUSTER_ACTION CLUSTER", {"session_epoch": -1, "cluster_id": "other"}, on="CONTROLLER"),
    Row(_K.LIST_OFFSETS, 7, "DESCRIBE TOPIC", _topics({"partition_index": 0, "timestamp": -1}, {"replica_id": -1})),
    Row(_K.METADATA, 12, "DESCRIBE TOPIC", {"topics": [{"name": "t"}]}),
    Row(_K.METADATA, 12, "DESCRIBE TOPIC", {"topics": None}, shows="topics"),
    Row(_K.OFFSET_COMMIT, 8, "READ GROUP + READ TOPIC", _topics(_OFFSET, {"group_id": "g"})),
    Row(_K.OFFSET_FETCH, 7, "DESCRIBE GROUP + DESCRIBE TOPIC", {
        "group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}),
    Row(_K.FIND_COORDINATOR, 3, "DESCRIBE GROUP", {"key": "g", "key_type": 0}),
    Row(_K.FIND_COORDINATOR, 4, "DESCRIBE TRANSACTIONAL_ID", {"coordinator_keys": ["x"], "key_type": 1}),
    Row(_K.FIND_COORDINATOR, 6, "CLUSTER_ACTION CLUSTER", {"coordinator_keys": ["g:x:0"], "key_type": 2}),
    Row(_K.JOIN_GROUP, 5, "READ GROUP", {"group_id": "g", "protocol_type": "consumer"}),
    Row(_K.SYNC_GROUP, 3, "READ GROUP", {"group_id": "g", "member_id": "m"}),
    Row(_K.HEARTBEAT, 3, "READ GROUP", {"group_id": "g", "member_id": "m"}),
    Row(_K.LEAVE_GROUP, 3, "READ GROUP", {"group_id": "g", "members": [{"member_id": "m"}]}),
    Row(_K.DESCRIBE_GROUPS, 5, "DESCRIBE GROUP", {"groups": ["g"]}),
    Row(_K.LIST_GROUPS, 4, "DESCRIBE GROUP", shows="groups"),
    Row(_K.LIST_GROUPS, 4, "DESCRIBE CLUSTER", shows="groups"),
    Row(_K.CREATE_TOPICS, 7, "CREATE TOPIC", {"validate_only": True, "timeout_ms": 5000, "topics": [
        {"name": "t", "num_partitions": 1, "replication_factor": 1}]}),
    Row(_K.DELETE_TOPICS, 6, "DESCRIBE TOPIC", {"timeout_ms": 5000, "topics": [{"name": "missing"}]}),
    Row(_K.DELETE_RECORDS, 2, "DELETE TOPIC", _topics({"partition_index": 0, "offset": 0})),
    Row(_K.INIT_PRODUCER_ID, 4, "WRITE TRANSACTIONAL_ID", {
        "transactional_id": "x", "transaction_timeout_ms": 60_000}),
    Row(_K.INIT_PRODUCER_ID, 4, "IDEMPOTENT_WRITE CLUSTER", {"transactional_id": None}),
    Row(_K.OFFSET_FOR_LEADER_EPOCH, 4, "DESCRIBE TOPIC", {"replica_id": -1, "topics": [
        {"topic": "t", "partitions": [{"partition": 0, "current_leader_epoch": -1}]}]}),
    Row(_K.ADD_PARTITIONS_TO_TXN, 3, "WRITE TRANSACTIONAL_ID + WRITE TOPIC", {
        "v3_and_below_transactional_id": "x", "v3_and_below_producer_id": 9999,
        "v3_and_below_topics": [{"name": "t", "partitions": [0]}]}),
    Row(_K.ADD_PARTITIONS_TO_TXN, 4, "CLUSTER_ACTION CLUSTER", {"transactions": [
        {"transactional_id": "x", "verify_only": True, "topics": [{"name": "t", "partitions": [0]}]}]}),
    Row(_K.ADD_OFFSETS_TO_TXN, 3, "WRITE TRANSACTIONAL_ID + READ GROUP", {
        "transactional_id": "x", "group_id": "g", "producer_id": 9999}),
    Row(_K.END_TXN, 3, "WRITE TRANSACTIONAL_ID", {"transactional_id": "x", "producer_id": 9999}),
    Row(_K.WRITE_TXN_MARKERS, 1, "ALTER CLUSTER", {"markers": [
        {"producer_id": 9998, "topics": [{"name": "t", "partition_indexes": [0]}]}]}),
    Row(_K.WRITE_TXN_MARKERS, 1, "CLUSTER_ACTION CLUSTER", {"markers": [
        {"producer_id": 9998, "topics": [{"name": "t", "partition_indexes": [0]}]}]}),
    Row(_K.TXN_OFFSET_COMMIT, 3, "WRITE TRANSACTIONAL_ID + READ GROUP + READ TOPIC",
        _topics(_OFFSET, {"transactional_id": "x", "group_id": "g", "producer_id": 9999})),
    Row(_K.DESCRIBE_ACLS, 3, "DESCRIBE CLUSTER", {
        "resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1,
        "resource_name_filter": None, "principal_filter": None, "host_filter": None}),
    Row(_K.CREATE_ACLS, 3, "ALTER CLUSTER", {"creations": [{
        "resource_type": 2, "resource_name": "unused", "resource_pattern_type": 3, "principal": "User:unused",
        "host": "*", "operation": 3, "permission_type": 3}]}),
    Row(_K.DELETE_ACLS, 3, "ALTER CLUSTER", {"filters": [{
        "resource_type_filter": 2, "resource_name_filter": "unused", "pattern_type_filter": 3,
        "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}]}),
    *(Row(_K.DESCRIBE_CONFIGS, 4, f"DESCRIBE_CONFIGS {kind}", {"resources": [
        {"resource_type": number, "resource_name": name, "configuration_keys": None}]}, on="SASL")
      for kind, number, name in _RESOURCES),
    *(Row(_K.ALTER_CONFIGS, 2, f"ALTER_CONFIGS {kind}", {"validate_only": True, "resources": [
        {"resource_type": number, "resource_name": name}]})
      for kind, number, name in _RESOURCES),
    *(Row(_K.INCREMENTAL_ALTER_CONFIGS, 1, f"ALTER_CONFIGS {kind}", {"validate_only": True, "resources": [
        {"resource_type": number, "resource_name": name}]})
      for kind, number, name in _RESOURCES),
    Row(_K.INCREMENTAL_ALTER_CONFIGS, 1, "ALTER_CONFIGS CLUSTER", {"validate_only": True, "resources": [
        {"resource_type": 8, "resource_name": "1"}]}, on="SASL"),
    Row(_K.ALTER_REPLICA_LOG_DIRS, 2, "ALTER CLUSTER", {"dirs": [
        {"path": "/nowhere", "topics": [{"name": "t", "partitions": [0]}]}]}),
    Row(_K.DESCRIBE_LOG_DIRS, 4, "DESCRIBE CLUSTER", {"topics": []}),
    Row(_K.CREATE_PARTITIONS, 3, "ALTER TOPIC", {"validate_only": True, "timeout_ms": 5000, "topics": [
        {"name": "t", "count": 2, "assignments": None}]}),
    Row(_K.CREATE_DELEGATION_TOKEN, 3, "CREATE_TOKENS USER", {
        "owner_principal_type": "User", "owner_principal_name": "owner", "max_lifetime_ms": -1}),
    Row(_K.DESCRIBE_DELEGATION_TOKEN, 3, "DESCRIBE_TOKENS USER", {"owners": [
        {"principal_type": "User", "principal_name": "owner"}]}, shows="tokens", on="SASL"),
    Row(_K.DELETE_GROUPS, 2, "DELETE GROUP", {"groups_names": ["missing"]}),
    Row(_K.ELECT_LEADERS, 2, "ALTER CLUSTER", {"timeout_ms": 5000, "topic_partitions": [
        {"topic": "t", "partitions": [0]}]}),
    Row(_K.ALTER_PARTITION_REASSIGNMENTS, 1, "ALTER CLUSTER", {"timeout_ms": 5000, "topics": [
        {"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}]}),
    Row(_K.LIST_PARTITION_REASSIGNMENTS, 0, "DESCRIBE CLUSTER", {"topics": None}),
    Row(_K.OFFSET_DELETE, 0, "DELETE GROUP + READ TOPIC", _topics({"partition_index": 0}, {"group_id": "g"})),
    Row(_K.DESCRIBE_CLIENT_QUOTAS, 1, "DESCRIBE_CONFIGS CLUSTER"),
    Row(_K.ALTER_CLIENT_QUOTAS, 1, "ALTER_CONFIGS CLUSTER", {"validate_only": True, "entries": [
        {"entity": [{"entity_type": "user", "entity_name": "u"}]}]}),
    Row(_K.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, "DESCRIBE CLUSTER", {"users": None}),
    Row(_K.ALTER_USER_SCRAM_CREDENTIALS, 0, "ALTER CLUSTER", {"deletions": [{"name": "u", "mechanism": 1}]}),
    Row(_K.VOTE, 2, "CLUSTER_ACTION CLUSTER", {"cluster_id": "other"}),
    Row(_K.BEGIN_QUORUM_EPOCH, 1, "CLUSTER_ACTION CLUSTER", {"cluster_id": "other"}),
    Row(_K.END_QUORUM_EPOCH, 1, "CLUSTER_ACTION CLUSTER", {"cluster_id": "other"}),
    Row(_K.DESCRIBE_QUORUM, 2, "DESCRIBE CLUSTER", {"topics": [
        {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}),
    Row(_K.ALTER_PARTITION, 3, "CLUSTER_ACTION CLUSTER", {"broker_id": 99}),
    Row(_K.UPDATE_FEATURES, 1, "ALTER CLUSTER", {"timeout_ms": 5000, "validate_only": True}),
    Row(_K.ENVELOPE, 0, "CLUSTER_ACTION CLUSTER", {
        "request_data": b"", "request_principal": b"", "client_host_address": b""}),
    Row(_K.FETCH_SNAPSHOT, 1, "CLUSTER_ACTION CLUSTER", {"cluster_id": "other"}),
    Row(_K.DESCRIBE_CLUSTER, 1, "ALTER CLUSTER", {"endpoint_type": 2}, on="CONTROLLER"),
    Row(_K.DESCRIBE_PRODUCERS, 0, "READ TOPIC", {"topics": [{"name": "t", "partition_indexes": [0]}]}),
    Row(_K.BROKER_REGISTRATION, 4, "CLUSTER_ACTION CLUSTER", {"broker_id": 99, "cluster_id": "other"}),
    Row(_K.BROKER_HEARTBEAT, 1, "CLUSTER_ACTION CLUSTER", {"broker_id": 99}),
    Row(_K.UNREGISTER_BROKER, 0, "ALTER CLUSTER", {"broker_id": 99}),
    Row(_K.DESCRIBE_TRANSACTIONS, 0, "DESCRIBE TRANSACTIONAL_ID", {"transactional_ids": ["x"]}),
    Row(_K.LIST_TRANSACTIONS, 1, "DESCRIBE TRANSACTIONAL_ID", shows="transaction_states"),
    Row(_K.ALLOCATE_PRODUCER_IDS, 0, "CLUSTER_ACTION CLUSTER", {"broker_id": 99}),
    Row(_K.CONSUMER_GROUP_HEARTBEAT, 1, "READ GROUP + DESCRIBE TOPIC", {
        "group_id": "g", "member_id": "m", "member_epoch": 5, "subscribed_topic_names": ["t"]}),
    Row(_K.CONSUMER_GROUP_DESCRIBE, 1, "DESCRIBE GROUP", {"group_ids": ["g"]}),
    Row(_K.CONTROLLER_REGISTRATION, 0, "CLUSTER_ACTION CLUSTER", {"controller_id": 99}),
    Row(_K.ASSIGN_REPLICAS_TO_DIRS, 0, "CLUSTER_ACTION CLUSTER", {"broker_id": 99}),
    Row(_K.LIST_CONFIG_RESOURCES, 1, "DESCRIBE_CONFIGS CLUSTER"),
    Row(_K.DESCRIBE_TOPIC_PARTITIONS, 0, "DESCRIBE TOPIC", {"topics": [{"name": "t"}]}),
    Row(_K.DESCRIBE_TOPIC_PARTITIONS, 0, "DESCRIBE TOPIC", shows="topics"),
    Row(_K.ADD_RAFT_VOTER, 0, "ALTER CLUSTER", {"cluster_id": "other"}),
    Row(_K.REMOVE_RAFT_VOTER, 0, "ALTER CLUSTER", {"cluster_id": "other"}),
    Row(_K.UPDATE_RAFT_VOTER, 0, "CLUSTER_ACTION CLUSTER", {"cluster_id": "other"}),
    # The last rows, because the topics do not exist after them.
    Row(_K.DELETE_TOPICS, 6, "DELETE TOPIC", {"timeout_ms": 5000, "topics": [{"name": "t"}]}, on="SASL"),
    Row(_K.DELETE_TOPICS, 6, "DELETE TOPIC", {"timeout_ms": 5000, "topics": [{"name": "t2"}]}, on="CONTROLLER"),
)  # fmt: skip
