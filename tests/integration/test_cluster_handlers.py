"""The cluster by the wire: its brokers and controllers, its quorum, its features, on a whole node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcli.errors import (
    BrokerIdNotRegisteredException,
    ErrorCode,
    InvalidRequestException,
    MismatchedEndpointTypeException,
    UnsupportedEndpointTypeException,
)
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcli.protocol.wire.api import ApiKey
from kcli.server.handlers import describe_cluster, describe_quorum, unregister_broker, update_features
from rigs.handlers import call
from rigs.images import unreachable
from rigs.loops import on_a_loop
from rigs.node import RunningNode, running


async def cluster(
    node: RunningNode,
    version: int,
    *,
    listener: str = "PLAINTEXT",
    kind: int = 1,
    fenced: bool = False,
    operations: bool = False,
) -> Any:
    request = DescribeClusterRequest(
        endpoint_type=kind,
        include_fenced_brokers=fenced,
        include_cluster_authorized_operations=operations,
    )
    return await call(node, describe_cluster, request, ApiKey.DESCRIBE_CLUSTER, version, listener=listener)


async def quorum(node: RunningNode, version: int, topic: str, *partitions: int) -> Any:
    rows = tuple(RequestPartitionData(partition_index=each) for each in partitions)
    request = DescribeQuorumRequest(topics=(RequestTopicData(topic_name=topic, partitions=rows),))
    return await call(node, describe_quorum, request, ApiKey.DESCRIBE_QUORUM, version)


async def update(node: RunningNode, version: int, feature: str, level: int) -> ErrorCode:
    """Asks for a level of a feature."""
    change = FeatureUpdateKey(feature=feature, max_version_level=level)
    request = UpdateFeaturesRequest(feature_updates=(change,))
    answer = await call(node, update_features, request, ApiKey.UPDATE_FEATURES, version)
    code: ErrorCode = answer.error_code
    return code


@on_a_loop
async def test_every_version_lists_the_brokers_of_the_cluster(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        for version in range(3):
            response = await cluster(node, version, operations=True)
            assert (response.cluster_id, response.controller_id) == (node.metadata.cluster_id, 1)
            assert [(node.broker_id, node.host) for node in response.brokers] == [(1, "127.0.0.1")]
            assert response.cluster_authorized_operations == 0b1111110100000


@on_a_loop
async def test_fenced_brokers_are_listed_only_on_request(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        node.loader.image = unreachable(node.loader.image)
        assert [node.broker_id for node in (await cluster(node, 2)).brokers] == [1]
        nodes = (await cluster(node, 2, fenced=True)).brokers
        assert [(node.broker_id, node.is_fenced) for node in nodes] == [(1, False), (3, True)]


@on_a_loop
async def test_a_controller_listener_lists_controllers(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        response = await cluster(node, 1, listener="CONTROLLER", kind=2)
        (told,) = response.brokers
        assert (told.broker_id, told.port) == (1, node.sockets.listeners["CONTROLLER"].port)
        assert (response.endpoint_type, response.controller_id) == (2, 1)


@on_a_loop
async def test_the_other_type_of_endpoint_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        with pytest.raises(
            MismatchedEndpointTypeException,
            match="sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ):
            await cluster(node, 1, kind=2)
        with pytest.raises(UnsupportedEndpointTypeException):
            await cluster(node, 1, kind=7)
        with pytest.raises(InvalidRequestException):
            await cluster(node, 0, listener="CONTROLLER")


@on_a_loop
async def test_the_quorum_is_described(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        for version in range(3):
            answer = await quorum(node, version, "__cluster_metadata", 0)
            (partition,) = answer.topics[0].partitions
            assert (partition.leader_id, partition.leader_epoch) == (1, 1)
            (voter,) = partition.current_voters
            assert partition.high_watermark == voter.log_end_offset == node.quorum.log.end_offset
            assert voter.replica_directory_id == (node.quorum.log.directory_id if version == 2 else None)
        (told,) = answer.nodes
        assert (told.node_id, told.listeners[0].name) == (1, "CONTROLLER")
        answer = await quorum(node, 2, "t", 0)
        assert answer.topics[0].partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer = await quorum(node, 2, "__cluster_metadata", 0, 1)
        codes = [each.error_code for each in answer.topics[0].partitions]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


@on_a_loop
async def test_features_are_updated_in_every_version(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        for version in range(3):
            code = await update(node, version, "group.version", 99)
            assert code is ErrorCode.INVALID_UPDATE_VERSION
            assert await update(node, version, "share.version", 1) is ErrorCode.NONE
        assert node.metadata.features["share.version"] == 1


@on_a_loop
async def test_a_broker_that_is_not_there_cannot_be_unregistered(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        request = UnregisterBrokerRequest(broker_id=77)
        with pytest.raises(BrokerIdNotRegisteredException, match="Broker ID 77 is not currently registered"):
            await call(node, unregister_broker, request, ApiKey.UNREGISTER_BROKER, 0)
