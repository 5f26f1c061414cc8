"""The protocol type of consumers: the bytes of a member, and the calls of its listener."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcli.client.group.assignors import Assignor, CooperativeStickyAssignor, RangeAssignor
from kcli.client.group.consumer import ConsumerProtocol
from kcli.client.group.protocol import Generation, JoinedMember
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartitions,
    assigned_partitions,
    decode_subscription,
    encode_assignment,
)
from rigs.loops import on_a_loop


class Listener:
    def __init__(self) -> None:
        self.events: list[str] = []

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(f"assigned {' '.join(map(str, partitions))}".strip())

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(f"revoked {' '.join(map(str, partitions))}")

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(f"lost {' '.join(map(str, partitions))}")


async def two_each(topics: Sequence[str]) -> Mapping[str, int]:
    return dict.fromkeys(topics, 2)


def consumer(*assignors: Assignor, topics: Sequence[str] = ("t",)) -> tuple[ConsumerProtocol, Listener]:
    listener = Listener()
    return ConsumerProtocol(topics, listener, two_each, assignors), listener


def bytes_of(*partitions: int, topic: str = "t") -> bytes:
    assigned = (TopicPartitions(topic=topic, partitions=partitions),) if partitions else ()
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned))


@on_a_loop
async def test_an_eager_member_gives_up_everything_before_it_joins_again() -> None:
    protocol, listener = consumer(RangeAssignor(), CooperativeStickyAssignor())
    assert not await protocol.assigned(Generation(1), bytes_of(0, 1))
    await protocol.revoked(everything=False)
    assert not await protocol.assigned(Generation(2), bytes_of(1))
    assert listener.events == ["assigned t-0 t-1", "revoked t-0 t-1", "assigned t-1"]


@on_a_loop
async def test_a_cooperative_member_keeps_its_partitions_and_joins_again_after_it_has_given_up_some() -> None:
    protocol, listener = consumer(CooperativeStickyAssignor())
    await protocol.assigned(Generation(1), bytes_of(0, 1))
    await protocol.revoked(everything=False)
    assert await protocol.assigned(Generation(2), bytes_of(1))
    assert not await protocol.assigned(Generation(3), bytes_of(1))
    await protocol.revoked(everything=True)
    assert listener.events == ["assigned t-0 t-1", "revoked t-0", "assigned", "assigned", "revoked t-1"]


@on_a_loop
async def test_a_cooperative_member_gives_up_topics_that_it_no_longer_subscribes() -> None:
    protocol, listener = consumer(CooperativeStickyAssignor(), topics=["t", "u"])
    await protocol.assigned(Generation(1), bytes_of(0))
    protocol.topics = ("u",)
    await protocol.revoked(everything=False)
    assert listener.events[-1] == "revoked t-0"
    assert protocol.owned == ()


@on_a_loop
async def test_lost_partitions_are_not_revoked_and_not_claimed() -> None:
    protocol, listener = consumer(CooperativeStickyAssignor())
    await protocol.assigned(Generation(5), bytes_of(0))
    await protocol.lost()
    await protocol.lost()
    assert listener.events == ["assigned t-0", "lost t-0"]
    subscription, _ = decode_subscription(protocol.metadata()[0][1])
    assert (subscription.owned_partitions, subscription.generation_id) == ((), -1)


@on_a_loop
async def test_a_member_sends_one_subscription_for_each_assignor() -> None:
    protocol, _ = consumer(RangeAssignor(), CooperativeStickyAssignor())
    await protocol.assigned(Generation(5), bytes_of(0, 1))
    offers = protocol.metadata()
    assert [name for name, _ in offers] == ["range", "cooperative-sticky"]
    subscription, version = decode_subscription(offers[1][1])
    assert version == 3
    assert (subscription.topics, subscription.generation_id) == (("t",), 5)
    assert subscription.owned_partitions == (TopicPartitions(topic="t", partitions=(0, 1)),)


@on_a_loop
async def test_a_leader_assigns_the_topics_of_all_members() -> None:
    protocol, _ = consumer(RangeAssignor())
    other, _ = consumer(RangeAssignor(), topics=["u"])
    members = [
        JoinedMember("a", None, protocol.metadata()[0][1]),
        JoinedMember("b", None, other.metadata()[0][1]),
    ]
    made = await protocol.assign(Generation(1, "a", "range"), members)
    assert {name: list(map(str, assigned_partitions(each))) for name, each in made.items()} == {
        "a": ["t-0", "t-1"],
        "b": ["u-0", "u-1"],
    }
    assert not await protocol.assigned(Generation(1), b""), "a member that came too late has no bytes"
