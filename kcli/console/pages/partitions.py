"""The partitions of one topic: replicas, offsets and sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kcli.client.admin.topics import PartitionDescription, TopicDescription
from kcli.console.cache import Aged
from kcli.console.calls import Call
from kcli.errors import KafkaError
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

Offsets = dict[TopicPartition, OffsetAt | KafkaError]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition. Offsets and sizes are None if they are unknown."""

    partition: int
    leader: int | None
    preferred_leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    state: str
    """The problem of the partition: offline, under-replicated or not preferred. Empty if there is no problem."""
    first_offset: int | None
    end_offset: int | None
    records_max: int | None
    """The end offset minus the first offset. Compaction and transactions leave fewer records."""
    size_bytes: int | None
    """The size on the disk of the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """A topic and its partitions. The size is the sum of all replicas."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    rows: tuple[PartitionRow, ...]
    size_bytes: int | None


async def cached_partitions(call: Call, topic: str) -> Aged[TopicPartitions]:
    """The partitions of a topic, at most some seconds old. Raises KafkaError if the topic does not exist."""
    return await call.cached(("partitions", topic), lambda: _load(call, topic))


async def _load(call: Call, topic: str) -> TopicPartitions:
    description = (await call.admin.describe_topics([topic]))[topic]
    if isinstance(description, KafkaError):
        raise description
    # The offsets of partitions without a leader are not requested, because this would only delay the answer.
    led = [
        TopicPartition(topic, partition.partition)
        for partition in description.partitions
        if partition.leader is not None
    ]
    first = await _offsets(call, led, OffsetSpec.EARLIEST)
    end = await _offsets(call, led, OffsetSpec.LATEST)
    sizes = await _sizes(call, description)
    return TopicPartitions(
        name=description.name,
        topic_id=description.topic_id,
        is_internal=description.is_internal,
        rows=tuple(_row(topic, partition, first, end, sizes) for partition in description.partitions),
        size_bytes=sum(sizes.values()) if sizes else None,
    )


async def _offsets(call: Call, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> Offsets:
    return await call.admin.list_offsets(dict.fromkeys(partitions, int(spec)), wait_for_leaders=False)


async def _sizes(call: Call, topic: TopicDescription) -> dict[tuple[int, int], int]:
    """The known sizes of replicas in bytes, by partition and broker."""
    by_broker: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for partition in topic.partitions:
        for replica in partition.isr:
            by_broker[replica].append(TopicPartition(topic.name, partition.partition))
    places = [partition for partitions in by_broker.values() for partition in partitions]
    log_dirs = await call.admin.describe_log_dirs(list(by_broker), partitions=dict.fromkeys(places))
    return {
        (replica.partition, broker): replica.size_bytes
        for broker, directories in log_dirs.items()
        if not isinstance(directories, KafkaError)
        for directory in directories
        for replica in directory.replicas
        if replica.topic == topic.name and not replica.is_future
    }


def _row(
    topic: str,
    description: PartitionDescription,
    first: Offsets,
    end: Offsets,
    sizes: dict[tuple[int, int], int],
) -> PartitionRow:
    partition = TopicPartition(topic, description.partition)
    begins, ends = _offset(first.get(partition)), _offset(end.get(partition))
    return PartitionRow(
        partition=description.partition,
        leader=description.leader,
        preferred_leader=description.replicas[0] if description.replicas else None,
        leader_epoch=description.leader_epoch,
        replicas=description.replicas,
        isr=description.isr,
        state=_state(description),
        first_offset=begins,
        end_offset=ends,
        records_max=None if begins is None or ends is None else ends - begins,
        size_bytes=None
        if description.leader is None
        else sizes.get((description.partition, description.leader)),
    )


def _state(description: PartitionDescription) -> str:
    if description.leader is None:
        return "offline"
    if len(description.isr) < len(description.replicas):
        return "under-replicated"
    return "not preferred" if description.replicas and description.leader != description.replicas[0] else ""


def _offset(answer: OffsetAt | KafkaError | None) -> int | None:
    return answer.offset if isinstance(answer, OffsetAt) and answer.offset >= 0 else None
