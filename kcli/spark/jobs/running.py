"""Running a built-in job inside Spark: counting rows, stopping a stream when asked, the last line."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.spark.submit import STOP_FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

POLL_SECONDS = 0.25
"""How soon a stream notices that it should stop."""

FINISH_SECONDS = 45.0
"""How long a micro-batch under way may take after that; the next run does again what is cut off."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a job did."""

    rows: int
    stopped: bool = False


class Stop:
    """Whether somebody asked the job to stop: by SIGTERM, or by the file that `kcli spark-submit` makes."""

    def __init__(self) -> None:
        self._signalled = False
        self._file = os.environ.get(STOP_FILE)
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signalled = True

    @property
    def is_asked(self) -> bool:
        return self._signalled or (self._file is not None and os.path.exists(self._file))


def job_main(
    name: str,
    plan: Callable[[argparse.Namespace], list[str]],
    work: Callable[[SparkSession, argparse.Namespace], Done],
    options: argparse.Namespace,
) -> int:
    """Run `work` in a session and say what it did, or only say what it would do; the exit code."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if options.dry_run:
        print("\n".join(plan(options)))
        return 0
    began = time.monotonic()
    spark = SparkSession.builder.appName(f"kcli {name}").getOrCreate()
    try:
        done = work(spark, options)
    except (KcliError, PySparkException) as error:
        print(f"{name}: {reason(error)}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    stopped = " (stopped on request)" if done.stopped else ""
    seconds = time.monotonic() - began
    print(f"{name}: {done.rows} records in {seconds:.1f} s{stopped}")
    return 0


def reason(error: Exception) -> str:
    """The line that says what went wrong: of a Python worker's traceback the last one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    blamed = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception")) and ": " in line]
    python = [
        line for line in blamed if not line.startswith(("org.apache.spark", "py4j", "pyspark.", "Caused by"))
    ]
    said = next(iter(reversed(python)), lines[0] if lines else type(error).__name__)
    if said.startswith(("kcli.", "ValueError")):  # ours are written for the user; the class adds nothing
        said = said.partition(": ")[2]
    return said.replace("set failOnDataLoss to false", "use --ignore-data-loss")


def counted(frame: DataFrame, write: Callable[[DataFrame], None]) -> int:
    """Write a batch and tell how many rows went through, without reading anything twice."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    seen = Observation("rows")
    write(frame.observe(seen, count(lit(1)).alias("rows")))
    return int(seen.get["rows"])


def run_stream(writer: DataStreamWriter, options: argparse.Namespace) -> Done:
    """Run a stream to its end (available-now) or until it is asked to stop."""
    stop = Stop()
    writer = writer.option("checkpointLocation", options.checkpoint)
    if options.mode == "available-now":
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=options.trigger_interval)
    query = writer.start()
    rows: dict[int, int] = {}
    while not query.awaitTermination(POLL_SECONDS):
        rows |= _rows_by_batch(query)
        if stop.is_asked:
            _finish(query)
            break
    rows |= _rows_by_batch(query)
    return Done(sum(rows.values()), stopped=stop.is_asked)


def _rows_by_batch(query: StreamingQuery) -> dict[int, int]:
    """By batch, because Spark keeps only the latest reports, and we read them again and again."""
    return {each.batchId: each.numInputRows for each in query.recentProgress if each.numInputRows > 0}


def _finish(query: StreamingQuery) -> None:
    """Let the micro-batch under way end, then stop."""
    last = query.lastProgress
    deadline = time.monotonic() + FINISH_SECONDS
    while query.status["isTriggerActive"] and time.monotonic() < deadline:
        now = query.lastProgress
        if now is not None and (last is None or now.batchId != last.batchId):
            break
        time.sleep(POLL_SECONDS)
    query.stop()
