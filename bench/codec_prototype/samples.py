"""Messages for the comparison of codecs: typical ones for times, and generated ones of every API and version.

Every sample can be built from the classes of `kcli.protocol.messages` and from those of `wire_records`.
"""

from __future__ import annotations

import importlib
import typing
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from codec_prototype.fields import WireField, message_class, wire_fields
from kcli.errors import ErrorCode
from kcli.protocol.wire.api import API, ApiKey

Message = typing.Any
Build = Callable[[typing.Any], Message]


@dataclass(frozen=True, slots=True)
class Sample:
    """One message. `build` makes the message from the module that has its classes."""

    name: str
    key: ApiKey
    version: int
    kind: str
    build: Build

    def both(self) -> tuple[Message, Message]:
        ours, records = modules(self.key)
        return self.build(ours), self.build(records)

    @property
    def is_newest(self) -> bool:
        return self.version == API[self.key].max_version


def modules(key: ApiKey) -> tuple[ModuleType, ModuleType]:
    """Returns two modules of an API: the one with kcli's present messages, and the one with the record classes."""
    name = API[key].module
    return importlib.import_module(f"kcli.protocol.messages.{name}"), importlib.import_module(
        f"wire_records.{name}"
    )


def plain(value: Message) -> object:
    """Converts a message to values that are equal if the messages are, whatever their classes."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if hasattr(type(value), "__slots__") and hasattr(type(value), "__dataclass_fields__"):
        return {"": type(value).__name__} | {
            name: plain(getattr(value, name)) for name in sorted(value.__slots__)
        }
    return value


# One of everything --------------------------------------------------------------------------------

_VALUES: dict[str, object] = {
    "?": True,
    "d": 0.25,
    "error": ErrorCode.NOT_LEADER_OR_FOLLOWER,
    "uuid": uuid.UUID(int=0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF),
    "string": "topic-ä",
    "bytes": bytes(range(200)),
}
VARIANTS = ("full", "default", "null")


def filled(cls: type, version: int, variant: str, module: ModuleType) -> Message:
    """Makes a message with the fields of `version`. Its class has the name of `cls` and is in `module`.

    The variant "full" sets every field, "default" sets none, and "null" sets every field to null that may be null.
    """
    target = getattr(module, cls.__name__)
    values = {}
    for nth, field in enumerate(wire_fields(cls, version)):
        if variant == "null" and field.nullable:
            # kio cannot write null in a tagged field except as its default.
            if field.tag is None or field.default is None:
                values[field.name] = None
        elif variant == "full" or (variant == "null" and field.is_array):
            values[field.name] = _filled_field(field, version, variant, module, nth)
    return target(**values)


def _filled_field(field: WireField, version: int, variant: str, module: ModuleType, nth: int) -> object:
    def item() -> object:
        if field.struct is not None:
            return filled(field.struct, version, variant, module)
        return _VALUES.get(field.kind, 100 + nth)

    return (item(), item()) if field.is_array else item()


def filled_sample(key: ApiKey, version: int, kind: str, variant: str) -> Sample:
    cls = message_class(key, kind)
    return Sample(
        f"{API[key].name}, {variant}",
        key,
        version,
        kind,
        lambda module: filled(cls, version, variant, module),
    )


def all_samples() -> Iterator[Sample]:
    """Yields a sample of every API, version, kind and variant."""
    for key, spec in API.items():
        for version in range(spec.min_version, spec.max_version + 1):
            for kind in ("request", "response"):
                for variant in VARIANTS:
                    yield filled_sample(key, version, kind, variant)


# The benchmark's ----------------------------------------------------------------------------------

TOPIC_ID = uuid.UUID("5c7f1d0e-6a2b-4c3d-9e8f-0a1b2c3d4e5f")
MEMBER = "consumer-orders-1-4b2d6a0e-7f3c-4f0e-8a51-0c9d2e7b6f13"


def _topic(number: int) -> str:
    return f"orders.region-{number:05d}"


def _topic_id(number: int) -> uuid.UUID:
    return uuid.UUID(int=TOPIC_ID.int + number)


def _api_versions_response(m: typing.Any) -> Message:
    keys = tuple(
        m.ApiVersion(api_key=spec.key.value, min_version=spec.min_version, max_version=spec.max_version)
        for spec in API.values()
    )
    feature = m.SupportedFeatureKey(name="metadata.version", min_version=1, max_version=27)
    finalized = m.FinalizedFeatureKey(name="metadata.version", min_version_level=1, max_version_level=27)
    return m.ApiVersionsResponse(
        api_keys=keys,
        supported_features=(feature,) * 5,
        finalized_features=(finalized,) * 5,
        finalized_features_epoch=42,
    )


def _metadata_request(count: int) -> Build:
    return lambda m: m.MetadataRequest(
        topics=tuple(m.MetadataRequestTopic(name=_topic(number)) for number in range(count))
    )


def _metadata_response(count: int) -> Build:
    """Builds a response with `count` topics of three partitions with three replicas."""

    def build(m: typing.Any) -> Message:
        partitions = tuple(
            m.MetadataResponsePartition(
                partition_index=index,
                leader_id=1 + index,
                leader_epoch=5,
                replica_nodes=(1, 2, 3),
                isr_nodes=(1, 2, 3),
            )
            for index in range(3)
        )
        brokers = tuple(
            m.MetadataResponseBroker(node_id=node, host=f"broker-{node}.example.com", port=9092)
            for node in (1, 2, 3)
        )
        topics = tuple(
            m.MetadataResponseTopic(name=_topic(number), topic_id=_topic_id(number), partitions=partitions)
            for number in range(count)
        )
        return m.MetadataResponse(
            brokers=brokers, cluster_id="5L6g3nShT-eMCtK--X86sw", controller_id=1, topics=topics
        )

    return build


def _join_group_request(m: typing.Any) -> Message:
    return m.JoinGroupRequest(
        group_id="orders-readers",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id=MEMBER,
        protocol_type="consumer",
        protocols=tuple(
            m.JoinGroupRequestProtocol(name=name, metadata=bytes(60))
            for name in ("range", "cooperative-sticky")
        ),
    )


def _join_group_response(m: typing.Any) -> Message:
    return m.JoinGroupResponse(
        generation_id=7,
        protocol_type="consumer",
        protocol_name="range",
        leader=MEMBER,
        member_id=MEMBER,
        members=tuple(m.JoinGroupResponseMember(member_id=MEMBER, metadata=bytes(60)) for _ in range(20)),
    )


def _heartbeat_response(m: typing.Any) -> Message:
    assigned = m.ResponseTopicPartitions(topic_id=TOPIC_ID, partitions=tuple(range(8)))
    return m.ConsumerGroupHeartbeatResponse(
        member_id=MEMBER,
        member_epoch=7,
        heartbeat_interval_ms=5_000,
        assignment=m.Assignment(topic_partitions=(assigned,) * 2),
    )


def _list_offsets_request(m: typing.Any) -> Message:
    partitions = tuple(m.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(12))
    return m.ListOffsetsRequest(
        replica_id=-1,
        topics=tuple(m.ListOffsetsTopic(name=_topic(n), partitions=partitions) for n in range(3)),
    )


def _list_offsets_response(m: typing.Any) -> Message:
    partitions = tuple(
        m.ListOffsetsPartitionResponse(partition_index=index, offset=123_456, leader_epoch=3)
        for index in range(12)
    )
    return m.ListOffsetsResponse(
        topics=tuple(m.ListOffsetsTopicResponse(name=_topic(n), partitions=partitions) for n in range(3))
    )


def _offset_commit_request(m: typing.Any) -> Message:
    partitions = tuple(
        m.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=123_456, committed_leader_epoch=3, committed_metadata=""
        )
        for index in range(12)
    )
    return m.OffsetCommitRequest(
        group_id="orders-readers",
        generation_id_or_member_epoch=7,
        member_id=MEMBER,
        topics=tuple(m.OffsetCommitRequestTopic(name=_topic(n), partitions=partitions) for n in range(3)),
    )


def _offset_commit_response(m: typing.Any) -> Message:
    partitions = tuple(m.OffsetCommitResponsePartition(partition_index=index) for index in range(12))
    return m.OffsetCommitResponse(
        topics=tuple(m.OffsetCommitResponseTopic(name=_topic(n), partitions=partitions) for n in range(3))
    )


def _create_topics_request(m: typing.Any) -> Message:
    configs = tuple(
        m.CreatableTopicConfig(name=name, value=value)
        for name, value in (("cleanup.policy", "compact"), ("retention.ms", "604800000"))
    )
    return m.CreateTopicsRequest(
        topics=tuple(
            m.CreatableTopic(name=_topic(n), num_partitions=12, replication_factor=3, configs=configs)
            for n in range(3)
        ),
        timeout_ms=30_000,
    )


def _create_topics_response(m: typing.Any) -> Message:
    configs = tuple(
        m.CreatableTopicConfigs(name=f"topic.config.number.{n}", value="604800000", config_source=5)
        for n in range(30)
    )
    return m.CreateTopicsResponse(
        topics=tuple(
            m.CreatableTopicResult(
                name=_topic(n),
                topic_id=_topic_id(n),
                num_partitions=12,
                replication_factor=3,
                configs=configs,
            )
            for n in range(3)
        )
    )


def _describe_configs_response(m: typing.Any) -> Message:
    configs = tuple(
        m.DescribeConfigsResourceResult(
            name=f"broker.config.number.{n}",
            value="604800000",
            config_source=5,
            config_type=5,
            documentation="",
            synonyms=(
                m.DescribeConfigsSynonym(name=f"broker.config.number.{n}", value="604800000", source=5),
            ),
        )
        for n in range(300)
    )
    return m.DescribeConfigsResponse(
        results=(
            m.DescribeConfigsResult(error_message=None, resource_type=4, resource_name="1", configs=configs),
        )
    )


def _plain_samples() -> list[tuple[str, ApiKey, int, str, Build]]:
    A = ApiKey
    return [
        ("ApiVersions v3", A.API_VERSIONS, 3, "request", lambda m: m.ApiVersionsRequest(
            client_software_name="apache-kafka-java", client_software_version="4.1.0")),
        ("ApiVersions v3", A.API_VERSIONS, 3, "response", _api_versions_response),
        ("ApiVersions v4", A.API_VERSIONS, 4, "request", lambda m: m.ApiVersionsRequest(
            client_software_name="apache-kafka-java", client_software_version="4.1.0")),
        ("ApiVersions v4", A.API_VERSIONS, 4, "response", _api_versions_response),
        ("Metadata v12, 3 topics", A.METADATA, 12, "request", _metadata_request(3)),
        ("Metadata v13, 3 topics", A.METADATA, 13, "request", _metadata_request(3)),
        ("Metadata v12, 100 topics", A.METADATA, 12, "response", _metadata_response(100)),
        ("Metadata v13, 1 topic", A.METADATA, 13, "response", _metadata_response(1)),
        ("Metadata v13, 100 topics", A.METADATA, 13, "response", _metadata_response(100)),
        ("Metadata v13, 10,000 topics", A.METADATA, 13, "response", _metadata_response(10_000)),
        ("FindCoordinator v6", A.FIND_COORDINATOR, 6, "request", lambda m: m.FindCoordinatorRequest(
            coordinator_keys=("orders-readers",))),
        ("FindCoordinator v6", A.FIND_COORDINATOR, 6, "response", lambda m: m.FindCoordinatorResponse(
            coordinators=(m.Coordinator(key="orders-readers", node_id=1, host="broker-1.example.com", port=9092),))),
        ("JoinGroup v9", A.JOIN_GROUP, 9, "request", _join_group_request),
        ("JoinGroup v9, 20 members", A.JOIN_GROUP, 9, "response", _join_group_response),
        ("ConsumerGroupHeartbeat v1", A.CONSUMER_GROUP_HEARTBEAT, 1, "request",
            lambda m: m.ConsumerGroupHeartbeatRequest(group_id="orders-readers", member_id=MEMBER, member_epoch=7)),
        ("ConsumerGroupHeartbeat v1", A.CONSUMER_GROUP_HEARTBEAT, 1, "response", _heartbeat_response),
        ("ListOffsets v10, 36 partitions", A.LIST_OFFSETS, 10, "request", _list_offsets_request),
        ("ListOffsets v10, 36 partitions", A.LIST_OFFSETS, 10, "response", _list_offsets_response),
        ("OffsetCommit v9, 36 partitions", A.OFFSET_COMMIT, 9, "request", _offset_commit_request),
        ("OffsetCommit v9, 36 partitions", A.OFFSET_COMMIT, 9, "response", _offset_commit_response),
        ("CreateTopics v7, 3 topics", A.CREATE_TOPICS, 7, "request", _create_topics_request),
        ("CreateTopics v7, 3 topics", A.CREATE_TOPICS, 7, "response", _create_topics_response),
        ("DescribeConfigs v4, 300 keys", A.DESCRIBE_CONFIGS, 4, "response", _describe_configs_response),
    ]  # fmt: skip


SAMPLES = tuple(Sample(*each) for each in _plain_samples())
