"""Runs a built-in job inside Spark: row counts, progress, a clean stop and the summary."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, TextIO, TypeVar

from kcli.command.rows import RowValue, json_line, plain, tsv_line
from kcli.spark.jobs.shared.broker_watch import BrokerWatch
from kcli.spark.jobs.shared.endpoints import client_settings
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.failures import TaskFailures
from kcli.spark.jobs.shared.options import JobOptions, ModeOptions
from kcli.spark.jobs.shared.progress import BatchProgress, ProgressLine, stream_progress
from kcli.spark.jobs.shared.session import report, started, stop

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
    from pyspark.sql.streaming.listener import StreamingQueryProgress

T = TypeVar("T")
JobOptionsT = TypeVar("JobOptionsT", bound=JobOptions)

POLL_SECONDS = 0.25
"""The seconds between two checks of a job whether it should stop."""

FINISH_SECONDS = 45.0
"""The seconds that the running micro-batch may still take after a stop request. If it takes longer, it is cancelled,
and the next run repeats it."""

REPORT_SECONDS = 3.0
"""The most seconds to wait for the observations of a batch. Spark reports them on another thread after the batch."""

BAD_RECORDS = "bad"
"""The name of the metric that counts records that do not parse."""

ROWS, WRITTEN = "rows", "written"
"""The names of two metrics: ROWS counts good rows that were read, and WRITTEN counts rows that were written. If both
exist, WRITTEN is reported."""

OBSERVED = "kcli"
"""The prefix of the names of the observations that kcli adds to a query."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a job. `details` are additional figures of this job for the summary."""

    rows: int
    stopped: bool = False
    bad_records: int = 0
    details: Mapping[str, RowValue] = field(default_factory=dict)


INTERRUPTED = 130
"""The exit code after Ctrl-C, if no batch or stream runs: 128 + SIGINT, as in a shell."""


class Stop:
    """Remembers whether SIGTERM or Ctrl-C has requested a stop."""

    def __init__(self) -> None:
        self.is_asked = False

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.is_asked = True

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Handles SIGTERM and SIGINT until the end of the block."""
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_job(
    name: str,
    work: Callable[[SparkSession, JobOptionsT], Done],
    options: JobOptionsT,
    summary_to: TextIO,
) -> int:
    """Runs `work` in a session and writes the summary to `summary_to`. Returns the exit code."""
    began = time.monotonic()
    spark = None
    try:
        spark = started(name, announce=options.progress_interval > 0)
        done = work(spark, options)
    except Exception as error:
        report(name, error)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        stop(spark)
    print(summary(name, done, time.monotonic() - began, options.output), file=summary_to)
    return 0


def plan_text(steps: list[str], output: str) -> str:
    """Returns the plan in the format of `--output`, a line for each step."""
    match output:
        case "json":
            return "\n".join(json_line({"step": step}) for step in steps)
        case "tsv":
            return "\n".join(["step", *(tsv_line([step]) for step in steps)])
        case _:
            return "\n".join(steps)


def summary(name: str, done: Done, seconds: float, output: str) -> str:
    """Returns the summary in the format of `--output`: lines of text, or one row."""
    if output != "text":
        row = plain(
            {
                "job": name,
                "rows": done.rows,
                "bad_records": done.bad_records,
                "seconds": round(seconds, 1),
                "stopped": done.stopped,
                **done.details,
            }
        )
        return json_line(row) if output == "json" else f"{tsv_line(row)}\n{tsv_line(row.values())}"
    bad = f", {done.bad_records} bad records" if done.bad_records else ""
    stopped = " (stopped on request)" if done.stopped else ""
    lines = [f"{name}: {done.rows} records in {seconds:.1f} s{bad}{stopped}"]
    return "\n".join(lines + [f"{key.replace('_', ' ')}: {value!s}" for key, value in done.details.items()])


_numbers = itertools.count()
"""Numbers for the names of observations, because Spark requires unique names within a query."""


class Counts:
    """Counts good and bad rows without reading the rows twice. Spark's observations count the rows while they are
    processed.

    In a batch, the counts are read from the observation objects. In a stream, the counts are read from the progress
    reports of micro-batches.
    """

    def __init__(self, *, streaming: bool) -> None:
        self._streaming = streaming
        self._seen: list[tuple[Observation, frozenset[str]]] = []

    def observed(self, frame: DataFrame, **metrics: Column) -> DataFrame:
        """Returns `frame` with an observation, which computes `metrics` while Spark processes the rows."""
        from pyspark.sql import Observation

        columns = [column.alias(name) for name, column in metrics.items()]
        name = f"{OBSERVED}-{next(_numbers)}"
        if self._streaming:
            return frame.observe(name, *columns)
        seen = Observation(name)
        self._seen.append((seen, frozenset(metrics)))
        return frame.observe(seen, *columns)

    def rows(self, frame: DataFrame, metric: str = ROWS) -> DataFrame:
        """Returns `frame` with an observation that counts its rows."""
        from pyspark.sql.functions import count, lit

        return self.observed(frame, **{metric: count(lit(1))})

    def total(self, metric: str) -> int:
        """Returns the value of a metric after a batch has run. If Spark read no rows (LIMIT 0), the value is 0."""
        counts = [seen for seen, metrics in self._seen if metric in metrics]
        deadline = time.monotonic() + REPORT_SECONDS
        # If Spark read no rows, Observation.get never returns. Only the private Java object of an observation shows
        # whether there is a result.
        while time.monotonic() < deadline and not all(seen._jo.future().isCompleted() for seen in counts):
            time.sleep(0.05)
        return sum(int(seen.get[metric] or 0) for seen in counts if seen._jo.future().isCompleted())


def watched_brokers(options: JobOptions) -> BrokerWatch:
    """Returns the watch of the brokers of --bootstrap-server. If the job prints no progress, nothing is watched."""
    return BrokerWatch(client_settings(options) if options.progress_interval > 0 else None)


def run_batch(
    spark: SparkSession,
    options: JobOptions,
    name: str,
    action: Callable[[], T],
    progress: BatchProgress | None = None,
) -> T:
    """Runs a batch and shows its progress.

    Raises JobError if a signal stops the batch. Also raises JobError if a task fails with an error that would occur
    again in each attempt.
    """
    over = threading.Event()
    failures, failed = TaskFailures(spark), ""
    line, progress = ProgressLine(name, options.progress_interval), progress or BatchProgress(spark)
    with Stop().listening() as stop, watched_brokers(options) as brokers:

        def watch() -> None:
            nonlocal failed
            while not over.wait(POLL_SECONDS):
                failed = failed or failures.permanent() or ""
                if stop.is_asked or failed:
                    spark.sparkContext.cancelAllJobs()
                elif line.is_due:
                    line.show(progress.text(brokers.silence()))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            return action()
        except Exception:
            if stop.is_asked:
                raise JobError("stopped on request before the batch was done") from None
            if failed:
                raise JobError(failed) from None
            raise
        finally:
            over.set()
            watcher.join()
            line.end()


def start_stream(writer: DataStreamWriter, options: ModeOptions) -> StreamingQuery:
    """Starts a stream with the checkpoint and the trigger of the options."""
    writer = writer.option("checkpointLocation", options.checkpoint)
    if options.mode == "available-now":
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=options.trigger_interval).start()


def run_stream(writer: DataStreamWriter, options: ModeOptions, name: str = "stream") -> Done:
    """Runs a stream to its end (available-now) or until a stop.

    Raises JobError if a task fails with an error that would occur again in each attempt.
    """
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    line = ProgressLine(name, options.progress_interval)
    rows: dict[int, int] = {}
    bad: dict[int, int] = {}
    with Stop().listening() as stop, watched_brokers(options) as brokers:
        failures = TaskFailures(SparkSession.active())
        query = start_stream(writer, options)
        try:
            while not query.awaitTermination(POLL_SECONDS):
                _add_reports(query, rows, bad)
                if line.is_due:
                    line.show(stream_progress(query, sum(rows.values()), brokers.silence()))
                if stop.is_asked:
                    _finish(query)
                    break
                failed = failures.permanent()
                if failed is not None:
                    query.stop()
                    raise JobError(failed)
        except Py4JError:
            if not stop.is_asked:
                raise
            raise JobError(
                "Spark's virtual machine got the signal too: the next run repeats the micro-batch"
            ) from None
        finally:
            line.end()
        _add_reports(query, rows, bad)
        return Done(sum(rows.values()), stopped=stop.is_asked, bad_records=sum(bad.values()))


def _add_reports(query: StreamingQuery, rows: dict[int, int], bad: dict[int, int]) -> None:
    """Adds progress reports to a map by batch id, because the same report may be read several times."""
    for progress in query.recentProgress:
        # A micro-batch without input may still close windows, and then its report has observations. If the stream only
        # waited, the report has none.
        if progress.numInputRows > 0 or progress.observedMetrics:
            read = _observed(progress, ROWS, progress.numInputRows)
            rows[progress.batchId] = _observed(progress, WRITTEN, read)
            bad[progress.batchId] = _observed(progress, BAD_RECORDS, 0)


def _observed(report: StreamingQueryProgress, metric: str, default: int) -> int:
    """Returns the sum of a metric over the observations of kcli, or `default` if the report has none."""
    numbers = [
        int(row[metric] or 0)  # the sum of no rows is null
        for name, row in report.observedMetrics.items()
        if name.startswith(OBSERVED) and metric in row.asDict()
    ]
    return sum(numbers) if numbers else default


def _finish(query: StreamingQuery) -> None:
    """Waits for the end of the running micro-batch (at most FINISH_SECONDS), then stops the stream."""
    last = query.lastProgress
    deadline = time.monotonic() + FINISH_SECONDS
    while query.status["isTriggerActive"] and time.monotonic() < deadline:
        now = query.lastProgress
        if now is not None and (last is None or now.batchId != last.batchId):
            break
        time.sleep(POLL_SECONDS)
    query.stop()
