"""consumer-groups --describe where parts of the cluster do not answer: rows with what is known, and the reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kcli.cli.main import run
from kcli.errors import ErrorCode
from kcli.protocol.messages import (
    consumer_group_describe,
    describe_groups,
    find_coordinator,
    list_offsets,
    metadata,
    offset_fetch,
)
from kcli.protocol.wire.api import ApiKey
from kcli.testing.broker_process import free_port
from rigs.scripted_server import ScriptedServer

DEAD = 2


class Cluster:
    """Broker 1 is here, broker 2 is gone. Partitions of t: led by 1, without a leader, led by 2, and one whose offset
    is unknown. Group g has read 3 records of each; the coordinator of group lost refuses."""

    def __init__(self) -> None:
        self.closed = free_port()
        self.server = ScriptedServer(
            {
                ApiKey.METADATA: self.metadata,
                ApiKey.FIND_COORDINATOR: self.coordinator,
                ApiKey.CONSUMER_GROUP_DESCRIBE: self.describe_new,
                ApiKey.DESCRIBE_GROUPS: self.describe,
                ApiKey.OFFSET_FETCH: self.committed,
                ApiKey.LIST_OFFSETS: self.ends,
            }
        )

    def metadata(self, request: Any, version: int) -> metadata.MetadataResponse:
        names = ["t"] if request.topics is None else [topic.name for topic in request.topics]
        partitions = tuple(
            metadata.MetadataResponsePartition(partition_index=number, leader_id=leader)
            for number, leader in enumerate((1, -1, DEAD, 1))
        )
        return metadata.MetadataResponse(
            brokers=(
                metadata.MetadataResponseBroker(node_id=DEAD, host="127.0.0.1", port=self.closed),
                metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.server.port),
            ),
            controller_id=1,
            topics=tuple(metadata.MetadataResponseTopic(name=name, partitions=partitions) for name in names),
        )

    def coordinator(self, request: Any, version: int) -> find_coordinator.FindCoordinatorResponse:
        coordinators = (
            find_coordinator.Coordinator(key=key, node_id=1, host="127.0.0.1", port=self.server.port)
            for key in request.coordinator_keys
        )
        return find_coordinator.FindCoordinatorResponse(coordinators=tuple(coordinators))

    def describe_new(
        self, request: Any, version: int
    ) -> consumer_group_describe.ConsumerGroupDescribeResponse:
        groups = (
            consumer_group_describe.DescribedGroup(group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
            for name in request.group_ids
        )
        return consumer_group_describe.ConsumerGroupDescribeResponse(groups=tuple(groups))

    def describe(self, request: Any, version: int) -> describe_groups.DescribeGroupsResponse:
        codes = {"lost": ErrorCode.GROUP_AUTHORIZATION_FAILED}
        groups = (
            describe_groups.DescribedGroup(
                group_id=name,
                group_state="Empty",
                protocol_type="consumer",
                error_code=codes.get(name, ErrorCode.NONE),
            )
            for name in request.groups
        )
        return describe_groups.DescribeGroupsResponse(groups=tuple(groups))

    def committed(self, request: Any, version: int) -> offset_fetch.OffsetFetchResponse:
        partitions = tuple(
            offset_fetch.OffsetFetchResponsePartitions(
                partition_index=number,
                committed_offset=3,
                error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if number == 3 else ErrorCode.NONE,
            )
            for number in range(4)
        )
        topic = offset_fetch.OffsetFetchResponseTopics(name="t", partitions=partitions)
        group = offset_fetch.OffsetFetchResponseGroup(group_id="g", topics=(topic,))
        return offset_fetch.OffsetFetchResponse(groups=(group,))

    def ends(self, request: Any, version: int) -> list_offsets.ListOffsetsResponse:
        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        list_offsets.ListOffsetsPartitionResponse(
                            partition_index=partition.partition_index, offset=5
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    with made.server:
        yield made


@pytest.mark.usefixtures("kafkas_script")
def test_a_row_with_what_is_known_for_each_partition(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--describe", "--group", "g", "--group", "lost", "--bootstrap-server", cluster.server.address]
    assert run(["consumer-groups", *words]) == 0
    said = capsys.readouterr()
    lines = [line.split() for line in said.out.splitlines() if line]
    shown = sorted(tuple(line[2:6]) for line in lines if line[0] == "g")
    assert shown == [("0", "3", "5", "2"), ("1", "3", "-", "-"), ("2", "3", "-", "-"), ("3", "-", "5", "-")]
    for number in (1, 2, 3):
        assert f"Partition t-{number}: " in said.err
    assert "LeaderNotAvailableException" in said.err and "UnstableOffsetCommitException" in said.err
    assert said.out.endswith("GroupAuthorizationException: Group authorization failed.\n")
    assert run(["consumer-groups", *words[:3], "--output", "json", *words[-2:]]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["partition"]: (row["lag"], row["error"] is None) for row in rows} == {
        0: (2, False),  # its age is not told: this broker does not speak Fetch
        1: (None, False),
        2: (None, False),
        3: (None, False),
    }


def test_get_offsets_prints_the_partitions_that_can_be_asked(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["get-offsets", "--topic", "t", "--bootstrap-server", cluster.server.address]) == 1
    said = capsys.readouterr()
    assert said.out == "t:0:5\nt:3:5\n"
    assert said.err.count("Skip getting offsets for topic-partition") == 2
