"""Finds groups that have stopped: no members, and records that have waited for a while.

No API returns the time at which a group stopped. But ListOffsets returns the first record at or after a time. Each
unread record before this offset is older. So the age of unread records is known without reading records, and a client
needs no READ permission. A group that has a lag only for a moment, for example during a restart, is not reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcli.client.admin.admin import AdminClient
from kcli.client.diagnosis.checkup.snapshot import StoppedGroup
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

AGES_SECONDS = (60, 600, 3600, 86_400, 604_800)
"""The ages for which unread records are looked for. The shortest one is longer than a usual restart of a consumer."""

PARTITIONS_MAX = 20_000
"""The most partitions that are looked at. For each partition, up to seven offsets are requested."""

Commits = Mapping[str, Mapping[TopicPartition, int]]
"""The committed offsets of groups."""


async def stopped_groups(
    admin: AdminClient, before: Commits, commits: Commits, now_ms: int
) -> tuple[StoppedGroup, ...]:
    """Returns the groups whose unread records are older than a minute. The groups must have no members.

    `before` are the offsets at an earlier time. A group whose offsets have changed since then is still consumed, by a
    consumer that is not a member. Raises KafkaError.
    """
    still = {group: offsets for group, offsets in commits.items() if before.get(group, offsets) == offsets}
    partitions = list(dict.fromkeys(partition for offsets in still.values() for partition in offsets))[
        :PARTITIONS_MAX
    ]
    starts = await _offsets(admin, partitions, OffsetSpec.EARLIEST)
    ends = await _offsets(admin, partitions, OffsetSpec.LATEST)
    unread = {
        group: {
            partition: ends[partition] - max(offset, starts[partition])
            for partition, offset in offsets.items()
            if partition in ends and partition in starts and ends[partition] > max(offset, starts[partition])
        }
        for group, offsets in still.items()
    }
    ages: dict[str, int] = {}
    behind = [group for group, lags in unread.items() if lags]
    for age in AGES_SECONDS:
        delayed = list(dict.fromkeys(partition for group in behind for partition in unread[group]))
        firsts = await _offsets(admin, delayed, now_ms - age * 1000) if delayed else {}
        behind = [
            group
            for group in behind
            if any(
                _has_older(partition, still[group][partition], starts, ends, firsts)
                for partition in unread[group]
            )
        ]
        ages |= dict.fromkeys(behind, age)
    return tuple(StoppedGroup(group, unread[group], age) for group, age in sorted(ages.items()))


def _has_older(
    partition: TopicPartition,
    committed: int,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    firsts: Mapping[TopicPartition, int],
) -> bool:
    """Whether an unread record is before the first record of a time. If no record is at or after this time, the first
    one is -1, and all records are older."""
    first = firsts.get(partition)
    if first is None:
        return False
    return (ends[partition] if first < 0 else first) > max(committed, starts[partition])


async def _offsets(
    admin: AdminClient, partitions: Sequence[TopicPartition], at: int
) -> Mapping[TopicPartition, int]:
    """The known offsets of partitions at a timestamp or an OffsetSpec."""
    if not partitions:
        return {}
    offsets = await admin.list_offsets(dict.fromkeys(partitions, at), wait_for_leaders=False)
    return {partition: offset.offset for partition, offset in offsets.items() if isinstance(offset, OffsetAt)}
