"""Plans new offsets of a group. Nothing is changed: the caller shows the plan and commits its offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kcli.errors import KafkaError
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.client.admin.admin import AdminClient


class Position(StrEnum):
    """The new position of a group in its partitions."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    """The first record at or after a time. Without such a record, the end."""
    OFFSET = "offset"
    SHIFT = "shift"
    """The committed offset plus a number, which may be negative."""
    CURRENT = "current"
    """The committed offset. Without a committed offset, the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOffset:
    """The present and the new offset of one partition. `note` is the reason why the new offset differs from the
    requested offset."""

    topic: str
    partition: int
    current: int | None
    new: int | None
    start: int | None
    end: int | None
    note: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first offsets and the end offsets of the partitions of a plan, and their offsets at a given time."""

    starts: Mapping[TopicPartition, OffsetAt | KafkaError]
    ends: Mapping[TopicPartition, OffsetAt | KafkaError]
    at_time: Mapping[TopicPartition, OffsetAt | KafkaError]


async def plan_offsets(
    client: AdminClient,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, int],
    position: Position,
    value: int = 0,
    *,
    edits: Mapping[TopicPartition, int] | None = None,
) -> list[PlannedOffset]:
    """Returns the plan, sorted by partition. `value` is the time in milliseconds, the offset, or the shift.

    `edits` has offsets of single partitions, which take precedence. A new offset is always inside the log. A partition
    whose offsets cannot be read has an error and no new offset.
    """
    selected = sorted(set(partitions) | set(edits or {}))
    if not selected:
        return []
    starts = await client.list_offsets(dict.fromkeys(selected, OffsetSpec.EARLIEST), wait_for_leaders=False)
    ends = await client.list_offsets(dict.fromkeys(selected, OffsetSpec.LATEST), wait_for_leaders=False)
    at_time: Mapping[TopicPartition, OffsetAt | KafkaError] = {}
    if position is Position.TIME:
        at_time = await client.list_offsets(dict.fromkeys(selected, value), wait_for_leaders=False)
    bounds = Bounds(starts, ends, at_time)
    planned = []
    for partition in selected:
        edit = (edits or {}).get(partition)
        chosen = position if edit is None else Position.OFFSET
        number = value if edit is None else edit
        planned.append(_planned(partition, committed.get(partition), bounds, chosen, number))
    return planned


def _planned(
    partition: TopicPartition, current: int | None, bounds: Bounds, position: Position, value: int
) -> PlannedOffset:
    start, end, at = bounds.starts[partition], bounds.ends[partition], bounds.at_time.get(partition)
    failed = next((answer for answer in (start, end, at) if isinstance(answer, KafkaError)), None)
    if failed is not None or not isinstance(start, OffsetAt) or not isinstance(end, OffsetAt):
        reason = "unknown" if failed is None else failed.message
        return PlannedOffset(
            topic=partition.topic,
            partition=partition.partition,
            current=current,
            new=None,
            start=None,
            end=None,
            error=reason,
        )
    offset = at if isinstance(at, OffsetAt) else None
    wished, note = _wished(position, value, current, start.offset, end.offset, offset)
    new = None if wished is None else min(max(wished, start.offset), end.offset)
    if wished is not None and new != wished:
        bound = "the first offset" if wished < start.offset else "the end"
        note = f"{wished} is outside the log, so {bound} is used"
    return PlannedOffset(
        topic=partition.topic,
        partition=partition.partition,
        current=current,
        new=new,
        start=start.offset,
        end=end.offset,
        note=note,
    )


def _wished(
    position: Position, value: int, current: int | None, start: int, end: int, at: OffsetAt | None
) -> tuple[int | None, str]:
    """Returns the requested offset, which may be outside the log, and a note for the user. The offset may be None."""
    match position:
        case Position.EARLIEST:
            return start, ""
        case Position.LATEST:
            return end, ""
        case Position.OFFSET:
            return value, ""
        case Position.TIME:
            if at is None or at.offset < 0:
                return end, "no record is that new, so the end is used"
            return at.offset, ""
        case Position.SHIFT:
            return (None, "there is no committed offset") if current is None else (current + value, "")
        case Position.CURRENT:
            return (
                (end, "there is no committed offset, so the end is used")
                if current is None
                else (current, "")
            )
