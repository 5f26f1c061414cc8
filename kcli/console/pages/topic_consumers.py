"""The consumers of a topic: the groups that have committed offsets for it, or whose members read it now.

No API of Kafka returns the groups of a topic. So the offsets and the members of all groups are requested, and their
number is limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from kcli.client.admin.groups import CONSUMER_PROTOCOL_TYPES, CommittedOffset, GroupDescription, GroupListing
from kcli.console.answers import Rows, whole_sum
from kcli.console.calls import Call
from kcli.console.pages.groups import ends_of
from kcli.console.routes import Read
from kcli.errors import KafkaError
from kcli.model.topic_partition import TopicPartition

GROUPS_MAX = 1000
"""The most groups whose offsets are requested. The page shows if there are more."""

CONSUMERS_SECONDS = 30.0
"""The time for which the answer is reused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRow:
    """A group that reads the topic. `lag` is None if the end or the offset of a partition is unknown."""

    group: str
    state: str
    members: int
    """The members that read partitions of this topic."""
    partitions: int
    """The partitions of the topic for which the group has an offset or a member."""
    lag: int | None


@dataclass(frozen=True, slots=True)
class _Consumers:
    rows: tuple[ConsumerRow, ...]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRows(Rows):
    """The rows, and the number of groups that were not looked at."""

    left_out: int


async def list_consumers(call: Call) -> ConsumerRows:
    """GET /topics/{topic}/consumers: the groups that read the topic, with their lag."""
    topic = call.part("topic")
    answer = await call.cached(("consumers", topic), lambda: _load(call, topic), seconds=CONSUMERS_SECONDS)
    page = call.listing().rows(
        answer.value.rows,
        text=lambda row: f"{row.group} {row.state}",
        columns={
            "group": lambda row: row.group,
            "state": lambda row: (row.state, row.group),
            "members": lambda row: row.members,
            "partitions": lambda row: row.partitions,
            "lag": lambda row: row.lag,
        },
    )
    return ConsumerRows(total=page.total, rows=page.rows, left_out=answer.value.left_out)


async def _load(call: Call, topic: str) -> _Consumers:
    listed = [
        listing for listing in await call.admin.list_groups() if listing.protocol in CONSUMER_PROTOCOL_TYPES
    ]
    shown = listed[:GROUPS_MAX]
    ids = [listing.group_id for listing in shown]
    described = await call.admin.describe_groups(ids) if ids else {}
    committed = await call.admin.list_all_offsets(ids) if ids else {}
    consumers: dict[str, tuple[GroupListing, dict[TopicPartition, int | None], int]] = {}
    for listing in shown:
        await asyncio.sleep(0)
        group, offsets = described.get(listing.group_id), committed.get(listing.group_id)
        places, members = _places(topic, group, {} if isinstance(offsets, KafkaError) else offsets or {})
        if places:
            consumers[listing.group_id] = listing, places, members
    ends = await ends_of(call.connection, [places for _, places, _ in consumers.values()])
    rows = tuple(_row(*consumer, ends) for consumer in consumers.values())
    return _Consumers(rows, len(listed) - len(shown))


def _places(
    topic: str,
    group: GroupDescription | KafkaError | None,
    offsets: Mapping[TopicPartition, CommittedOffset | KafkaError | None],
) -> tuple[dict[TopicPartition, int | None], int]:
    """The partitions of the topic that a group reads, with their offsets, and the number of members that read them."""
    places: dict[TopicPartition, int | None] = {}
    members = 0
    for member in group.members if isinstance(group, GroupDescription) else ():
        own = [partition for partition in member.assignment if partition.topic == topic]
        members += bool(own)
        places |= dict.fromkeys(own)
    places |= {
        partition: offset.offset
        for partition, offset in offsets.items()
        if partition.topic == topic and isinstance(offset, CommittedOffset)
    }
    return places, members


def _row(
    listed: GroupListing,
    places: Mapping[TopicPartition, int | None],
    members: int,
    ends: Mapping[TopicPartition, int],
) -> ConsumerRow:
    lags = [
        None if offset is None or partition not in ends else max(0, ends[partition] - offset)
        for partition, offset in places.items()
    ]
    return ConsumerRow(
        group=listed.group_id,
        state=listed.state,
        members=members,
        partitions=len(places),
        lag=whole_sum(lags),
    )


ROUTES = (Read("/topics/{topic}/consumers", list_consumers),)
