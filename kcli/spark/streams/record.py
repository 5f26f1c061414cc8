"""What the user's functions see: the columns of a record, as Spark expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY, VALUE, TIMESTAMP, WINDOW = "key", "value", "timestamp", "window"

UPDATE = "update"
"""Spark's output mode of an aggregate whose changes are wanted; everything else is written in append mode."""

WATERMARK = "spark.watermarkDelayMs"
"""Where Spark notes in a column's metadata that a watermark follows it."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a stream or table. Fields of a JSON value are `record.value["field"]`.

    `window` is a struct of `start` and `end` after a windowed aggregation, else None.
    """

    key: Column
    value: Column
    timestamp: Column
    window: Column | None = None


Function = Callable[[Record], "Column"]


def record_of(frame: DataFrame, prefix: str = "") -> Record:
    """The columns of `frame`, by name: `frame[…]` would be ambiguous to Spark where a stream meets itself."""
    from pyspark.sql import functions as F

    key, value, timestamp = (F.col(prefix + name) for name in (KEY, VALUE, TIMESTAMP))
    return Record(key, value, timestamp, F.col(WINDOW) if WINDOW in frame.columns else None)


def with_columns(frame: DataFrame, *, key: Column | None = None, value: Column | None = None) -> DataFrame:
    """`frame` with another key or value; the rest stays, the window only where the key does."""
    record = record_of(frame)
    columns = [
        (record.key if key is None else key).alias(KEY),
        (record.value if value is None else value).alias(VALUE),
        record.timestamp,
    ]
    if record.window is not None and key is None:
        columns.append(record.window)
    return frame.select(columns)


def watermark_of(frame: DataFrame) -> int | None:
    """The delay of its watermark in milliseconds, None where it has none."""
    delay: int | None = frame.schema[TIMESTAMP].metadata.get(WATERMARK)
    return delay


def without_watermark(frame: DataFrame) -> DataFrame:
    """The timestamps as any other column: the next step that needs a watermark sets one."""
    from pyspark.sql import functions as F

    if watermark_of(frame) is None:
        return frame
    others = [F.col(name) for name in frame.columns if name != TIMESTAMP]
    return frame.select(*others, F.col(TIMESTAMP).alias(TIMESTAMP, metadata={}))
