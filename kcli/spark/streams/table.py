"""Tables: for each key its newest value. A null value is a tombstone, the key is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kcli.spark.streams.record import KEY, TIMESTAMP, VALUE, WINDOW, Function, record_of, with_columns
from kcli.spark.streams.serdes import Json, Serde, keyed_by_window, serde_for
from kcli.spark.streams.table_copy import look_up

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from kcli.spark.streams.app import Streams
    from kcli.spark.streams.stream import Stream


@dataclass(frozen=True, slots=True)
class Topic:
    """Where a table's values can be looked up."""

    name: str
    key: Serde
    value: Serde
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """`frame` are its changes (KTable): columns key, value, timestamp, and window for an aggregate over windows."""

    app: Streams
    frame: DataFrame
    mode: str
    """update: an aggregate's new value each time; append: final values, or the changes of a topic."""
    topic: Topic | None = None
    """The compacted topic that it is; None for one that is only computed: `to_table` makes it a topic."""

    def filter(self, predicate: Function) -> Table:
        """The keys for which it is true; for the others a tombstone goes on, since they may have been there."""
        from pyspark.sql import functions as F

        record = record_of(self.frame)
        kept = F.when(F.coalesce(predicate(record), F.lit(False)), record.value)
        return replace(self, frame=with_columns(self.frame, value=kept), topic=None)

    def filter_not(self, predicate: Function) -> Table:
        """The keys for which it is false or null; a tombstone for the others."""
        from pyspark.sql import functions as F

        return self.filter(lambda record: ~F.coalesce(predicate(record), F.lit(False)))

    def map_values(self, value: Function) -> Table:
        """Another value; tombstones stay what they are."""
        from pyspark.sql import functions as F

        record = record_of(self.frame)
        mapped = F.when(record.value.isNotNull(), value(record))
        return replace(self, frame=with_columns(self.frame, value=mapped), topic=None)

    def suppress(self) -> Table:
        """Of an aggregate over windows: one result for each window, when it is closed, instead of every change."""
        if WINDOW not in self.frame.columns:
            raise ValueError("suppress is for aggregates over windows: others are never final")
        return replace(self, mode="append")

    def join(self, other: Table, value: Callable[[Column, Column], Column], *, how: str = "inner") -> Table:
        """For each key the values of both. `how`: inner (both there), left, or outer (either); else a tombstone.

        Both have to be topics (`to_table`). When either changes, both are looked up as of the micro-batch. There may be
        tombstones for keys that were never there.
        """
        from pyspark.sql import functions as F

        conditions = {
            "inner": lambda left, right: left.isNotNull() & right.isNotNull(),
            "left": lambda left, right: left.isNotNull(),
            "outer": lambda left, right: left.isNotNull() | right.isNotNull(),
        }
        if how not in conditions:
            raise ValueError(f"how is {how!r}: one of {', '.join(conditions)} is meant")
        if (mine := types_of(self.frame)[KEY]) != (others := types_of(other.frame)[KEY]):
            raise ValueError(
                f"join: key is {mine.simpleString()} here and {others.simpleString()} there: keys are compared as they "
                "are written"
            )
        changes = self.frame.select(KEY, TIMESTAMP).unionByName(other.frame.select(KEY, TIMESTAMP))
        changes = changes.withColumn(VALUE, F.lit(None).cast("binary"))
        both = looked_up(changes, self, lambda record: record.key, "_left")
        both = looked_up(both, other, lambda record: record.key, "_right")
        left, right = F.col("_left"), F.col("_right")
        joined = F.when(conditions[how](left, right), value(left, right))
        return Table(self.app, with_columns(both, value=joined), "append")

    def to_stream(self) -> Stream:
        """Its changes, one record each."""
        from kcli.spark.streams.stream import Stream

        return Stream(self.app, self.frame, self.mode)

    def to(
        self, topic: str, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> None:
        """Write its changes to a topic."""
        self.app.write(self.frame, topic, self.mode, key=key, value=value, name=name)

    def to_table(
        self, topic: str, *, key: Serde | None = None, value: Serde | None = None, partitions: int = -1
    ) -> Table:
        """Keep it as a compacted topic, made where it is not there; the result can be joined and read elsewhere.

        The keys of windows become structs of `key`, `start` and `end`.
        """
        from pyspark.sql import functions as F

        frame = keyed_by_window(self.frame)
        keyed = frame.where(F.col(KEY).isNotNull())  # a compacted topic takes nothing else
        types = types_of(keyed)
        key, value = (_readable(serde, types[name]) for name, serde in ((KEY, key), (VALUE, value)))
        self.app.create_table_topic(topic, partitions)
        self.app.write(keyed, topic, self.mode, key=key, value=value)
        return self.app.table(topic, key=key, value=value)


def types_of(frame: DataFrame) -> dict[str, DataType]:
    return {field.name: field.dataType for field in frame.schema.fields}


def _readable(serde: Serde | None, type_: DataType) -> Serde:
    """What is written is read back as what it was: JSON needs its schema, which is known here."""
    if serde is None or (isinstance(serde, Json) and serde.schema is None):
        return serde_for(type_)
    return serde


def looked_up(frame: DataFrame, table: Table, on: Function, found: str) -> DataFrame:
    """`frame` with a column `found`: the table's value for the key `on`, null where there is none."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StructField, StructType

    topic = table.topic
    if topic is None:
        raise ValueError("a table that is joined has to be a topic: write it with to_table(TOPIC) first")
    at = "_lookup_key"
    keyed = frame.withColumn(at, topic.key.encode(on(record_of(frame))))
    schema = StructType([*keyed.schema.fields, StructField(found, BinaryType())])
    filled = keyed.mapInArrow(partial(look_up, options=dict(topic.options), keys=at, found=found), schema)
    return filled.withColumn(found, topic.value.decode(F.col(found))).drop(at)
