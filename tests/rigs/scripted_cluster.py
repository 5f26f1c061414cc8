"""A cluster of one broker that answers the tools by script, without a log or a disk."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kcli.errors import ErrorCode
from kcli.protocol.messages import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    incremental_alter_configs,
    list_offsets,
    metadata,
    unregister_broker,
)
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_server import ScriptedAnswer, ScriptedServer

TOPIC_ID = uuid.UUID(int=1)
SHOWN_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def quorum_led_by(node_id: int) -> ScriptedAnswer:
    """The answer to DescribeQuorum if this node is the active controller."""
    partition = describe_quorum.ResponsePartitionData(leader_id=node_id)
    topic = describe_quorum.ResponseTopicData(partitions=(partition,))
    return lambda *_: describe_quorum.DescribeQuorumResponse(topics=(topic,))


class ScriptedCluster:
    """One broker, id 1, with topics t (2 partitions) and u (1)."""

    def __init__(self) -> None:
        self.topics = {"t": 2, "u": 1}
        self.server = ScriptedServer(self.script())

    def script(self) -> dict[ApiKey, ScriptedAnswer]:
        return {
            ApiKey.METADATA: self.metadata,
            ApiKey.DESCRIBE_CLUSTER: self.cluster,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: self.describe,
            ApiKey.DESCRIBE_CONFIGS: self.configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.alter,
            ApiKey.CREATE_TOPICS: self.create,
            ApiKey.DELETE_TOPICS: self.delete,
            ApiKey.CREATE_PARTITIONS: self.grow,
            ApiKey.LIST_OFFSETS: self.offsets,
            ApiKey.DELETE_RECORDS: self.delete_records,
            ApiKey.DESCRIBE_LOG_DIRS: self.log_dirs,
            ApiKey.UNREGISTER_BROKER: self.unregister,
        }

    def metadata(self, request: metadata.MetadataRequest, version: int) -> metadata.MetadataResponse:
        wanted = list(self.topics) if request.topics is None else [each.name for each in request.topics]
        return metadata.MetadataResponse(
            brokers=(metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.server.port),),
            controller_id=1,
            topics=tuple(
                metadata.MetadataResponseTopic(
                    name=name,
                    topic_id=TOPIC_ID,
                    partitions=tuple(
                        metadata.MetadataResponsePartition(partition_index=number, leader_id=1)
                        for number in range(self.topics[name])
                    ),
                )
                for name in wanted
                if name in self.topics
            ),
        )

    def cluster(self, request: Any, version: int) -> describe_cluster.DescribeClusterResponse:
        node = describe_cluster.DescribeClusterBroker(
            broker_id=1, host="127.0.0.1", port=self.server.port, rack="rack-a"
        )
        return describe_cluster.DescribeClusterResponse(cluster_id="abc", controller_id=1, brokers=(node,))

    def describe(self, request: Any, version: int) -> Any:
        return describe_topic_partitions.DescribeTopicPartitionsResponse(
            topics=tuple(
                describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
                    name=each.name,
                    topic_id=TOPIC_ID,
                    partitions=tuple(
                        describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
                            partition_index=number,
                            leader_id=1 if number == 0 else -1,
                            replica_nodes=(1, 2),
                            isr_nodes=(1,),
                            eligible_leader_replicas=(2,) if number else (),
                            last_known_elr=(),
                        )
                        for number in range(self.topics[each.name])
                    ),
                )
                for each in request.topics
            )
        )

    def configs(self, request: Any, version: int) -> Any:
        def entries(resource: Any) -> tuple[describe_configs.DescribeConfigsResourceResult, ...]:
            entry = describe_configs.DescribeConfigsResourceResult
            synonym = describe_configs.DescribeConfigsSynonym
            return (
                entry(name="retention.ms", value="5", config_source=1, synonyms=(
                    synonym(name="retention.ms", value="5", source=1),
                    synonym(name="log.retention.ms", value="7", source=5),
                )),
                entry(name="min.insync.replicas", value="2", config_source=5),
                entry(name="password", value=None, config_source=1, is_sensitive=True),
            )  # fmt: skip

        return describe_configs.DescribeConfigsResponse(
            results=tuple(
                describe_configs.DescribeConfigsResult(
                    resource_type=each.resource_type, resource_name=each.resource_name, configs=entries(each)
                )
                for each in request.resources
            )
        )

    def alter(self, request: Any, version: int) -> Any:
        return incremental_alter_configs.IncrementalAlterConfigsResponse(
            responses=tuple(
                incremental_alter_configs.AlterConfigsResourceResponse(
                    error_code=ErrorCode.INVALID_CONFIG if each.configs[0].name == "bad" else ErrorCode.NONE,
                    error_message="Unknown topic config name: bad",
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                )
                for each in request.resources
            )
        )

    def create(self, request: Any, version: int) -> Any:
        return create_topics.CreateTopicsResponse(
            topics=tuple(
                create_topics.CreatableTopicResult(
                    name=each.name,
                    error_code=ErrorCode.TOPIC_ALREADY_EXISTS if each.name in self.topics else ErrorCode.NONE,
                    error_message=f"Topic '{each.name}' already exists.",
                )
                for each in request.topics
            )
        )

    def delete(self, request: Any, version: int) -> Any:
        return delete_topics.DeleteTopicsResponse(
            responses=tuple(delete_topics.DeletableTopicResult(name=each.name) for each in request.topics)
        )

    def grow(self, request: Any, version: int) -> Any:
        return create_partitions.CreatePartitionsResponse(
            results=tuple(
                create_partitions.CreatePartitionsTopicResult(name=each.name) for each in request.topics
            )
        )

    def offsets(self, request: Any, version: int) -> Any:
        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        list_offsets.ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            offset=10 + each.partition_index if each.timestamp != 99 else -1,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def delete_records(self, request: Any, version: int) -> Any:
        return delete_records.DeleteRecordsResponse(
            topics=tuple(
                delete_records.DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        delete_records.DeleteRecordsPartitionResult(
                            partition_index=each.partition_index,
                            low_watermark=each.offset,
                            error_code=ErrorCode.OFFSET_OUT_OF_RANGE if each.offset > 10 else ErrorCode.NONE,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def log_dirs(self, request: Any, version: int) -> Any:
        partition = describe_log_dirs.DescribeLogDirsPartition(partition_index=0, partition_size=315)
        topics = tuple(
            describe_log_dirs.DescribeLogDirsTopic(name=name, partitions=(partition,)) for name in ("t", "u")
        )
        return describe_log_dirs.DescribeLogDirsResponse(
            results=(
                describe_log_dirs.DescribeLogDirsResult(log_dir="/data/a", topics=topics),
                describe_log_dirs.DescribeLogDirsResult(
                    log_dir="/data/b", error_code=ErrorCode.KAFKA_STORAGE_ERROR
                ),
            )
        )

    def unregister(self, request: Any, version: int) -> Any:
        known = request.broker_id == 1
        return unregister_broker.UnregisterBrokerResponse(
            error_code=ErrorCode.NONE if known else ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {request.broker_id} is not currently registered",
        )


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Kcli = Callable[..., Done]
