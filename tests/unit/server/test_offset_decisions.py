"""Large offset commits: the group decides on a bounded number of partitions at a time."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from kcli.errors import CoordinatorNotAvailableException, ErrorCode
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.protocol.wire.api import ApiKey
from kcli.server.coordinators.group_ids import PARTITIONS_PER_DECISION
from kcli.server.handlers.offset_commit import Commit, HasMetadata, commit_allowed
from kcli.server.requests.context import RequestContext
from rigs.loops import on_a_loop

KNOWN = 1_000
"""Each topic has this many partitions."""


def request_of(*topics: tuple[str, range]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=name,
                partitions=tuple(
                    OffsetCommitRequestPartition(partition_index=number, committed_offset=7)
                    for number in numbers
                ),
            )
            for name, numbers in topics
        ),
    )


class Group:
    """Accepts the offsets of each decision, until the decision with the number `fails_at`."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.asked: list[OffsetCommitRequest] = []
        self._fails_at = fails_at

    async def commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        self.asked.append(request)
        if len(self.asked) - 1 == self._fails_at:
            raise CoordinatorNotAvailableException
        return OffsetCommitResponse(
            topics=tuple(
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        OffsetCommitResponsePartition(partition_index=each.partition_index)
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def sizes(self) -> list[int]:
        return [sum(len(topic.partitions) for topic in request.topics) for request in self.asked]


async def answer_to(request: OffsetCommitRequest, commit: Commit) -> OffsetCommitResponse:
    image = SimpleNamespace(partitions=range(KNOWN))

    def topic(name: str) -> object:
        return None if name == "gone" else image

    ports: Any = SimpleNamespace(
        loader=SimpleNamespace(image=SimpleNamespace(topics=SimpleNamespace(topic=topic)))
    )
    context: RequestContext[HasMetadata] = RequestContext(
        ports, ApiKey.OFFSET_COMMIT, 8, 1, "c", "PLAINTEXT", "127.0.0.1"
    )
    return await commit_allowed(context, request, commit)


def shape(message: OffsetCommitRequest | OffsetCommitResponse) -> list[tuple[str, list[int]]]:
    return [(topic.name, [each.partition_index for each in topic.partitions]) for topic in message.topics]


@on_a_loop
async def test_a_usual_commit_is_one_decision_on_the_request_itself() -> None:
    group = Group()
    request = request_of(("t", range(PARTITIONS_PER_DECISION)))
    await answer_to(request, group.commit)
    assert group.asked == [request]
    assert group.asked[0] is request


@on_a_loop
async def test_a_large_commit_is_several_decisions_and_one_answer() -> None:
    group = Group()
    request = request_of(("t", range(700)), ("gone", range(2)), ("u", range(800)))
    answer = await answer_to(request, group.commit)
    assert group.sizes() == [500, 500, 500]
    assert [shape(each)[0][0] for each in group.asked] == ["t", "t", "u"]
    assert shape(answer) == shape(request)
    assert codes_of(answer) == {ErrorCode.NONE: 1500, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 2}


@on_a_loop
async def test_after_a_failure_the_group_is_not_asked_again() -> None:
    group = Group(fails_at=1)
    answer = await answer_to(request_of(("t", range(1000)), ("u", range(1000))), group.commit)
    assert group.sizes() == [500, 500]
    assert codes_of(answer) == {ErrorCode.NONE: 500, ErrorCode.COORDINATOR_NOT_AVAILABLE: 1500}
    first = answer.topics[0].partitions[:PARTITIONS_PER_DECISION]
    assert {each.error_code for each in first} == {ErrorCode.NONE}


def codes_of(answer: OffsetCommitResponse) -> Counter[ErrorCode]:
    return Counter(each.error_code for topic in answer.topics for each in topic.partitions)
