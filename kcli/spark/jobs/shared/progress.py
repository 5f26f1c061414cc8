"""Prints the progress line on stderr: rows, rows per second, lag and the duration of a micro-batch.

On a terminal the line is overwritten. Otherwise a new line is printed every --progress-interval seconds.
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
    """Prints the progress of a job, at most once in `interval_seconds`. An interval of 0 turns the progress off."""

    def __init__(self, job: str, interval_seconds: float) -> None:
        self._job, self._interval = job, interval_seconds
        self._began = time.monotonic()
        self._next = self._began + interval_seconds
        self._drawn = 0
        """The length of the line that the terminal shows now."""

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next line."""
        return self._interval > 0 and time.monotonic() >= self._next

    def show(self, text: str) -> None:
        """Prints the progress line with `text` and the time since the start of the job."""
        self._next = time.monotonic() + self._interval
        line = f"{self._job}: {text}, {time.monotonic() - self._began:.0f} s"
        if sys.stderr.isatty():
            print(f"\r{line:{self._drawn}}", end="", file=sys.stderr, flush=True)
            self._drawn = len(line)
        else:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Ends the line on the terminal."""
        if self._drawn:
            print(file=sys.stderr)
            self._drawn = 0


def stream_progress(query: StreamingQuery, rows: int, silence: str | None = None) -> str:
    """Returns the text of the progress line for a stream.

    `rows` is the number of rows in all micro-batches so far. The other figures are those of the latest micro-batch. If
    no broker answers, `silence` says so, and these figures are unknown.
    """
    if silence is not None:
        return f"{rows} rows, lag unknown: {silence}"
    last = query.lastProgress
    if last is None:
        return "waiting for the first micro-batch"
    seconds = (last.durationMs or {}).get("triggerExecution", 0) / 1000
    behind = lag(last)
    said = "" if behind is None else f", lag {behind}"
    rate = last.processedRowsPerSecond or 0
    return f"{rows} rows, {rate:.0f} rows/s{said}, batch {last.batchId} took {seconds:.1f} s"


def lag(progress: StreamingQueryProgress) -> int | None:
    """Returns the number of offsets that the latest micro-batch left unread, or None if the source has no offsets."""
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
    """Parses offsets of the form `{"topic": {"0": 23}}`. Returns None for another form."""
    try:
        document = json.loads(offsets) if isinstance(offsets, str) else offsets
    except ValueError:
        return None
    if not isinstance(document, dict) or not all(
        isinstance(partitions, dict) for partitions in document.values()
    ):
        return None
    return document


class BatchProgress:
    """The progress of a batch job: the rows that its active stages have read, the rate, the lag and the number of
    unfinished tasks.

    `offsets` is the number of offsets to read, if this number is known. The lag is the number of unread offsets. If the
    workers themselves write the rows, Spark does not count the rows. Then `by_task` must be True, and the number of
    rows is estimated from the number of finished tasks.
    """

    def __init__(self, spark: SparkSession, offsets: int | None = None, *, by_task: bool = False) -> None:
        self._spark, self._offsets, self._by_task = spark, offsets, by_task
        self._rows, self._at = 0, time.monotonic()

    def text(self, silence: str | None = None) -> str:
        """Returns the text of the progress line. If no broker answers, `silence` says so, and the lag is unknown."""
        stages = self._spark.sparkContext._jsc.sc().statusStore().activeStages()
        parts = [stages.apply(nth) for nth in range(stages.size())]
        if not parts:  # Spark is planning the query, or is committing its result
            return f"no task under way{'' if silence is None else f': {silence}'}"
        done, total = (
            sum(stage.numCompleteTasks() for stage in parts),
            sum(stage.numTasks() for stage in parts),
        )
        rows, now = sum(stage.inputRecords() for stage in parts), time.monotonic()
        if self._by_task and self._offsets is not None:
            rows = self._offsets * done // total
        # The difference can be negative, because Spark counts the rows of each stage from 0.
        rate = max(0, rows - self._rows) / max(now - self._at, 0.001)
        self._rows, self._at = rows, now
        if silence is not None:
            return f"{rows} rows read, lag unknown, {total - done} of {total} tasks left: {silence}"
        behind = "" if self._offsets is None else f"lag {max(0, self._offsets - rows)}, "
        return f"{rows} rows read, {rate:.0f} rows/s, {behind}{total - done} of {total} tasks left"
