"""The neighbours of the replicas of one broker: fetchers that only record their calls, and a controller that answers
changes of ISRs as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kcli.errors import ErrorCode, KafkaError
from kcli.metadata.image import MetadataImage
from kcli.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from kcli.server.partitions.followed_partition import FollowedPartition


class RecordedFetchers:
    """Records `follow` and `forget`. `fetched` has the partitions that would be fetched now."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.fetched: list[FollowedPartition] = []
        self.images = 0

    def follow(self, partition: FollowedPartition) -> None:
        assert partition.is_current
        self.calls.append(("follow", str(partition)))
        self.fetched.append(partition)

    def forget(self, partition: FollowedPartition) -> None:
        self.calls.append(("forget", str(partition)))
        self.fetched.remove(partition)

    def metadata_changed(self, image: MetadataImage) -> None:
        self.images += 1


Answer = Callable[[RequestPartitionData], ResponsePartitionData | None]


def committed(asked: RequestPartitionData) -> ResponsePartitionData:
    """The answer to a change that is committed."""
    return ResponsePartitionData(
        partition_index=asked.partition_index,
        leader_id=1,
        leader_epoch=asked.leader_epoch,
        isr=tuple(state.broker_id for state in asked.new_isr_with_epochs),
        partition_epoch=asked.partition_epoch + 1,
    )


def refused(error: ErrorCode) -> Answer:
    return lambda asked: ResponsePartitionData(partition_index=asked.partition_index, error_code=error)


class ScriptedIsrController:
    """A channel for AlterPartition. `answer` answers each change, and None leaves the change out of the response.
    `failures` are raised first, one per request. While `is_open` is not set, no request is answered."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.answer: Answer = committed
        self.failures: list[KafkaError] = []
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def send(self, _api: object, request: Any, _context: object = None) -> Any:
        self.requests.append(request)
        await self.is_open.wait()
        if self.failures:
            raise self.failures.pop(0)
        return AlterPartitionResponse(
            topics=tuple(
                ResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        answer for asked in topic.partitions if (answer := self.answer(asked)) is not None
                    ),
                )
                for topic in request.topics
            )
        )

    def proposals(self) -> list[tuple[int, ...]]:
        """The proposed ISRs, in the order in which they were sent."""
        return [
            tuple(state.broker_id for state in row.new_isr_with_epochs)
            for request in self.requests
            for topic in request.topics
            for row in topic.partitions
        ]
