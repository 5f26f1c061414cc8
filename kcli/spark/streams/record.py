"""What the user's functions see: the columns of a record, as Spark expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY, VALUE, TIMESTAMP, WINDOW = "key", "value", "timestamp", "window"


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


def record_of(frame: DataFrame) -> Record:
    """The columns of `frame`."""
    window = frame[WINDOW] if WINDOW in frame.columns else None
    return Record(frame[KEY], frame[VALUE], frame[TIMESTAMP], window)


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
