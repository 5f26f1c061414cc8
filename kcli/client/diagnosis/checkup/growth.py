"""Estimates the growth of partitions from the timestamps of their records."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.topics import TopicDescription
from kcli.client.diagnosis.checkup.snapshot import PartitionHistory
from kcli.errors import KafkaError
from kcli.model.java_text import parse_long
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

DAY_MS = 24 * 3600 * 1000
PARTITIONS_MAX = 20_000
"""The most partitions that are measured. For each partition, four offsets are requested. For some of these offsets, the
broker reads a file.
"""


async def partition_histories(
    admin: AdminClient,
    topics: Mapping[str, TopicDescription],
    configs: Mapping[str, Mapping[str, str | None]],
    now_ms: int,
) -> Mapping[TopicPartition, PartitionHistory]:
    """Returns the offsets of partitions now, a day ago, and at the beginning of their retention time. Raises
    KafkaError."""
    partitions = [
        TopicPartition(name, partition.partition)
        for name, topic in topics.items()
        for partition in topic.partitions
        if partition.leader is not None
    ][:PARTITIONS_MAX]
    if not partitions:
        return {}
    retention = {
        partition: now_ms - parse_long(configs.get(partition.topic, {}).get("retention.ms") or "-1")
        for partition in partitions
        if parse_long(configs.get(partition.topic, {}).get("retention.ms") or "-1") >= 0
    }
    starts = await _offsets(admin, dict.fromkeys(partitions, int(OffsetSpec.EARLIEST)))
    ends = await _offsets(admin, dict.fromkeys(partitions, int(OffsetSpec.LATEST)))
    a_day = await _offsets(admin, dict.fromkeys(partitions, now_ms - DAY_MS))
    before = await _offsets(admin, {partition: max(0, at) for partition, at in retention.items()})
    return {
        partition: PartitionHistory(
            starts[partition],
            ends[partition],
            _or_end(a_day.get(partition, -1), ends[partition]),
            _or_end(before[partition], ends[partition]) if partition in before else None,
        )
        for partition in partitions
        if partition in starts and partition in ends
    }


async def _offsets(admin: AdminClient, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    offsets = await admin.list_offsets(timestamps, wait_for_leaders=False) if timestamps else {}
    errors = [offset for offset in offsets.values() if isinstance(offset, KafkaError)]
    if errors and len(errors) == len(offsets):
        raise errors[0]
    return {partition: at.offset for partition, at in offsets.items() if isinstance(at, OffsetAt)}


def _or_end(offset: int, end: int) -> int:
    """Returns the offset of the first record after a time. If there is no such record (-1), returns the end offset."""
    return end if offset < 0 else offset
