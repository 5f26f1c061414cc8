"""Consumer groups: the list, one group with its partitions, members and lag, and the history of the lag."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from kcli.client.admin.groups import CONSUMER_PROTOCOL_TYPES, CommittedOffset, GroupDescription, GroupListing
from kcli.client.admin.lag import lag_seconds
from kcli.client.lag_watch import is_known
from kcli.console.answers import Rows, finite, whole_sum
from kcli.console.cache import Aged
from kcli.console.calls import Call
from kcli.console.connection import ClusterConnection
from kcli.console.group_memory import GroupMemory
from kcli.console.routes import Read
from kcli.errors import KafkaError
from kcli.lag.group_lag import GroupLag
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.turns import Turn

SAMPLE_SECONDS = 3.0
"""The time for which the sample on a group's page is reused."""

READ_PARTITIONS_MAX = 200
"""If more partitions than this have a lag, their first unread records are not read. Their ages then come from the
samples."""

Committed = Mapping[TopicPartition, CommittedOffset | KafkaError | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group in the list. The fields after `protocol` are None if they could not be read."""

    group: str
    type: str
    state: str
    protocol: str
    members: int | None = None
    lag: int | None = None
    unknown_partitions: int = 0
    """The number of partitions whose lag is unknown. `lag` is the sum of the others."""
    lag_seconds: float | None = None
    is_at_least: bool = False
    status: str | None = None
    explanation: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition of a group: its offsets, its lag, and the member that reads it."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    lag_seconds: float | None
    is_at_least: bool
    catch_up_seconds: float | None
    status: str | None
    explanation: str
    member: str | None
    host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: int
    assignment: str
    lag: int | None
    """The sum of the partitions' lags, or None if the lag of a partition is unknown."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A group, its lag, and the partitions that are assigned but have no committed offset."""

    group: GroupDescription
    lag: GroupLag
    uncommitted: tuple[TopicPartition, ...]
    ends: Mapping[TopicPartition, int]


class Memories:
    """The `GroupMemory` of each session. A `GroupMemory` exists as long as the connection of its session."""

    def __init__(self) -> None:
        self._by_connection: WeakKeyDictionary[ClusterConnection, GroupMemory] = WeakKeyDictionary()

    def of(self, connection: ClusterConnection) -> GroupMemory:
        known_memory = self._by_connection.get(connection)
        if known_memory is None:

            async def sample(group_id: str) -> None:
                async with connection.turn():
                    await _sample(connection, memory, group_id)

            known_memory = memory = self._by_connection[connection] = GroupMemory(sample)
            connection.own("group memory", known_memory.close)
        return known_memory


async def _nothing(_: Memories) -> None:
    """Does nothing, because each `GroupMemory` ends with its connection."""


def memory_of(call: Call) -> GroupMemory:
    """Returns the `GroupMemory` of the user's session."""
    return call.shared.get("group memories", Memories, _nothing).of(call.connection)


# The list


async def list_groups(call: Call) -> Rows:
    """GET /groups: the groups. Members and lag are read only for the rows that are sent."""
    answer = await call.cached("groups", call.admin.list_groups)
    state = call.query("state")
    groups = [group for group in answer.value if not state or group.state == state]
    page = call.listing().rows(
        groups,
        text=lambda row: f"{row.group_id} {row.state} {row.type} {row.protocol}",
        columns={
            "group": lambda row: row.group_id,
            "state": lambda row: (row.state, row.group_id),
            "type": lambda row: (row.type, row.group_id),
        },
    )
    shown = [row for row in page.rows if isinstance(row, GroupListing)]
    rows: list[object] = list(await _list_rows(call, shown))
    return Rows(total=page.total, rows=rows)


async def _list_rows(call: Call, listed: Sequence[GroupListing]) -> list[GroupRow]:
    consumers = [listing.group_id for listing in listed if listing.protocol in CONSUMER_PROTOCOL_TYPES]
    described = await call.admin.describe_groups(consumers) if consumers else {}
    committed = await call.admin.list_all_offsets(consumers) if consumers else {}
    ends = await ends_of(
        call.connection, [answer for answer in committed.values() if not isinstance(answer, KafkaError)]
    )
    rows = []
    for listing in listed:
        await asyncio.sleep(0)
        group, offsets = described.get(listing.group_id), committed.get(listing.group_id)
        base = GroupRow(
            group=listing.group_id, type=listing.type, state=listing.state, protocol=listing.protocol
        )
        if group is None or offsets is None:
            rows.append(base)
        elif isinstance(group, KafkaError) or isinstance(offsets, KafkaError):
            failed = group if isinstance(group, KafkaError) else offsets
            rows.append(_failed_row(base, failed))
        else:
            lag = await _look(memory_of(call), group, offsets, ends, {})
            rows.append(_group_row(base, lag))
    return rows


def _failed_row(base: GroupRow, error: object) -> GroupRow:
    return GroupRow(
        group=base.group,
        type=base.type,
        state=base.state,
        protocol=base.protocol,
        error=error.message if isinstance(error, KafkaError) else str(error),
    )


def _group_row(base: GroupRow, lag: GroupLag) -> GroupRow:
    return GroupRow(
        group=base.group,
        type=base.type,
        state=lag.state,
        protocol=base.protocol,
        members=lag.members,
        lag=None if lag.is_unknown else lag.lag,
        unknown_partitions=lag.unknown_partitions,
        lag_seconds=lag.lag_seconds,
        is_at_least=lag.is_at_least,
        status=_status(lag),
        explanation=lag.explanation(),
    )


def _status(lag: GroupLag) -> str | None:
    """The state of a group. None if a partition with lag has only one sample."""
    return lag.status.name if all(map(is_known, lag.partitions.values())) else None


# One group


async def show_group(call: Call) -> dict[str, object]:
    """GET /groups/{group}: the group with its sums. The console also begins to take samples of the group."""
    memory = memory_of(call)
    memory.shown(call.part("group"))
    answer = await cached_sample(call)
    group, lag = answer.value.group, answer.value.lag
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol": group.protocol,
        "assignor": group.assignor,
        "epoch": group.epoch,
        "coordinator": {
            "id": group.coordinator.id,
            "address": f"{group.coordinator.host}:{group.coordinator.port}",
        },
        "members": lag.members,
        "idle_members": lag.idle_members,
        "partitions": len(lag.partitions) + len(answer.value.uncommitted),
        "lag": None if lag.is_unknown else lag.lag,
        "unknown_partitions": lag.unknown_partitions,
        "lag_seconds": lag.lag_seconds,
        "is_at_least": lag.is_at_least,
        "status": _status(lag),
        "explanation": lag.explanation(),
        "topics": sorted(lag.topics),
        "can_reset": group.state in ("Empty", "Dead"),
    }


async def list_partitions(call: Call) -> Rows:
    """GET /groups/{group}/partitions: the offsets and the lag of each partition."""
    answer = await cached_sample(call)
    sample = answer.value
    rows = [_partition_row(sample, partition) for partition in (*sample.lag.partitions, *sample.uncommitted)]
    return call.listing().rows(
        rows,
        text=lambda row: (
            f"{row.topic}-{row.partition} {row.member or ''} {row.host or ''} {row.status or ''}"
        ),
        columns={
            "partition": lambda row: (row.topic, row.partition),
            "lag": lambda row: row.lag,
            "lag_seconds": lambda row: row.lag_seconds,
            "status": lambda row: row.status,
            "member": lambda row: row.member,
        },
    )


def _partition_row(sample: Sample, partition: TopicPartition) -> PartitionRow:
    partition_lag, reader = sample.lag.partitions.get(partition), sample.lag.readers.get(partition)
    is_judged = partition_lag is not None and is_known(partition_lag)
    return PartitionRow(
        topic=partition.topic,
        partition=partition.partition,
        committed=None if partition_lag is None else partition_lag.committed,
        end=sample.ends.get(partition),
        lag=None if partition_lag is None else partition_lag.lag,
        lag_seconds=None if partition_lag is None else partition_lag.lag_seconds,
        is_at_least=partition_lag is not None and partition_lag.is_at_least,
        catch_up_seconds=None
        if partition_lag is None or partition_lag.catch_up_seconds is None
        else finite(partition_lag.catch_up_seconds),
        status=partition_lag.status.name if partition_lag is not None and is_judged else None,
        explanation=sample.lag.sentence(partition)
        if partition_lag is not None
        else "the group has committed no offset",
        member=None if reader is None else reader.name,
        host=None if reader is None else reader.host.lstrip("/"),
    )


async def list_members(call: Call) -> Rows:
    """GET /groups/{group}/members: the members with their partitions."""
    answer = await cached_sample(call)
    lag = answer.value.lag
    rows = []
    for member in answer.value.group.members:
        lags = [
            lag.partitions[partition].lag for partition in member.assignment if partition in lag.partitions
        ]
        rows.append(
            MemberRow(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.host.lstrip("/"),
                partitions=len(member.assignment),
                assignment=_assignment_text(member.assignment),
                lag=whole_sum(lags),
            )
        )
    return call.listing().rows(
        rows,
        text=lambda row: (
            f"{row.member_id} {row.client_id} {row.host} {row.instance_id or ''} {row.assignment}"
        ),
        columns={
            "client_id": lambda row: (row.client_id, row.member_id),
            "host": lambda row: row.host,
            "partitions": lambda row: row.partitions,
            "lag": lambda row: row.lag,
        },
    )


def _assignment_text(partitions: Sequence[TopicPartition]) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return "; ".join(f"{topic}: {', '.join(map(str, numbers))}" for topic, numbers in by_topic.items())


async def show_history(call: Call) -> dict[str, object]:
    """GET /groups/{group}/history: the lag since the page was opened for the first time, at most an hour."""
    memory = memory_of(call)
    await cached_sample(call)
    return {"points": memory.points(call.part("group"))}


# Samples


async def cached_sample(call: Call) -> Aged[Sample]:
    """Returns a sample of the group in the path, at most some seconds old. Raises KafkaError."""
    group_id = call.part("group")
    memory = memory_of(call)
    return await call.cached(
        ("group", group_id), lambda: _sample(call.connection, memory, group_id), seconds=SAMPLE_SECONDS
    )


async def _sample(connection: ClusterConnection, memory: GroupMemory, group_id: str) -> Sample:
    admin = connection.admin
    group = (await admin.describe_groups([group_id]))[group_id]
    if isinstance(group, KafkaError):
        raise group
    offsets = await admin.list_group_offsets(group_id)
    assigned = {partition for member in group.members for partition in member.assignment}
    ends = await ends_of(connection, [offsets, dict.fromkeys(assigned)])
    ages = await _ages(connection, offsets, ends)
    lag = await _look(memory, group, offsets, ends, ages)
    memory.remember(lag)
    uncommitted = tuple(sorted(assigned - lag.partitions.keys()))
    return Sample(group, lag, uncommitted, ends)


async def _look(
    memory: GroupMemory,
    group: GroupDescription,
    offsets: Committed,
    ends: Mapping[TopicPartition, int],
    ages: Mapping[TopicPartition, float],
) -> GroupLag:
    committed = {
        partition: offset.offset
        for partition, offset in offsets.items()
        if isinstance(offset, CommittedOffset)
    }
    now_ms = time.monotonic_ns() // 1_000_000
    return await memory.watch.look(group, committed, ends, ages, Turn(), now_ms=now_ms)


async def ends_of(
    connection: ClusterConnection, offsets: Sequence[Mapping[TopicPartition, object]]
) -> dict[TopicPartition, int]:
    partitions = {partition for group_offsets in offsets for partition in group_offsets}
    if not partitions:
        return {}
    ends = await connection.admin.list_offsets(
        dict.fromkeys(sorted(partitions), OffsetSpec.LATEST), wait_for_leaders=False
    )
    return {partition: end.offset for partition, end in ends.items() if isinstance(end, OffsetAt)}


async def _ages(
    connection: ClusterConnection, offsets: Committed, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    """Returns the ages of the first unread records that the user may read."""
    behind = {
        partition: offset.offset
        for partition, offset in offsets.items()
        if isinstance(offset, CommittedOffset) and ends.get(partition, 0) > offset.offset
    }
    if not behind or len(behind) > READ_PARTITIONS_MAX:
        return {}
    ages = await lag_seconds(connection.admin, behind, time.time_ns() // 1_000_000)
    return {partition: age for partition, age in ages.items() if isinstance(age, float)}


ROUTES = (
    Read("/groups", list_groups),
    Read("/groups/{group}", show_group),
    Read("/groups/{group}/partitions", list_partitions),
    Read("/groups/{group}/members", list_members),
    Read("/groups/{group}/history", show_history),
)
