"""Gets the end offsets of partitions that this broker does not host. The broker sends ListOffsets to their leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kcli.errors import ErrorCode, KafkaError
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition, numbers_by_topic
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.server.coordinators.broker_links import BrokerLinks

PARTITIONS_PER_REQUEST = 500
"""The most partitions in one request. This broker needs about 2 ms to make such a request and to read the answer. If
there are more partitions, a leader gets one request after another."""
LIMIT_S = 5.0
"""The time after which a leader counts as silent. It is shorter than the pause between two samples."""


class RemoteEnds:
    def __init__(self, links: BrokerLinks) -> None:
        self._links = links

    async def ends(self, by_leader: Mapping[int, Sequence[TopicPartition]]) -> dict[TopicPartition, int]:
        """Returns the end offsets of partitions. The argument has the partitions of each leader. If a leader does not
        answer, or answers with an error, its partitions are left out.
        """
        ends: dict[TopicPartition, int] = {}
        await asyncio.gather(*(self._of_leader(leader, part, ends) for leader, part in by_leader.items()))
        return ends

    async def _of_leader(
        self, leader: int, partitions: Sequence[TopicPartition], ends: dict[TopicPartition, int]
    ) -> None:
        for begin in range(0, len(partitions), PARTITIONS_PER_REQUEST):
            request = _request(partitions[begin : begin + PARTITIONS_PER_REQUEST])
            try:
                response: ListOffsetsResponse = await self._links.ask(leader, ApiKey.LIST_OFFSETS, request)
            except KafkaError:
                return  # the link has logged the reason
            for topic in response.topics:
                for row in topic.partitions:
                    if row.error_code is ErrorCode.NONE:
                        ends[TopicPartition(topic.name, row.partition_index)] = row.offset

    def close(self) -> None:
        self._links.close()


def _request(partitions: Sequence[TopicPartition]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,  # a consumer, so that the end is the high watermark
        topics=tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(
                    ListOffsetsPartition(partition_index=number, timestamp=OffsetSpec.LATEST)
                    for number in numbers
                ),
            )
            for topic, numbers in numbers_by_topic(partitions).items()
        ),
    )
