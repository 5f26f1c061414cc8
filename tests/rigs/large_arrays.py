"""Large requests that are derived from the schemas: for each array of each served request, a request in which this
array has thousands of elements.

A sample is a small request as data, with one element in each of its arrays. The element of a large array is repeated
with another number in each copy: `{n}` in a text, `NUMBER` for a number, `ID` for the id of a topic or directory. In
the rest of the request, the number is 0. The topic `t0` and the groups `g0` exist.
"""

from __future__ import annotations

import dataclasses
import typing
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.codec import Message
from kcli.server.requests.apis import APIS
from rigs.data_path import batch
from rigs.twin.case import Data, build

NUMBER = "#"
ID = "@"

_K = ApiKey
_TOPIC = {"name": "t{n}", "partitions": [{"partition_index": NUMBER}]}
_NUMBERS = {"name": "t{n}", "partitions": [NUMBER]}
_INDEXES = {"name": "t{n}", "partition_indexes": [NUMBER]}
_QUORUM = {"topic_name": "t{n}", "partitions": [{"partition_index": NUMBER}]}
_ENDPOINTS = [{"name": "L{n}", "host": "h", "port": 1}]
_FEATURES = [{"name": "f{n}", "min_supported_version": 0, "max_supported_version": 1}]


@dataclass(frozen=True, slots=True)
class Sample:
    """`only`: the array that is made large, for a sample that is about one array. Otherwise each array is.
    `undivided`: the arrays on which the node works without a pause, and the reason."""

    key: ApiKey
    request: Mapping[str, Data]
    only: str = ""
    undivided: Mapping[str, str] = field(default_factory=dict)

    def paths(self) -> Iterator[str]:
        """The arrays of the request that have an element."""
        message = self._message()
        for path in arrays(self.key):
            if _reached(message, path) and self.only in ("", path):
                yield path

    def large(self, path: str, parts: int) -> Message:
        return typing.cast(Message, _large(self._message(), path.split("."), parts))

    def _message(self) -> Message:
        return typing.cast(Message, build(codec.message_class(self.key, "request"), self.request))


def version_with(message: Message, key: ApiKey, path: str) -> int:
    """The newest version of the API that has this array."""
    head = path.partition(".")[0]
    for version in range(API[key].max_version, API[key].min_version - 1, -1):
        try:
            frame = codec.encode_request(message, key, version, 5, "large")
        except Exception:
            continue
        header = codec.decode_request_header(frame[4:])
        decoded = codec.decode_request(key, version, frame[4:], header.body_offset)
        if len(getattr(decoded, head) or ()) == len(getattr(message, head)):
            return version
    raise AssertionError(f"no version of {key.name} has {path}")


def arrays(key: ApiKey) -> Iterator[str]:
    """The path of each array in the schema of a request, such as `topics.partitions`."""
    yield from _arrays(codec.message_class(key, "request"), "")


def all_arrays() -> set[tuple[ApiKey, str]]:
    return {(key, path) for key in APIS for path in arrays(key)}


def _arrays(hint: Any, path: str) -> Iterator[str]:
    if dataclasses.is_dataclass(hint):
        for name, each in typing.get_type_hints(hint).items():
            yield from _arrays(each, f"{path}.{name}" if path else name)
    elif typing.get_origin(hint) is tuple:
        yield path
        yield from _arrays(typing.get_args(hint)[0], path)
    else:
        for each in typing.get_args(hint):
            yield from _arrays(each, path)


def _reached(message: Any, path: str) -> bool:
    for name in path.split("."):
        found = getattr(message, name)
        if isinstance(found, tuple):
            if not found:
                return False
            message = found[0]
        elif found is None:
            return False
        else:
            message = found
    return True


def _large(value: Any, path: list[str], parts: int) -> Any:
    if isinstance(value, tuple):
        (sample,) = value
        if path:
            return (_large(sample, path, parts),)
        return tuple(_filled(sample, number) for number in range(parts))
    fields = {each.name: _filled(getattr(value, each.name), 0) for each in dataclasses.fields(value)}
    fields[path[0]] = _large(getattr(value, path[0]), path[1:], parts)
    return type(value)(**fields)


def _filled(value: Any, number: int) -> Any:
    match value:
        case str() if value == NUMBER:
            return number
        case str() if value == ID:
            return uuid.UUID(int=number + 5)
        case str():
            return value.replace("{n}", str(number))
        case tuple():
            return tuple(_filled(each, number) for each in value)
    if dataclasses.is_dataclass(value):
        fields = {each.name: _filled(getattr(value, each.name), number) for each in dataclasses.fields(value)}
        return typing.cast(Any, type(value))(**fields)
    return value


def _configs(resource_type: int, name: str, key: str, value: str, **more: Data) -> Mapping[str, Data]:
    config: dict[str, Data] = {"name": key, "value": value, **more}
    return {"resources": [{"resource_type": resource_type, "resource_name": name, "configs": [config]}]}


_RESOURCES = (
    (2, "t{n}", "retention.ms", "5{n}"), (2, "t0", "unknown.{n}", "5"), (2, "t0", "{n}", "{n}"),
    (4, "", "log.cleaner.threads", "1"), (4, "{n}", "log.cleaner.threads", "1"), (4, "1", "unknown.{n}", "5"),
    (8, "1", "kcli.{n}", "INFO"), (16, "m{n}", "interval.ms", "5000"), (16, "m0", "unknown.{n}", "5"),
    (32, "g{n}", "consumer.session.timeout.ms", "46000"), (32, "g0", "unknown.{n}", "5"),
)  # fmt: skip
"""The type and name of a resource, a key and its value."""

_FROM_NODES = "only nodes of the cluster send this request"

_IN_TRANSACTION = batch(b"v", transactional=True, producer_id=77, producer_epoch=0, base_sequence=0)

SAMPLES: tuple[Sample, ...] = (
    Sample(_K.PRODUCE, {"acks": 1, "timeout_ms": 1000, "topic_data": [
        {"name": "t{n}", "partition_data": [{"index": NUMBER, "records": batch(b"v")}]}]}),
    Sample(_K.PRODUCE, {"transactional_id": "x0", "acks": -1, "timeout_ms": 1000, "topic_data": [
        {"name": "t0", "partition_data": [{"index": 0, "records": _IN_TRANSACTION}]}]}),
    Sample(_K.FETCH, {"session_epoch": 0, "topics": [
        {"topic": "t{n}", "topic_id": ID, "partitions": [{"partition": NUMBER}]}],
        "forgotten_topics_data": [{"topic": "t{n}", "topic_id": ID, "partitions": [NUMBER]}]}),
    Sample(_K.LIST_OFFSETS, {"replica_id": -1, "topics": [
        {"name": "t{n}", "partitions": [{"partition_index": NUMBER, "timestamp": -1}]}]}),
    Sample(_K.METADATA, {"topics": [{"name": "t{n}"}]}),
    Sample(_K.OFFSET_COMMIT, {"group_id": "g0", "topics": [_TOPIC]}),
    Sample(_K.OFFSET_FETCH, {"groups": [{"group_id": "g{n}", "topics": [_INDEXES]}]}),
    Sample(_K.OFFSET_FETCH, {"group_id": "g0", "topics": [_INDEXES]}),
    Sample(_K.FIND_COORDINATOR, {"coordinator_keys": ["g{n}"]}),
    Sample(_K.JOIN_GROUP, {"group_id": "j0", "session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer", "protocols": [{"name": "p{n}"}]}),
    Sample(_K.LEAVE_GROUP, {"group_id": "g0", "members": [{"member_id": "m{n}"}]}),
    Sample(_K.SYNC_GROUP, {"group_id": "g0", "member_id": "m", "assignments": [
        {"member_id": "m{n}", "assignment": b"x"}]}),
    Sample(_K.DESCRIBE_GROUPS, {"groups": ["g{n}"]}),
    Sample(_K.LIST_GROUPS, {"states_filter": ["s{n}"], "types_filter": ["t{n}"]}),
    Sample(_K.CREATE_TOPICS, {"timeout_ms": 60_000, "validate_only": True, "topics": [
        {"name": "new{n}", "num_partitions": 1, "replication_factor": 1,
         "configs": [{"name": "retention.{n}", "value": "1"}]}]}),
    Sample(_K.CREATE_TOPICS, {"timeout_ms": 60_000, "validate_only": True, "topics": [
        {"name": "new{n}", "num_partitions": 1, "replication_factor": 1}]}),
    Sample(_K.CREATE_TOPICS, {"timeout_ms": 60_000, "topics": [
        {"name": "new{n}", "num_partitions": -1, "replication_factor": -1,
         "assignments": [{"partition_index": NUMBER, "broker_ids": [1]}]}]}),
    Sample(_K.CREATE_TOPICS, {"timeout_ms": 60_000, "topics": [
        {"name": "new0", "num_partitions": -1, "replication_factor": -1,
         "assignments": [{"partition_index": 0, "broker_ids": [NUMBER]}]}]}, "topics.assignments.broker_ids"),
    Sample(_K.DELETE_TOPICS, {"timeout_ms": 60_000, "topics": [{"name": "u{n}"}]}),
    Sample(_K.DELETE_TOPICS, {"timeout_ms": 60_000, "topics": [{"name": None, "topic_id": ID}]}),
    Sample(_K.DELETE_TOPICS, {"timeout_ms": 60_000, "topic_names": ["u{n}"]}),
    Sample(_K.DELETE_RECORDS, {"timeout_ms": 60_000, "topics": [_TOPIC]}),
    Sample(_K.ADD_PARTITIONS_TO_TXN, {"transactions": [
        {"transactional_id": "x{n}", "verify_only": True, "topics": [_NUMBERS]}]}),
    Sample(_K.ADD_PARTITIONS_TO_TXN, {"v3_and_below_transactional_id": "x0", "v3_and_below_topics": [_NUMBERS]}),
    Sample(_K.WRITE_TXN_MARKERS, {"markers": [{"producer_id": NUMBER, "topics": [_INDEXES]}]}),
    Sample(_K.TXN_OFFSET_COMMIT, {"transactional_id": "x0", "group_id": "g0", "producer_id": 77, "topics": [_TOPIC]}),
    Sample(_K.DESCRIBE_PRODUCERS, {"topics": [_INDEXES]}),
    Sample(_K.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["x{n}"]}),
    Sample(_K.LIST_TRANSACTIONS, {"state_filters": ["s{n}"], "producer_id_filters": [NUMBER]}),
    Sample(_K.OFFSET_FOR_LEADER_EPOCH, {"replica_id": -1, "topics": [
        {"topic": "t{n}", "partitions": [{"partition": NUMBER}]}]}),
    Sample(_K.CREATE_ACLS, {"creations": [{
        "resource_type": 2, "resource_name": "r{n}", "resource_pattern_type": 3, "principal": "User:x",
        "host": "*", "operation": 3, "permission_type": 3}]}),
    Sample(_K.DELETE_ACLS, {"filters": [{
        "resource_type_filter": 2, "resource_name_filter": "r{n}", "pattern_type_filter": 3,
        "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}]}),
    *(Sample(_K.DESCRIBE_CONFIGS, {"resources": [
        {"resource_type": kind, "resource_name": name, "configuration_keys": ["k{n}"]}]})
      for kind, name in ((2, "t{n}"), (4, ""), (4, "1"), (16, "m{n}"), (32, "g{n}"))),
    Sample(_K.DESCRIBE_CONFIGS, {"resources": [
        {"resource_type": 8, "resource_name": "1", "configuration_keys": ["k{n}"]}]}, "resources.configuration_keys"),
    *(Sample(key, _configs(*resource))
      for resource in _RESOURCES for key in (_K.INCREMENTAL_ALTER_CONFIGS, _K.ALTER_CONFIGS)),
    Sample(_K.INCREMENTAL_ALTER_CONFIGS, {"validate_only": True,
        **_configs(2, "t{n}", "unknown.{n}", "5", config_operation=2)}),
    Sample(_K.ALTER_REPLICA_LOG_DIRS, {"dirs": [{"path": "/nowhere{n}", "topics": [_NUMBERS]}]}),
    Sample(_K.DESCRIBE_LOG_DIRS, {"topics": [{"topic": "t{n}", "partitions": [NUMBER]}]}),
    Sample(_K.CREATE_PARTITIONS, {"timeout_ms": 60_000, "validate_only": True, "topics": [
        {"name": "t{n}", "count": 30_000, "assignments": [{"broker_ids": [NUMBER]}]}]}),
    Sample(_K.CREATE_PARTITIONS, {"timeout_ms": 60_000, "validate_only": True, "topics": [
        {"name": "t{n}", "count": 20_001, "assignments": [{"broker_ids": [1]}]}]}, "topics.assignments"),
    Sample(_K.CREATE_DELEGATION_TOKEN, {"renewers": [{"principal_type": "User", "principal_name": "u{n}"}]}),
    Sample(_K.DESCRIBE_DELEGATION_TOKEN, {"owners": [{"principal_type": "User", "principal_name": "u{n}"}]}),
    Sample(_K.DELETE_GROUPS, {"groups_names": ["u{n}"]}),
    Sample(_K.ELECT_LEADERS, {"timeout_ms": 60_000, "topic_partitions": [{"topic": "t{n}", "partitions": [NUMBER]}]}),
    Sample(_K.ALTER_PARTITION_REASSIGNMENTS, {"timeout_ms": 60_000, "topics": [
        {"name": "t{n}", "partitions": [{"partition_index": NUMBER, "replicas": [NUMBER]}]}]}),
    Sample(_K.LIST_PARTITION_REASSIGNMENTS, {"topics": [_INDEXES]}),
    Sample(_K.OFFSET_DELETE, {"group_id": "g0", "topics": [_TOPIC]}),
    Sample(_K.DESCRIBE_CLIENT_QUOTAS, {"components": [{"entity_type": "user{n}", "match_type": 2, "match": None}]}),
    *(Sample(_K.ALTER_CLIENT_QUOTAS, {"validate_only": True, "entries": [
        {"entity": [{"entity_type": entity, "entity_name": "127.0.0.1"}], "ops": [{"key": key, "value": 5.0}]}]})
      for entity, key in (("user", "key{n}"), ("ip", "connection_creation_rate"), ("type{n}", "key"))),
    Sample(_K.ALTER_CLIENT_QUOTAS, {"entries": [
        {"entity": [{"entity_type": "user", "entity_name": "u{n}"}], "ops": [
            {"key": "request_percentage", "value": 5.0}]}]}),
    Sample(_K.ALTER_CLIENT_QUOTAS, {"validate_only": True, "entries": [
        {"entity": [{"entity_type": "user", "entity_name": "u{n}"}], "ops": [{"key": "key{n}", "remove": True}]}]}),
    Sample(_K.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": [{"name": "u{n}"}]}),
    Sample(_K.ALTER_USER_SCRAM_CREDENTIALS, {
        "deletions": [{"name": "u{n}", "mechanism": 1}],
        "upsertions": [{"name": "v{n}", "mechanism": 1, "iterations": 1, "salt": b"", "salted_password": b""}]}),
    Sample(_K.DESCRIBE_QUORUM, {"topics": [_QUORUM]}),
    Sample(_K.UPDATE_FEATURES, {"timeout_ms": 60_000, "feature_updates": [
        {"feature": "f{n}", "max_version_level": 1, "upgrade_type": 1}]}),
    Sample(_K.CONSUMER_GROUP_HEARTBEAT, {"group_id": "names", "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["n{n}"], "topic_partitions": ()},
        "subscribed_topic_names",
        {"subscribed_topic_names": "the record of a member is written in one piece (docs/limits.md)"}),
    Sample(_K.CONSUMER_GROUP_HEARTBEAT, {"group_id": "owned", "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "rebalance_timeout_ms": 30_000, "member_epoch": 1, "topic_partitions": [
            {"topic_id": ID, "partitions": [NUMBER]}]}),
    Sample(_K.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["g{n}"]}),
    Sample(_K.LIST_CONFIG_RESOURCES, {"resource_types": [16]}),
    Sample(_K.LIST_CONFIG_RESOURCES, {"resource_types": [77]}),
    Sample(_K.DESCRIBE_TOPIC_PARTITIONS, {"response_partition_limit": 2000, "topics": [{"name": "t{n}"}]}),
    Sample(_K.ADD_RAFT_VOTER, {"voter_id": 9, "timeout_ms": 1000, "listeners": _ENDPOINTS}),
    Sample(_K.UPDATE_RAFT_VOTER, {"voter_id": 9, "listeners": _ENDPOINTS}),
    Sample(_K.BROKER_REGISTRATION, {"broker_id": 9, "cluster_id": "c", "listeners": _ENDPOINTS,
        "features": _FEATURES, "log_dirs": [ID]}),
    Sample(_K.CONTROLLER_REGISTRATION, {"controller_id": 9, "listeners": _ENDPOINTS, "features": _FEATURES},
        undivided={"listeners": _FROM_NODES, "features": _FROM_NODES}),
    Sample(_K.BROKER_HEARTBEAT, {"broker_id": 1, "offline_log_dirs": [ID]},
        undivided={"offline_log_dirs": _FROM_NODES}),
    Sample(_K.ALTER_PARTITION, {"broker_id": 1, "topics": [{"topic_id": ID, "partitions": [
        {"partition_index": NUMBER, "new_isr_with_epochs": [{"broker_id": NUMBER}]}]}]}),
    Sample(_K.ALTER_PARTITION, {"broker_id": 1, "topics": [{"topic_id": ID, "partitions": [
        {"partition_index": NUMBER, "new_isr": [NUMBER]}]}]}, "topics.partitions.new_isr"),
    Sample(_K.ASSIGN_REPLICAS_TO_DIRS, {"broker_id": 1, "directories": [
        {"id_": ID, "topics": [{"topic_id": ID, "partitions": [{"partition_index": NUMBER}]}]}]}),
    Sample(_K.VOTE, {"topics": [_QUORUM]}),
    Sample(_K.BEGIN_QUORUM_EPOCH, {"topics": [_QUORUM], "leader_endpoints": _ENDPOINTS}),
    Sample(_K.END_QUORUM_EPOCH, {"topics": [{"topic_name": "t{n}", "partitions": [
        {"partition_index": NUMBER, "preferred_candidates": [{"candidate_id": NUMBER}],
         "preferred_successors": [NUMBER]}]}], "leader_endpoints": _ENDPOINTS}),
    Sample(_K.FETCH_SNAPSHOT, {"topics": [{"name": "t{n}", "partitions": [{"partition": NUMBER}]}]}),
)  # fmt: skip
