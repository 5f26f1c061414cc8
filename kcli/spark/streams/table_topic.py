"""Describes the compacted topic of a table, and looks up values of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kcli.spark.streams.record import Function, record_of
from kcli.spark.streams.serdes import Json, Serde, serde_for
from kcli.spark.streams.table_copy import look_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Topic:
    """The topic of a table, with its serdes and the options to read it."""

    name: str
    key: Serde
    value: Serde
    options: Mapping[str, str]


def types_of(frame: DataFrame) -> dict[str, DataType]:
    """Returns the types of the columns of `frame`, by column name."""
    return {field.name: field.dataType for field in frame.schema.fields}


def readable_serde(serde: Serde | None, type_: DataType) -> Serde:
    """Returns `serde`, or a default for the column type if `serde` is None. The result can read the bytes that it
    writes.

    A `Json` without a schema gets the schema of the column.
    """
    if serde is None or (isinstance(serde, Json) and serde.schema is None):
        return serde_for(type_)
    return serde


def looked_up(frame: DataFrame, topic: Topic | None, on: Function, column: str) -> DataFrame:
    """Adds the column `column` to `frame`. It contains the value that the table has for the key that `on` returns, or
    null.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StructField, StructType

    if topic is None:
        raise ValueError("a table must be a topic to be joined: write it with to_table(TOPIC) first")
    at = "_lookup_key"
    keyed = frame.withColumn(at, topic.key.encode(on(record_of(frame))))
    schema = StructType([*keyed.schema.fields, StructField(column, BinaryType())])
    filled = keyed.mapInArrow(partial(look_up, options=dict(topic.options), keys=at, column=column), schema)
    return filled.withColumn(column, topic.value.decode(F.col(column))).drop(at)
