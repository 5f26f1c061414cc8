"""A cluster of several scripted brokers whose partitions move when a tool asks for it.

Each broker has a socket of its own, because DescribeLogDirs does not name the broker.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Self

from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import (
    alter_partition_reassignments,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    metadata,
)
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_server import ScriptedAnswer, ScriptedServer

DELETE = 1
"""The operation of IncrementalAlterConfigs that removes a key."""


class MovingCluster:
    """Brokers 1 … n. A move is done after `looks` calls of ListPartitionReassignments."""

    def __init__(
        self,
        racks: Mapping[int, str | None],
        replicas: Mapping[TopicPartition, tuple[int, ...]],
        sizes: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self.racks = dict(racks)
        self.replicas = dict(replicas)
        self.leaders = {partition: each[0] for partition, each in replicas.items()}
        self.sizes = dict(sizes or {})
        self.isr: dict[TopicPartition, list[tuple[int, ...]]] = {}
        """The next ISRs that a partition reports, instead of its replicas."""
        self.running: dict[TopicPartition, tuple[int, ...]] = {}
        self.looks = 1
        self.refused: dict[TopicPartition, ErrorCode] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.servers = {broker: ScriptedServer(self.script(broker)) for broker in self.racks}
        self.looks_left = 0

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for server in self.servers.values():
                stack.enter_context(server)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def address(self) -> str:
        """The address of the first broker."""
        return self.servers[min(self.servers)].address

    def sent(self, key: ApiKey) -> list[Any]:
        """The requests for one API to all brokers."""
        return [message for server in self.servers.values() for message in server.sent(key)]

    def throttled(self) -> set[str]:
        """The resources that have a throttle."""
        return {
            name for (_, name), values in self.configs.items() if any("throttled" in key for key in values)
        }

    def script(self, broker: int) -> dict[ApiKey, ScriptedAnswer]:
        """The answers of one broker."""
        return {
            ApiKey.METADATA: self.metadata,
            ApiKey.DESCRIBE_CLUSTER: self.cluster,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: self.describe,
            ApiKey.DESCRIBE_CONFIGS: self.describe_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.alter_configs,
            ApiKey.DESCRIBE_LOG_DIRS: partial(self.log_dirs, broker),
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self.alter,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self.list,
            ApiKey.ELECT_LEADERS: self.elect,
        }

    def metadata(self, request: Any, version: int) -> Any:
        names = {topic for topic, _ in self.replicas}
        wanted = names if request.topics is None else names & {each.name for each in request.topics}
        return metadata.MetadataResponse(
            brokers=tuple(
                metadata.MetadataResponseBroker(node_id=broker, host="127.0.0.1", port=server.port)
                for broker, server in self.servers.items()
            ),
            controller_id=min(self.servers),
            topics=tuple(metadata.MetadataResponseTopic(name=name) for name in sorted(wanted)),
        )

    def cluster(self, request: Any, version: int) -> Any:
        return describe_cluster.DescribeClusterResponse(
            cluster_id="abc",
            controller_id=min(self.servers),
            brokers=tuple(
                describe_cluster.DescribeClusterBroker(
                    broker_id=broker, host="127.0.0.1", port=server.port, rack=self.racks[broker]
                )
                for broker, server in self.servers.items()
            ),
        )

    def describe(self, request: Any, version: int) -> Any:
        return describe_topic_partitions.DescribeTopicPartitionsResponse(
            topics=tuple(
                describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
                    name=each.name,
                    partitions=tuple(
                        describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
                            partition_index=partition.partition,
                            leader_id=self.leaders[partition],
                            replica_nodes=self._replicas(partition),
                            isr_nodes=self._isr(partition),
                        )
                        for partition in self.replicas
                        if partition.topic == each.name
                    ),
                )
                for each in request.topics
            )
        )

    def describe_configs(self, request: Any, version: int) -> Any:
        entry = describe_configs.DescribeConfigsResourceResult
        return describe_configs.DescribeConfigsResponse(
            results=tuple(
                describe_configs.DescribeConfigsResult(
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=(
                        entry(name="min.insync.replicas", value="2", config_source=5),
                        *(
                            entry(name=name, value=value, config_source=1 if each.resource_type == 2 else 2)
                            for name, value in self.configs.get(
                                (each.resource_type, each.resource_name), {}
                            ).items()
                        ),
                    ),
                )
                for each in request.resources
            )
        )

    def alter_configs(self, request: Any, version: int) -> Any:
        for each in request.resources:
            values = self.configs.setdefault((each.resource_type, each.resource_name), {})
            for change in each.configs:
                if change.config_operation == DELETE:
                    values.pop(change.name, None)
                else:
                    values[change.name] = change.value
        return incremental_alter_configs.IncrementalAlterConfigsResponse(
            responses=tuple(
                incremental_alter_configs.AlterConfigsResourceResponse(
                    resource_type=each.resource_type, resource_name=each.resource_name
                )
                for each in request.resources
            )
        )

    def log_dirs(self, broker: int, request: Any, version: int) -> Any:
        topics = tuple(
            describe_log_dirs.DescribeLogDirsTopic(
                name=partition.topic,
                partitions=(
                    describe_log_dirs.DescribeLogDirsPartition(
                        partition_index=partition.partition, partition_size=self.sizes.get(partition, 0)
                    ),
                ),
            )
            for partition in self.replicas
            if broker in self._replicas(partition)
        )
        return describe_log_dirs.DescribeLogDirsResponse(
            results=(describe_log_dirs.DescribeLogDirsResult(log_dir="/data", topics=topics),)
        )

    def alter(self, request: Any, version: int) -> Any:
        answers = []
        for topic in request.topics:
            results = []
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition_index)
                code = self.refused.get(partition, ErrorCode.NONE)
                if each.replicas is None:
                    self.running.pop(partition, None)
                elif code is ErrorCode.NONE and set(each.replicas) == set(self.replicas[partition]):
                    self.replicas[partition] = each.replicas
                elif code is ErrorCode.NONE:
                    self.running[partition] = each.replicas
                    self.looks_left = self.looks
                results.append(
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=each.partition_index, error_code=code, error_message="no"
                    )
                )
            answers.append(
                alter_partition_reassignments.ReassignableTopicResponse(
                    name=topic.name, partitions=tuple(results)
                )
            )
        return alter_partition_reassignments.AlterPartitionReassignmentsResponse(responses=tuple(answers))

    def list(self, request: Any, version: int) -> Any:
        if self.looks_left == 0:
            self.finish()
        self.looks_left = max(0, self.looks_left - 1)
        return list_partition_reassignments.ListPartitionReassignmentsResponse(
            topics=tuple(
                list_partition_reassignments.OngoingTopicReassignment(
                    name=partition.topic,
                    partitions=(
                        list_partition_reassignments.OngoingPartitionReassignment(
                            partition_index=partition.partition,
                            replicas=self._replicas(partition),
                            adding_replicas=_without(target, self.replicas[partition]),
                            removing_replicas=_without(self.replicas[partition], target),
                        ),
                    ),
                )
                for partition, target in self.running.items()
            )
        )

    def finish(self) -> None:
        """Ends all moves."""
        for partition, target in self.running.items():
            self.replicas[partition] = target
            if self.leaders[partition] not in target:
                self.leaders[partition] = target[0]
        self.running.clear()

    def elect(self, request: Any, version: int) -> Any:
        results = []
        for topic in request.topic_partitions:
            for number in topic.partitions:
                partition = TopicPartition(topic.topic, number)
                is_leader = self.leaders[partition] == self.replicas[partition][0]
                self.leaders[partition] = self.replicas[partition][0]
                code = ErrorCode.ELECTION_NOT_NEEDED if is_leader else ErrorCode.NONE
                one = elect_leaders.PartitionResult(partition_id=number, error_code=code)
                results.append(
                    elect_leaders.ReplicaElectionResult(topic=topic.topic, partition_result=(one,))
                )
        return elect_leaders.ElectLeadersResponse(replica_election_results=tuple(results))

    def _replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        target = self.running.get(partition, ())
        return (*target, *_without(self.replicas[partition], target))

    def _isr(self, partition: TopicPartition) -> tuple[int, ...]:
        reported = self.isr.get(partition)
        return reported.pop(0) if reported else self.replicas[partition]


def _without(replicas: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
    return tuple(broker for broker in replicas if broker not in set(others))
