"""The questions of the check-up to a scripted cluster: what is read, and what happens if a part is refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.config import ClientConfig
from kcli.client.diagnosis.checkup import snapshot as parts
from kcli.client.diagnosis.checkup.gather import Looks, gather
from kcli.client.diagnosis.checkup.rules import check_up
from kcli.client.diagnosis.checkup.snapshot import Metrics, PartitionHistory, Snapshot
from kcli.errors import ErrorCode
from kcli.model.addresses import Address
from kcli.protocol.messages import (
    describe_cluster,
    describe_producers,
    describe_quorum,
    list_offsets,
    list_transactions,
)
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_cluster import ScriptedCluster
from rigs.scripted_server import ScriptedAnswer

ENDS = {-1: 100, -2: 10, -3: 99}
"""The offsets for the special timestamps of ListOffsets."""


def offsets(request: list_offsets.ListOffsetsRequest, _version: int) -> list_offsets.ListOffsetsResponse:
    """Each partition has the offsets 10 to 100. A transaction holds back the readers of t-0 at 60."""

    def offset_at(topic: str, asked: list_offsets.ListOffsetsPartition) -> int:
        if request.isolation_level == 1 and (topic, asked.partition_index) == ("t", 0):
            return 60
        return ENDS.get(asked.timestamp, 40)

    return list_offsets.ListOffsetsResponse(
        topics=tuple(
            list_offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=each.partition_index,
                        offset=offset_at(topic.name, each),
                        timestamp=5_000 if each.timestamp == -3 else -1,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def quorum(ahead_ms: int) -> ScriptedAnswer:
    def answer(*_: object) -> describe_quorum.DescribeQuorumResponse:
        now_ms = int(time.time() * 1000) + ahead_ms
        voter = describe_quorum.ReplicaState(
            replica_id=1, log_end_offset=9, last_fetch_timestamp=now_ms, last_caught_up_timestamp=now_ms
        )
        partition = describe_quorum.ResponsePartitionData(
            partition_index=0, leader_id=1, leader_epoch=1, high_watermark=9, current_voters=(voter,)
        )
        topic = describe_quorum.ResponseTopicData(topic_name="__cluster_metadata", partitions=(partition,))
        return describe_quorum.DescribeQuorumResponse(topics=(topic,))

    return answer


def gathered(script: Mapping[ApiKey, ScriptedAnswer], looks: Looks | None = None) -> Snapshot:
    cluster = ScriptedCluster()
    cluster.server.script = {
        **cluster.server.script,
        ApiKey.LIST_OFFSETS: offsets,
        ApiKey.DESCRIBE_QUORUM: quorum(0),
        **script,
    }

    async def scenario() -> Snapshot:
        config = ClientConfig(
            servers=(Address("127.0.0.1", cluster.server.port),),
            default_api_timeout_ms=2_000,
            retry_backoff_ms=1,
            retry_backoff_max_ms=5,
        )
        async with AdminClient(config) as admin:
            return await gather(admin, looks=looks or Looks(1, 0.0))

    with cluster.server:
        return asyncio.run(scenario())


def test_the_snapshot_has_the_answers_of_the_cluster() -> None:
    found = gathered({})
    assert [node.id for node in found.nodes] == [1]
    assert found.topics.keys() == {"t", "u"}
    # t-1 has no leader.
    assert found.history == dict.fromkeys([("t", 0), ("u", 0)], PartitionHistory(10, 100, 40, 40))
    assert found.topic_configs["t"]["min.insync.replicas"] == "2"
    assert found.topic_overrides["t"] == {"retention.ms", "password"}
    assert found.last_record_ms == {"t": 5_000, "u": 5_000}
    assert found.log_dirs.keys() == {1}
    assert found.certificates == {}
    assert found.metrics == Metrics()


@pytest.mark.parametrize("ahead_ms", [-60_000, 0, 60_000])
def test_the_clock_of_the_controller_is_compared(ahead_ms: int) -> None:
    found = gathered({ApiKey.DESCRIBE_QUORUM: quorum(ahead_ms)})
    assert found.clock_ahead_ms is not None
    assert abs(found.clock_ahead_ms - ahead_ms) <= found.clock_error_ms + 1
    assert any(each.check == "clocks" for each in check_up(found)) is (ahead_ms != 0)


def test_a_part_that_is_refused_or_not_served_is_missing_and_the_others_are_read() -> None:
    def refused(*_: object) -> describe_quorum.DescribeQuorumResponse:
        return describe_quorum.DescribeQuorumResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="Request Request(processor=2, …)"
        )

    found = gathered({ApiKey.DESCRIBE_QUORUM: refused})
    assert found.quorum is None
    assert found.missing[parts.QUORUM] == "Cluster authorization failed."
    # The scripted cluster serves neither groups nor transactions.
    assert found.missing.keys() >= {parts.QUORUM, parts.GROUPS, parts.TRANSACTIONS, parts.METRICS}
    assert found.topics
    unknown = {each.subject for each in check_up(found) if each.check == "not-checked"}
    assert unknown >= {parts.QUORUM, parts.GROUPS, parts.TRANSACTIONS, parts.METRICS}


def test_an_older_broker_cannot_list_fenced_brokers() -> None:
    def of_version(request: describe_cluster.DescribeClusterRequest, version: int) -> object:
        assert not request.include_fenced_brokers
        return cluster.cluster(request, version)

    cluster = ScriptedCluster()
    cluster.server.script = {**cluster.server.script, ApiKey.DESCRIBE_CLUSTER: of_version}
    cluster.server.versions = {ApiKey.DESCRIBE_CLUSTER: (0, 1)}

    async def scenario() -> Snapshot:
        config = ClientConfig(
            servers=(Address("127.0.0.1", cluster.server.port),), default_api_timeout_ms=2_000
        )
        async with AdminClient(config) as admin:
            return await gather(admin, looks=Looks(1, 0.0))

    with cluster.server:
        assert [node.id for node in asyncio.run(scenario()).nodes] == [1]


def test_only_partitions_with_an_open_transaction_are_asked_for_producers() -> None:
    asked: list[tuple[str, int]] = []

    def producers(
        request: describe_producers.DescribeProducersRequest, _version: int
    ) -> describe_producers.DescribeProducersResponse:
        asked.extend((topic.name, number) for topic in request.topics for number in topic.partition_indexes)
        state = describe_producers.ProducerState(
            producer_id=7, producer_epoch=1, last_timestamp=1, current_txn_start_offset=60
        )
        return describe_producers.DescribeProducersResponse(
            topics=tuple(
                describe_producers.TopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        describe_producers.PartitionResponse(
                            partition_index=number, active_producers=(state,)
                        )
                        for number in topic.partition_indexes
                    ),
                )
                for topic in request.topics
            )
        )

    found = gathered(
        {
            ApiKey.DESCRIBE_PRODUCERS: producers,
            ApiKey.LIST_TRANSACTIONS: lambda *_: list_transactions.ListTransactionsResponse(),
        }
    )
    assert asked == [("t", 0)]
    (hanging,) = found.hanging
    assert (hanging.partition, hanging.producer.producer_id) == (("t", 0), 7)
    (finding,) = (each for each in check_up(found) if each.check == "hanging-transaction")
    assert finding.command == "kcli transactions abort --topic t --partition 0 --start-offset 60"
