"""The line of progress on stderr: rows, rows a second, lag and the time of a batch. Words, so never on stdout.

On a terminal one line is written over and over; elsewhere a line comes every --progress-interval seconds.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from kcli.spark.source.offsets import OffsetJson

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.listener import StreamingQueryProgress


class ProgressLine:
    """Says how far a job is, not more often than every `interval_seconds`; 0 says nothing."""

    def __init__(self, job: str, interval_seconds: float) -> None:
        self._job, self._interval = job, interval_seconds
        self._began = time.monotonic()
        self._next = self._began + interval_seconds
        self._drawn = 0
        """Characters of the line that stands on the terminal."""

    @property
    def is_due(self) -> bool:
        return self._interval > 0 and time.monotonic() >= self._next

    def show(self, text: str) -> None:
        self._next = time.monotonic() + self._interval
        line = f"{self._job}: {text}, {time.monotonic() - self._began:.0f} s"
        if sys.stderr.isatty():
            print(f"\r{line:{self._drawn}}", end="", file=sys.stderr, flush=True)
            self._drawn = len(line)
        else:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the terminal's line as it stands."""
        if self._drawn:
            print(file=sys.stderr)
            self._drawn = 0


def stream_progress(query: StreamingQuery, rows: int) -> str:
    """Of a stream: all its rows so far, and the latest micro-batch."""
    last = query.lastProgress
    if last is None:
        return "waiting for the first micro-batch"
    seconds = (last.durationMs or {}).get("triggerExecution", 0) / 1000
    behind = lag(last)
    said = "" if behind is None else f", lag {behind}"
    rate = last.processedRowsPerSecond or 0
    return f"{rows} rows, {rate:.0f} rows/s{said}, batch {last.batchId} took {seconds:.1f} s"


def lag(progress: StreamingQueryProgress) -> int | None:
    """Records between what the latest micro-batch took and what was there; None where the source has no offsets."""
    behind = None
    for source in progress.sources:
        latest, end = _offsets(source.latestOffset), _offsets(source.endOffset)
        if latest is None or end is None:
            continue
        behind = behind or 0
        for topic, partitions in latest.items():
            for partition, offset in partitions.items():
                behind += max(0, offset - end.get(topic, {}).get(partition, 0))
    return behind


def _offsets(offsets: str | OffsetJson | None) -> OffsetJson | None:
    """`{"topic": {"0": 23}}`, or None where the source speaks of something else."""
    try:
        found = json.loads(offsets) if isinstance(offsets, str) else offsets
    except ValueError:
        return None
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        return None
    return found


class BatchProgress:
    """Of a batch: what the stages under way have read, how fast, and what is left.

    `offsets` is how many it will read, where that is known: what is left of them is its lag. `by_task`: the rows never
    come to Spark, so it is told from the tasks that are done.
    """

    def __init__(self, spark: SparkSession, offsets: int | None = None, *, by_task: bool = False) -> None:
        self._spark, self._offsets, self._by_task = spark, offsets, by_task
        self._rows, self._at = 0, time.monotonic()

    def text(self) -> str:
        stages = self._spark.sparkContext._jsc.sc().statusStore().activeStages()
        each = [stages.apply(nth) for nth in range(stages.size())]
        if not each:
            return "no task under way"  # the query is planned, or what it made is committed
        done, total = sum(stage.numCompleteTasks() for stage in each), sum(stage.numTasks() for stage in each)
        rows, now = sum(stage.inputRecords() for stage in each), time.monotonic()
        if self._by_task and self._offsets is not None:
            rows = self._offsets * done // total
        rate = max(0, rows - self._rows) / max(now - self._at, 0.001)  # fewer rows: another stage has begun
        self._rows, self._at = rows, now
        behind = "" if self._offsets is None else f"lag {max(0, self._offsets - rows)}, "
        return f"{rows} rows read, {rate:.0f} rows/s, {behind}{total - done} of {total} tasks left"
