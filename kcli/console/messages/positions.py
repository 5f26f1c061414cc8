"""The offsets at which a scan begins and ends, in each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kcli.console.messages.fetching import Bounds, TopicFetcher
from kcli.errors import KafkaError, KcliError
from kcli.model.topic_partition import TopicPartition, missing_partition


class Origin(StrEnum):
    """Where a scan begins. LATEST reads backwards from the end, and the others read forwards."""

    LATEST = "latest"
    EARLIEST = "earliest"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of a scan. `value` is an offset, or a time in milliseconds."""

    origin: Origin
    value: int = 0

    @property
    def is_backward(self) -> bool:
        return self.origin is Origin.LATEST


class UnknownPartition(KcliError):
    """Raised if a page names a partition that the topic does not have."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The offsets that a scan reads in each partition, and the errors of partitions that cannot be read now."""

    bounds: dict[int, Bounds]
    errors: dict[int, KafkaError]


async def first_lanes(
    fetcher: TopicFetcher,
    start: Start,
    partitions: Iterable[int] | None,
    cursor: Mapping[int, int] | None = None,
) -> Lanes:
    """Looks up the offsets to read. A cursor of an earlier scan takes precedence over `start`."""
    numbers = await checked_partitions(fetcher, partitions)
    bounds, errors = await fetcher.bounds(numbers)
    if cursor is not None:
        bounds = {
            partition: _continued(span, cursor.get(partition), start) for partition, span in bounds.items()
        }
    elif start.origin is Origin.OFFSET:
        bounds = {partition: _from(span, start.value) for partition, span in bounds.items()}
    elif start.origin is Origin.TIME:
        times = await fetcher.at_time(bounds, start.value)
        bounds = {
            partition: _from(span, _or_end(times[partition], span)) for partition, span in bounds.items()
        }
    return Lanes(bounds, errors)


async def checked_partitions(fetcher: TopicFetcher, partitions: Iterable[int] | None) -> list[int]:
    """Opens the topic, and returns the partitions to read. Raises UnknownPartition."""
    known = await fetcher.open()
    if partitions is None:
        return known
    numbers = list(partitions)
    for number in numbers:
        if number not in known:
            raise UnknownPartition(missing_partition(TopicPartition(fetcher.topic, number), len(known)))
    return numbers


def _from(bounds: Bounds, offset: int) -> Bounds:
    return Bounds(min(max(bounds.start, offset), bounds.end), bounds.end)


def _or_end(offset: int | None, bounds: Bounds) -> int:
    return bounds.end if offset is None else offset


def _continued(bounds: Bounds, offset: int | None, start: Start) -> Bounds:
    if offset is None:
        return bounds
    if start.is_backward:
        return Bounds(bounds.start, min(max(offset, bounds.start), bounds.end))
    return _from(bounds, offset)
