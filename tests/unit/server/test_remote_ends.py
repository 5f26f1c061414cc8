"""End offsets from the leaders of partitions."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import list_offsets as messages
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import SystemNetwork
from kcli.server.coordinators import remote_ends
from kcli.server.coordinators.broker_links import BrokerLinks
from kcli.server.coordinators.remote_ends import RemoteEnds
from rigs.loops import on_a_loop
from rigs.other_brokers import LISTENER, OtherBrokers, cluster_image


def answer(address: Address, key: ApiKey, request: messages.ListOffsetsRequest) -> Any:
    """The end of partition n is n + 100. Odd partitions of broker 3 have an error."""
    assert key is ApiKey.LIST_OFFSETS and request.replica_id == -1

    def row(number: int) -> messages.ListOffsetsPartitionResponse:
        if number % 2 and address.host == "broker-3":
            return messages.ListOffsetsPartitionResponse(
                partition_index=number, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        return messages.ListOffsetsPartitionResponse(partition_index=number, offset=number + 100)

    return messages.ListOffsetsResponse(
        topics=tuple(
            messages.ListOffsetsTopicResponse(
                name=topic.name, partitions=tuple(row(each.partition_index) for each in topic.partitions)
            )
            for topic in request.topics
        )
    )


def ends(monkeypatch: pytest.MonkeyPatch) -> tuple[RemoteEnds, OtherBrokers]:
    others = OtherBrokers(answer).install(monkeypatch)
    image = cluster_image({})
    links = BrokerLinks(SystemNetwork(), lambda: image, listener=LISTENER, client_id="c", timeout_s=60)
    return RemoteEnds(links), others


def partitions(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in numbers]


@on_a_loop
async def test_each_leader_is_asked_for_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    remote, others = ends(monkeypatch)
    found = await remote.ends({2: partitions(0, 1), 3: partitions(4, 5)})
    assert found == dict(zip(partitions(0, 1, 4), (100, 101, 104), strict=True))
    remote.close()
    assert sorted(others.closed) == sorted(others.opened)


@on_a_loop
async def test_a_request_has_a_limited_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_ends, "PARTITIONS_PER_REQUEST", 2)
    remote, others = ends(monkeypatch)
    assert len(await remote.ends({2: partitions(0, 1, 2, 3, 4)})) == 5
    sizes = [len(request.topics[0].partitions) for _, request in others.requests]
    assert sizes == [2, 2, 1]


@on_a_loop
async def test_a_leader_that_does_not_answer_costs_only_its_own_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remote, others = ends(monkeypatch)
    others.refused.add(Address("broker-2", 9000))
    assert await remote.ends({2: partitions(0, 1), 3: partitions(4)}) == {TopicPartition("t", 4): 104}
