"""The stages of one traced request. A handler gets the trace as `context.trace`, which is None if the broker has no
traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kcli.errors import KcliError
from kcli.model.buffers import Buffer
from kcli.protocol.batches.batch import CODEC_MASK, FLAGS_POSITION, read_records
from kcli.tracing.trace_context import TraceContext, of_headers

STAGES_MAX = 64
"""The most stages of a request. A Produce request may have thousands of partitions, and each is a stage."""

INSPECTED_MAX_BYTES = 1 << 20
COMPRESSED_INSPECTED_MAX_BYTES = 128 << 10
"""The broker does not look for headers in larger compressed batches. To read the first record of a compressed batch,
the broker must decompress up to a megabyte, which blocks the event loop for up to 3 ms."""


class HasThrottle(Protocol):
    throttle_ms: int


class Stage:
    """A part of the work on a request. The times are in seconds of the broker's clock."""

    __slots__ = ("_now", "ended", "name", "partition", "started", "topic")

    def __init__(
        self, name: str, now: Callable[[], float], topic: str | None = None, partition: int | None = None
    ) -> None:
        self.name = name
        self.topic = topic
        self.partition = partition
        self._now = now
        self.started = self.ended = now()

    def end(self) -> None:
        self.ended = self._now()


class RequestTrace:
    """Collects the stages and the other facts of one request for its spans, while the request is served."""

    __slots__ = (
        "_may_choose",
        "_now",
        "began",
        "creator",
        "error",
        "is_sampled",
        "reads_headers",
        "stages",
        "throttle",
        "topics",
        "unlisted_stages",
        "wait",
    )

    def __init__(
        self,
        now: Callable[[], float],
        *,
        is_sampled: bool,
        reads_headers: bool,
        may_choose: Callable[[], bool] = lambda: True,
    ) -> None:
        """Makes a trace. If the first record of the request is sampled, `may_choose` returns whether the request may be
        sampled too.
        """
        self._now = now
        self._may_choose = may_choose
        self.began = now()
        self.wait: Stage | None = None
        """The stage in which the request waits, if its handler has suspended."""
        self.is_sampled = is_sampled
        self.reads_headers = reads_headers
        self.creator: TraceContext | None = None
        """The trace context of the first record, if the broker reads headers."""
        self.error: str | None = None
        self.stages: list[Stage] = []
        self.unlisted_stages = 0
        self.throttle: HasThrottle | None = None
        self.topics: dict[str, None] = {}

    def stage(self, name: str, topic: str | None = None, partition: int | None = None) -> Stage:
        """Begins a stage. If there are STAGES_MAX stages already, the new stage is only counted."""
        stage = Stage(name, self._now, topic, partition)
        if len(self.stages) < STAGES_MAX:
            self.stages.append(stage)
        else:
            self.unlisted_stages += 1
        return stage

    def appending(self, topic: str, partition: int, records: Buffer) -> Stage:
        """Begins the append of a batch. If the broker reads headers, looks for a trace context in the first record of
        the request."""
        self.topics[topic] = None
        if self.reads_headers and self.creator is None and len(self.topics) == 1:
            self.creator = creator_of(records)
            if self.creator is not None and self.creator.is_sampled:
                self.is_sampled = self.is_sampled or self._may_choose()
        return self.stage("append", topic, partition)

    def begin_answer(self) -> Stage | None:
        """Begins the stage in which the answer is encoded, if the request has waited. Otherwise, the encoding is a part
        of the work."""
        if self.wait is None:
            return None
        self.end_wait()
        return self.stage("answer")

    def end_wait(self) -> None:
        if self.wait is not None:
            self.wait.end()
            self.wait = None


def creator_of(records: Buffer) -> TraceContext | None:
    """Returns the trace context of the first record of a batch, or None. For an invalid batch, the result is None too,
    and the append reports the error."""
    is_compressed = records[FLAGS_POSITION] & CODEC_MASK
    if len(records) > (COMPRESSED_INSPECTED_MAX_BYTES if is_compressed else INSPECTED_MAX_BYTES):
        return None
    try:
        first = next(iter(read_records(records)), None)
    except (KcliError, ValueError):
        return None
    return None if first is None else of_headers(first.headers)
