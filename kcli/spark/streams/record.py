"""The argument that the user's functions get: the columns of a record, as Spark expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY, VALUE, TIMESTAMP, WINDOW = "key", "value", "timestamp", "window"

TRACE = "_trace"
"""The column with the trace headers of the source record. The column exists only if traces are on, and only until an
operation combines several records into one."""

UPDATE = "update"
"""Spark's output mode for an aggregate that sends each new value. All other results have the mode append."""

WATERMARK = "spark.watermarkDelayMs"
"""The key under which Spark stores the delay of a watermark in the metadata of the timestamp column."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a stream or table. Fields of a JSON value are `record.value["field"]`.

    After a windowed aggregation, `window` is a struct of `start` and `end`. Otherwise it is None.
    """

    key: Column
    value: Column
    timestamp: Column
    window: Column | None = None


Function = Callable[[Record], "Column"]


def record_of(frame: DataFrame, prefix: str = "") -> Record:
    """Returns a `Record` that refers to the columns of `frame` by name.

    References to the frame itself would be ambiguous if a frame is joined with itself.
    """
    from pyspark.sql import functions as F

    key, value, timestamp = (F.col(prefix + name) for name in (KEY, VALUE, TIMESTAMP))
    return Record(key, value, timestamp, F.col(WINDOW) if WINDOW in frame.columns else None)


def with_columns(frame: DataFrame, *, key: Column | None = None, value: Column | None = None) -> DataFrame:
    """Returns `frame` with another key or value. If the key is replaced, the window is dropped."""
    from pyspark.sql import functions as F

    record = record_of(frame)
    columns = [
        (record.key if key is None else key).alias(KEY),
        (record.value if value is None else value).alias(VALUE),
        record.timestamp,
    ]
    if record.window is not None and key is None:
        columns.append(record.window)
    if TRACE in frame.columns:
        columns.append(F.col(TRACE))
    return frame.select(columns)


def without_trace(frame: DataFrame) -> DataFrame:
    """Removes the trace headers. Called before an operation combines several records into one."""
    return frame.drop(TRACE) if TRACE in frame.columns else frame


def watermark_of(frame: DataFrame) -> int | None:
    """Returns the delay of the watermark in milliseconds, or None if there is no watermark."""
    delay: int | None = frame.schema[TIMESTAMP].metadata.get(WATERMARK)
    return delay


def without_watermark(frame: DataFrame) -> DataFrame:
    """Removes the watermark. The next operation that needs a watermark sets the watermark again."""
    from pyspark.sql import functions as F

    if watermark_of(frame) is None:
        return frame
    others = [F.col(name) for name in frame.columns if name != TIMESTAMP]
    return frame.select(*others, F.col(TIMESTAMP).alias(TIMESTAMP, metadata={}))
