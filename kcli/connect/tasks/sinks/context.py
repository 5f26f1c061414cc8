"""The context of a sink task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kcli.connect.tasks.sinks.consuming import SinkConsumer
from kcli.connectors.interface import Config, ErrantRecordReporter
from kcli.connectors.interface import Offsets as GivenOffsets
from kcli.model.topic_partition import TopicPartition


@dataclass(slots=True)
class SinkContext:
    """What a sink task may ask for. Implements `SinkTaskContext`."""

    config: Config
    consumer: SinkConsumer
    is_held: Callable[[], bool]
    """Whether the loop keeps all partitions paused."""
    errant_record_reporter: ErrantRecordReporter | None = None
    rewinds: dict[TopicPartition, int] = field(default_factory=dict)
    timeout_ms: int = -1
    wants_commit: bool = False
    paused: set[TopicPartition] = field(default_factory=set)
    """The partitions that the task has paused. They stay paused when the worker resumes the task."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self.consumer.assignment)

    def offset(self, offsets: GivenOffsets) -> None:
        self.rewinds |= {TopicPartition(*partition): offset for partition, offset in offsets.items()}

    def timeout(self, milliseconds: int) -> None:
        self.timeout_ms = milliseconds

    def pause(self, *partitions: TopicPartition) -> None:
        self.paused.update(TopicPartition(*partition) for partition in partitions)
        self.consumer.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.paused.difference_update(TopicPartition(*partition) for partition in partitions)
        if not self.is_held():
            self.consumer.resume(partitions)

    def request_commit(self) -> None:
        self.wants_commit = True
