"""Streams of records, and grouping them. Each operation gives a new stream; nothing runs until the application does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kcli.spark.streams.record import KEY, TIMESTAMP, VALUE, WINDOW, Function, Record, record_of, with_columns
from kcli.spark.streams.serdes import Serde
from kcli.spark.streams.stateful import StateFunction, process
from kcli.spark.streams.table import Table, looked_up
from kcli.spark.streams.windows import NO_GRACE, Session, Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kcli.spark.streams.app import Streams

OUTERS = {"inner": "inner", "left": "left_outer", "outer": "full_outer"}
OTHERWISE = "otherwise"


@dataclass(frozen=True, slots=True)
class Stream:
    """Records one after the other (KStream): columns key, value, timestamp, and after windows window."""

    app: Streams
    frame: DataFrame
    mode: str = "append"
    """Spark's output mode for what is written."""
    has_watermark: bool = False

    # One record at a time ------------------------------------------------------------------------

    def filter(self, predicate: Function) -> Stream:
        """The records for which it is true."""
        return self._with(self.frame.where(predicate(record_of(self.frame))))

    def filter_not(self, predicate: Function) -> Stream:
        """The records for which it is false or null."""
        from pyspark.sql import functions as F

        return self._with(self.frame.where(~F.coalesce(predicate(record_of(self.frame)), F.lit(False))))

    def map(self, *, key: Function | None = None, value: Function | None = None) -> Stream:
        """Another key, value, or both."""
        record = record_of(self.frame)
        return self._with(
            with_columns(
                self.frame,
                key=None if key is None else key(record),
                value=None if value is None else value(record),
            )
        )

    def map_values(self, value: Function) -> Stream:
        return self.map(value=value)

    def select_key(self, key: Function) -> Stream:
        """Re-key: what follows groups and joins by the new key."""
        return self.map(key=key)

    def flat_map_values(self, values: Function) -> Stream:
        """One record for each element of the array that `values` makes; none for an empty one or null."""
        from pyspark.sql import functions as F

        return self._with(with_columns(self.frame, value=F.explode(values(record_of(self.frame)))))

    def flat_map(self, records: Function) -> Stream:
        """One record for each struct of `key` and `value` in the array that `records` makes."""
        from pyspark.sql import functions as F

        each = "_each"
        exploded = self.frame.select(F.explode(records(record_of(self.frame))).alias(each), TIMESTAMP)
        return self._with(
            exploded.select(
                exploded[each][KEY].alias(KEY), exploded[each][VALUE].alias(VALUE), exploded[TIMESTAMP]
            )
        )

    def branch(self, **predicates: Function) -> dict[str, Stream]:
        """A stream by name for each predicate, with the records that no earlier one took; `otherwise` has the rest."""
        from pyspark.sql import functions as F

        branches, taken = {}, F.lit(False)
        for name, predicate in predicates.items():
            if name == OTHERWISE:
                raise ValueError(
                    f"{OTHERWISE} is the branch of what no predicate takes: name this one differently"
                )
            holds = F.coalesce(predicate(record_of(self.frame)), F.lit(False))
            branches[name] = self._with(self.frame.where(holds & ~taken))
            taken = taken | holds
        branches[OTHERWISE] = self._with(self.frame.where(~taken))
        return branches

    def merge(self, *others: Stream) -> Stream:
        """All records of all streams, in no order between them. Keys and values must have the same types."""
        frame = self.frame
        for other in others:
            frame = frame.unionByName(other.frame)
        return replace(self, frame=frame, has_watermark=False)

    # State ---------------------------------------------------------------------------------------

    def deduplicate(self, on: Function | None = None, *, within: str) -> Stream:
        """The first of the records that agree in `on` (by default in key and value), as far apart as `within`."""
        record, mark = record_of(self.frame), "_duplicate"
        frame = self._watermarked(within).frame
        if on is None:
            return replace(self, frame=frame.dropDuplicatesWithinWatermark([KEY, VALUE]), has_watermark=True)
        marked = frame.withColumn(mark, on(record))
        return replace(
            self, frame=marked.dropDuplicatesWithinWatermark([mark]).drop(mark), has_watermark=True
        )

    def process(self, function: StateFunction, *, state: str, output: str) -> Stream:
        """Python with a state of its own for each key; `state` and `output` are DDL, as "count bigint, last string".

        `function(key, values, state)` gets the values of a key in a micro-batch, in the order of their timestamps, and
        the state as a dict, None at first. It returns the values to send on, as tuples in the order of `output`, and
        the new state, None to forget the key.

        This is Python on each key: about a millisecond of CPU for each key in each micro-batch and 10 to 20
        microseconds for each record. Aggregations and joins, which Spark does itself, cost a hundredth of that.
        """
        return self._with(process(self.frame, function, state, output))

    def group_by_key(self) -> Grouped:
        return Grouped(self)

    def group_by(self, key: Function) -> Grouped:
        return self.select_key(key).group_by_key()

    # Joins ---------------------------------------------------------------------------------------

    def join(
        self,
        other: Stream,
        value: Callable[[Record, Record], Column],
        *,
        within: str,
        grace: str = NO_GRACE,
        how: str = "inner",
    ) -> Stream:
        """Pairs of records with the same key that are at most `within` apart. `how`: inner, left or outer.

        Records of an outer join without a partner come once none can come any more, `within` and `grace` later.
        """
        from pyspark.sql import functions as F

        if how not in OUTERS:
            raise ValueError(f"how is {how!r}: one of {', '.join(OUTERS)} is meant")
        left = self._watermarked(grace).frame.select([F.col(name).alias(f"left_{name}") for name in _NAMES])
        right = other._watermarked(grace).frame.select(
            [F.col(name).alias(f"right_{name}") for name in _NAMES]
        )
        apart = F.expr(f"INTERVAL {within}")
        matches = (
            (F.col("left_key") == F.col("right_key"))
            & (F.col("right_timestamp") >= F.col("left_timestamp") - apart)
            & (F.col("right_timestamp") <= F.col("left_timestamp") + apart)
        )
        joined = left.join(right, matches, OUTERS[how])
        sides = [Record(*(joined[f"{side}_{name}"] for name in _NAMES)) for side in ("left", "right")]
        is_outer = how == "outer"
        key = F.coalesce(sides[0].key, sides[1].key) if is_outer else sides[0].key
        timestamp = F.greatest(sides[0].timestamp, sides[1].timestamp) if is_outer else sides[0].timestamp
        frame = joined.select(key.alias(KEY), value(*sides).alias(VALUE), timestamp.alias(TIMESTAMP))
        return replace(self, frame=frame, has_watermark=not is_outer)

    def join_table(
        self,
        table: Table,
        value: Callable[[Record, Column], Column],
        *,
        on: Function | None = None,
        how: str = "inner",
    ) -> Stream:
        """Each record with the table's value for its key, or for `on` (a foreign key). `how`: inner or left (null).

        The table is looked up as of the micro-batch: see `table_copy` for what that costs in memory.
        """
        if how not in ("inner", "left"):
            raise ValueError(f"how is {how!r}: inner or left is meant")
        found = "_table_value"
        frame = looked_up(self.frame, table, on or (lambda record: record.key), found)
        if how == "inner":
            frame = frame.where(frame[found].isNotNull())
        return replace(
            self,
            frame=with_columns(frame, value=value(record_of(frame), frame[found])),
            has_watermark=False,
        )

    # Where it goes -------------------------------------------------------------------------------

    def to(
        self, topic: str, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> None:
        """Write to a topic, each record once. `name` is the query's, and of its checkpoint: `to-TOPIC` by default."""
        self.app.write(self.frame, topic, self.mode, key=key, value=value, name=name)

    def through(self, topic: str, *, key: Serde, value: Serde, name: str | None = None) -> Stream:
        """Write to a topic and go on from there, in a query of its own."""
        self.to(topic, key=key, value=value, name=name)
        return self.app.stream(topic, key=key, value=value)

    def to_table(self, topic: str, *, key: Serde, value: Serde, partitions: int = -1) -> Table:
        """Keep the newest value of each key in a compacted topic, which is made where it is not there."""
        self.app.create_table_topic(topic, partitions)
        self.to(topic, key=key, value=value)
        return self.app.table(topic, key=key, value=value)

    def for_each_batch(self, function: Callable[[DataFrame, int], None], *, name: str) -> None:
        """Call `function(frame, batch id)` for every micro-batch; it may be called twice with the same one."""
        self.app.each_batch(self.frame, function, self.mode, name)

    def _with(self, frame: DataFrame) -> Stream:
        return replace(self, frame=frame)

    def _watermarked(self, delay: str) -> Stream:
        if self.has_watermark:
            return self
        return replace(self, frame=self.frame.withWatermark(TIMESTAMP, delay), has_watermark=True)


_NAMES = (KEY, VALUE, TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Grouped:
    """A stream whose records are brought together by key. Records without a key are left out, as in Kafka Streams."""

    stream: Stream

    def windowed_by(self, window: Window) -> Windowed:
        """Bring together by key and time."""
        return Windowed(self.stream, window)

    def count(self) -> Table:
        """How many records each key has."""
        return self._aggregated(_count)

    def reduce(self, function: Function) -> Table:
        """One value of all values of a key: `lambda r: F.max(r.value)`, or any aggregate function of Spark."""
        return self._aggregated(function)

    def aggregate(self, **functions: Function) -> Table:
        """Several, as the fields of a struct: `aggregate(total=lambda r: F.sum(r.value["amount"]), …)`."""
        return self._aggregated(_struct(functions))

    def _aggregated(self, function: Function) -> Table:
        from pyspark.sql import functions as F

        record = record_of(self.stream.frame)
        grouped = self.stream.frame.where(record.key.isNotNull()).groupBy(KEY)
        frame = grouped.agg(function(record).alias(VALUE), F.max(TIMESTAMP).alias(TIMESTAMP))
        return Table(self.stream.app, frame, "update")


@dataclass(frozen=True, slots=True)
class Windowed:
    """A stream whose records are brought together by key and window."""

    stream: Stream
    window: Window

    def count(self) -> Table:
        return self._aggregated(_count)

    def reduce(self, function: Function) -> Table:
        """As `Grouped.reduce`, for each window."""
        return self._aggregated(function)

    def aggregate(self, **functions: Function) -> Table:
        """As `Grouped.aggregate`, for each window."""
        return self._aggregated(_struct(functions))

    def _aggregated(self, function: Function) -> Table:
        from pyspark.sql import functions as F

        marked = self.stream._watermarked(self.window.grace).frame
        frame = marked.where(marked[KEY].isNotNull())
        window = self.window.of(frame[TIMESTAMP])
        grouped = frame.groupBy(window.alias(WINDOW), frame[KEY]).agg(function(record_of(frame)).alias(VALUE))
        result = grouped.select(KEY, VALUE, F.window_time(grouped[WINDOW]).alias(TIMESTAMP), WINDOW)
        # Spark gives session windows only when they are closed.
        return Table(self.stream.app, result, "append" if isinstance(self.window, Session) else "update")


def _count(record: Record) -> Column:
    from pyspark.sql import functions as F

    return F.count(F.lit(1))


def _struct(functions: dict[str, Function]) -> Function:
    if not functions:
        raise ValueError("aggregate needs at least one field: aggregate(total=lambda r: F.sum(r.value))")

    def of(record: Record) -> Column:
        from pyspark.sql import functions as F

        return F.struct(*(function(record).alias(name) for name, function in functions.items()))

    return of
