"""Joins two streams whose records are at most a given time apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.spark.streams.record import KEY, TIMESTAMP, VALUE, Record, record_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NAMES = (KEY, VALUE, TIMESTAMP)


def joined(
    left: DataFrame,
    right: DataFrame,
    value: Callable[[Record, Record], Column],
    *,
    within: str,
    how: str,
) -> DataFrame:
    """Returns pairs of rows with the same key whose timestamps are at most `within` apart. `how` is Spark's name for
    the type of join.
    """
    from pyspark.sql import functions as F

    left_side = left.select([F.col(name).alias(f"left_{name}") for name in _NAMES])
    right_side = right.select([F.col(name).alias(f"right_{name}") for name in _NAMES])
    one, two = record_of(left_side, "left_"), record_of(right_side, "right_")
    apart = F.expr(f"INTERVAL {within}")
    is_near = (two.timestamp >= one.timestamp - apart) & (two.timestamp <= one.timestamp + apart)
    pairs = left_side.join(right_side, (one.key == two.key) & is_near, how)
    # A pair gets the later of its two timestamps, as in Kafka Streams. The copied metadata makes this column the column
    # of the watermark.
    metadata = left.schema[TIMESTAMP].metadata
    timestamp = F.greatest(one.timestamp, two.timestamp).alias(TIMESTAMP, metadata=metadata)
    return pairs.select(F.coalesce(one.key, two.key).alias(KEY), value(one, two).alias(VALUE), timestamp)


def check_same_type(what: str, one: DataFrame, other: DataFrame, name: str) -> None:
    """Raises ValueError if the column `name` has different types in the two frames.

    Without this check, Spark would cast one of the columns, or its error would name an internal column.
    """
    types = [
        frame.schema[name].dataType.simpleString() if name in frame.columns else "missing"
        for frame in (one, other)
    ]
    if types[0] != types[1]:
        raise ValueError(f"{what} is {types[0]} here and {types[1]} there: map one to the type of the other")
