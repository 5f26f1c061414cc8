"""The protocol type of consumers: subscriptions, assignors, and the partitions that a member owns.

To commit offsets as a member, use `alter_group_offsets` with the member's generation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kcli.client.group.assignors import Assignor, RangeAssignor, SubscribedMember
from kcli.client.group.protocol import NO_GENERATION, Generation, JoinedMember
from kcli.model.request_values import CONSUMER_PROTOCOL_TYPE
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    assigned_partitions,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)


class PartitionListener(Protocol):
    """The owner of the partitions. It commits offsets in `revoked`, and not in `lost`."""

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """The member owns these partitions in addition to the partitions that it owned before."""
        ...

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """The member must give up these partitions. Until this call returns, no other member gets them."""
        ...

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Other members may own these partitions already."""
        ...


class ConsumerProtocol:
    """A consumer's half of its membership. `partition_counts` returns the number of partitions of each topic.

    The rebalances are incremental if all assignors are cooperative, and eager if one of them is not (KIP-429).
    """

    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(
        self,
        topics: Iterable[str],
        listener: PartitionListener,
        partition_counts: Callable[[Sequence[str]], Awaitable[Mapping[str, int]]],
        assignors: Sequence[Assignor] = (RangeAssignor(),),
    ) -> None:
        self.topics = tuple(topics)
        """The subscription. After a change, call `Member.rejoin`."""
        self.owned: tuple[TopicPartition, ...] = ()
        self._listener = listener
        self._partition_counts = partition_counts
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._is_cooperative = all(assignor.is_cooperative for assignor in assignors)
        self._generation_id = NO_GENERATION

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        subscription = ConsumerProtocolSubscription(
            topics=self.topics,
            owned_partitions=_by_topic(self.owned),
            generation_id=self._generation_id,
        )
        embedded = encode_subscription(subscription)
        return [(name, embedded) for name in self._assignors]

    async def assign(self, leader: Generation, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        subscribed = [_subscribed(member) for member in members]
        topics = sorted({topic for member in subscribed for topic in member.topics})
        counts = await self._partition_counts(topics)
        assignment = self._assignors[leader.protocol_name].assign(subscribed, counts)
        return {
            member: encode_assignment(ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions)))
            for member, partitions in assignment.items()
        }

    async def assigned(self, generation: Generation, assignment: bytes) -> bool:
        before, now = self.owned, assigned_partitions(assignment)
        self._generation_id = generation.id
        revoked = _without(before, now)
        if revoked:
            await self._listener.revoked(revoked)
        self.owned = now
        await self._listener.assigned(_without(now, before))
        return bool(revoked)

    async def revoked(self, *, everything: bool) -> None:
        subscribed: tuple[TopicPartition, ...] = ()
        if self._is_cooperative and not everything:
            subscribed = tuple(partition for partition in self.owned if partition.topic in self.topics)
        revoked = _without(self.owned, subscribed)
        if revoked:
            await self._listener.revoked(revoked)
        self.owned = subscribed

    async def lost(self) -> None:
        lost, self.owned, self._generation_id = self.owned, (), NO_GENERATION
        if lost:
            await self._listener.lost(lost)


def _without(partitions: Iterable[TopicPartition], others: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Returns the partitions that are not in `others`, in their order."""
    excluded = set(others)
    return [partition for partition in partitions if partition not in excluded]


def _subscribed(member: JoinedMember) -> SubscribedMember:
    subscription, _ = decode_subscription(member.metadata)
    return SubscribedMember(
        member.member_id,
        member.group_instance_id,
        subscription.topics,
        tuple(
            TopicPartition(topic.topic, number)
            for topic in subscription.owned_partitions
            for number in topic.partitions
        ),
        subscription.generation_id,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> tuple[TopicPartitions, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return tuple(
        TopicPartitions(topic=topic, partitions=tuple(numbers)) for topic, numbers in by_topic.items()
    )
