"""Contexts of connectors and tasks that run without a worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kcli.connectors.interface import Offset, Offsets, Partition
from kcli.connectors.records import SinkRecord
from kcli.model.topic_partition import TopicPartition


@dataclass(slots=True)
class StoredOffsets:
    """The offsets that a worker would have stored."""

    offsets: list[tuple[Partition, Offset]] = field(default_factory=list)

    def offset(self, partition: Partition) -> Offset | None:
        return next((value for key, value in reversed(self.offsets) if key == partition), None)

    def offsets_of(self, partitions: Iterable[Partition]) -> Sequence[Offset | None]:
        return [self.offset(partition) for partition in partitions]


def offset_reader(stored: StoredOffsets) -> Any:
    """The reader that a source task gets."""
    return _Reader(stored)


class _Reader:
    def __init__(self, stored: StoredOffsets) -> None:
        self.offset = stored.offset
        self.offsets = stored.offsets_of


@dataclass(slots=True)
class SourceContext:
    config: Mapping[str, str]
    offsets: Any
    transaction: Any = None


@dataclass(slots=True)
class ConnectorContext:
    """Collects what a source connector tells its worker."""

    requests: list[str] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    def request_task_reconfiguration(self) -> None:
        self.requests.append("reconfigure")

    def raise_error(self, error: Exception) -> None:
        self.errors.append(error)

    def offset(self, partition: Partition) -> Offset | None:
        return None


@dataclass(slots=True)
class SinkContext:
    """Collects what a sink task tells its worker."""

    config: Mapping[str, str]
    errant_record_reporter: Any = None
    timeouts: list[int] = field(default_factory=list)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset()

    def timeout(self, milliseconds: int) -> None:
        self.timeouts.append(milliseconds)

    def offset(self, offsets: Offsets) -> None:
        raise AssertionError("the sink stores no offsets")

    def pause(self, *partitions: TopicPartition) -> None:
        raise AssertionError("the sink pauses no partition")

    def resume(self, *partitions: TopicPartition) -> None:
        raise AssertionError("the sink pauses no partition")

    def request_commit(self) -> None:
        raise AssertionError("the sink asks for no commit")


@dataclass(slots=True)
class Reports:
    """A reporter of records that the target refuses."""

    reported: list[tuple[SinkRecord, Exception]] = field(default_factory=list)

    def report(self, record: SinkRecord, error: Exception) -> None:
        self.reported.append((record, error))


def dotted(keys: Mapping[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in keys.items()}
