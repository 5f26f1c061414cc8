"""The classes `Stream` and `Table`, and the groups of a stream.

These classes are in one module, because each class creates objects of the other classes.

Each operation returns a new object. Records are processed only when the application runs.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kcli.spark.streams.joins import check_same_type, joined
from kcli.spark.streams.record import (
    KEY,
    TIMESTAMP,
    TRACE,
    UPDATE,
    VALUE,
    WINDOW,
    Function,
    Record,
    record_of,
    watermark_of,
    with_columns,
    without_trace,
    without_watermark,
)
from kcli.spark.streams.serdes import Binary, Serde, keyed_by_window
from kcli.spark.streams.stateful import Field, Key, Sent, StateFunction, Value, process
from kcli.spark.streams.table_topic import Topic, looked_up, readable_serde, types_of
from kcli.spark.streams.topology import Topology
from kcli.spark.streams.windows import NO_GRACE, Session, Window, milliseconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_log = logging.getLogger("kcli.spark")

OUTERS = {"inner": "inner", "left": "left_outer", "outer": "full_outer"}
OTHERWISE = "otherwise"


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of records (KStream) with the columns key, value and timestamp.

    The records of a windowed aggregate also have the column window.
    """

    topology: Topology
    frame: DataFrame
    mode: str = "append"
    """Spark's output mode: `update` for the changes of an aggregate, else `append`."""

    # --- one record at a time

    def filter(self, predicate: Function) -> Stream:
        """Keeps the records for which the predicate is true."""
        return self._with(self.frame.where(predicate(record_of(self.frame))))

    def filter_not(self, predicate: Function) -> Stream:
        """Keeps the records for which the predicate is false or null."""
        from pyspark.sql import functions as F

        return self._with(self.frame.where(~F.coalesce(predicate(record_of(self.frame)), F.lit(False))))

    def map(self, *, key: Function | None = None, value: Function | None = None) -> Stream:
        """Replaces the key, the value, or both."""
        record = record_of(self.frame)
        return self._with(
            with_columns(
                self.frame,
                key=None if key is None else key(record),
                value=None if value is None else value(record),
            )
        )

    def map_values(self, value: Function) -> Stream:
        """Replaces the value."""
        return self.map(value=value)

    def select_key(self, key: Function) -> Stream:
        """Replaces the key. Later groupings and joins use the new key."""
        return self.map(key=key)

    def flat_map_values(self, values: Function) -> Stream:
        """Makes one record from each element of the array that `values` returns. An empty array or null gives no
        record.
        """
        from pyspark.sql import functions as F

        return self._with(with_columns(self.frame, value=F.explode(values(record_of(self.frame)))))

    def flat_map(self, records: Function) -> Stream:
        """Makes one record from each struct in the array that `records` returns. A struct has the fields `key` and
        `value`.
        """
        from pyspark.sql import functions as F

        column = "_each"
        exploded = self.frame.select(F.explode(records(record_of(self.frame))).alias(column), TIMESTAMP)
        return self._with(
            exploded.select(F.col(column)[KEY].alias(KEY), F.col(column)[VALUE].alias(VALUE), TIMESTAMP)
        )

    def branch(self, **predicates: Function) -> dict[str, Stream]:
        """Returns one stream for each predicate, by its name.

        A record goes to the stream of the first predicate that is true. All other records go to the stream `otherwise`.
        """
        from pyspark.sql import functions as F

        branches: dict[str, Stream] = {}
        taken = F.lit(False)
        for name, predicate in predicates.items():
            if name == OTHERWISE:
                raise ValueError(f"{OTHERWISE} is the branch for all other records: use another name")
            holds = F.coalesce(predicate(record_of(self.frame)), F.lit(False))
            branches[name] = self._with(self.frame.where(holds & ~taken))
            taken = taken | holds
        branches[OTHERWISE] = self._with(self.frame.where(~taken))
        return branches

    def merge(self, *others: Stream) -> Stream:
        """Merges streams. The records of different streams have no order. Keys and values must have the same types."""
        streams = _alike(self, *others)
        for other in streams[1:]:
            for name in dict.fromkeys((*streams[0].frame.columns, *other.frame.columns)):
                check_same_type(f"merge: {name}", streams[0].frame, other.frame, name)
        marks = {watermark_of(stream.frame) for stream in streams}
        # If the watermarks differ, they are removed, because Spark would apply the watermark of the first stream to all
        # streams.
        frames = [stream.frame if len(marks) == 1 else without_watermark(stream.frame) for stream in streams]
        frame = frames[0]
        for other_frame in frames[1:]:
            frame = frame.unionByName(other_frame)
        is_update = any(stream.mode == UPDATE for stream in streams)
        return Stream(self.topology, frame, UPDATE if is_update else self.mode)

    # --- state

    def deduplicate(self, on: Function | None = None, *, within: str) -> Stream:
        """Keeps only the first of several records that have the same value of `on` and are at most `within` apart.

        `on` defaults to key and value. Nulls count as equal. Records that are more than `within` older than the newest
        record are dropped.
        """
        self._refuse_changes("deduplicate")
        mark = "_duplicate"
        frame = self._watermarked(within, "deduplicate within")
        if on is None:
            names = [name for name in frame.columns if name not in (TIMESTAMP, TRACE)]
            return self._with(frame.dropDuplicatesWithinWatermark(names))
        marked = frame.withColumn(mark, on(record_of(frame)))
        return self._with(marked.dropDuplicatesWithinWatermark([mark]).drop(mark))

    def process(self, function: StateFunction[Key, Value, Field, Sent], *, state: str, output: str) -> Stream:
        """Calls a Python function for each key, with a state that is kept between micro-batches.

        `state` and `output` are DDL: "count bigint, last string".

        `function(key, values, state)` gets all values of the key in a micro-batch, in the order of their timestamps.
        The state is a dict, or None for a new key. The function returns the values to send, as tuples in the order of
        `output`, and the new state. If the new state is None, the state of the key is deleted. A sent value None is a
        tombstone.

        Python takes about a millisecond of CPU for each key in each micro-batch, and 10 to 20 microseconds for each
        record. Spark's own aggregations and joins need a hundredth of this time.
        """
        self._refuse_changes("process")
        self._refuse_windows("process")
        return self._with(process(without_trace(self.frame), function, state, output))

    def group_by_key(self) -> Grouped:
        """Groups the records by key."""
        self._refuse_changes("group_by_key")
        self._refuse_windows("group_by_key")
        return Grouped(self)

    def group_by(self, key: Function) -> Grouped:
        """Groups the records by a new key."""
        self._refuse_changes("group_by")
        return Grouped(self.select_key(key))

    # --- joins

    def join(
        self,
        other: Stream,
        value: Callable[[Record, Record], Column],
        *,
        within: str,
        grace: str = NO_GRACE,
        how: str = "inner",
    ) -> Stream:
        """Joins records of two streams that have the same key and are at most `within` apart. `how` is inner, left or
        outer.

        An outer join also sends the records of both streams that have no matching record. A left join also sends the
        records of this stream that have no matching record. Such a record is sent when `within` and `grace` have
        passed, because a matching record can no longer come. As in Kafka Streams, records with a null value are
        dropped, and records without a key match no record.
        """
        if how not in OUTERS:
            raise ValueError(f"how is {how!r}: expected one of {', '.join(OUTERS)}")
        milliseconds(within, "within")
        check_same_type("join: key", self.frame, other.frame, KEY)
        pair = self._joinable(grace), other._joinable(grace)
        return self._with(joined(*pair, value, within=within, how=OUTERS[how]))

    def join_table(
        self,
        table: Table,
        value: Callable[[Record, Column], Column],
        *,
        on: Function | None = None,
        how: str = "inner",
    ) -> Stream:
        """Joins each record with the value that the table has for its key, or for the key that `on` returns (a foreign
        key).

        `how` is inner or left.

        As in Kafka Streams, records with a null value are dropped. The join uses the values that the table has when the
        micro-batch runs. Each worker process has a copy of the table in memory (see `table_copy`).
        """
        if how not in ("inner", "left"):
            raise ValueError(f"how is {how!r}: expected inner or left")
        from pyspark.sql import functions as F

        column = "_table_value"
        valued = self.frame.where(F.col(VALUE).isNotNull())
        frame = looked_up(valued, table.topic, on or (lambda record: record.key), column)
        if how == "inner":
            frame = frame.where(F.col(column).isNotNull())
        return self._with(with_columns(frame, value=value(record_of(frame), F.col(column))))

    # --- results

    def to(
        self, topic: str, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> None:
        """Writes each record to a topic exactly once.

        `name` is the name of the query and its checkpoint (default: `to-TOPIC`).
        """
        self.topology.write(self.frame, topic, self.mode, key=key, value=value, name=name)

    def through(self, topic: str, *, key: Serde, value: Serde, name: str | None = None) -> Stream:
        """Writes the records to an existing topic, and returns the records of this topic as a stream. A separate query
        reads this stream.
        """
        self.to(topic, key=key, value=value, name=name)
        return stream_of(self.topology, topic, key=key, value=value)

    def to_table(
        self, topic: str, *, key: Serde | None = None, value: Serde | None = None, partitions: int = -1
    ) -> Table:
        """Writes the newest value of each key to a compacted topic, which is created if it is missing.

        Records without a key are dropped, as in Kafka Streams.
        """
        return Table(self.topology, self.frame, self.mode).to_table(
            topic, key=key, value=value, partitions=partitions
        )

    def for_each_batch(self, function: Callable[[DataFrame, int], None], *, name: str) -> None:
        """Calls `function(frame, batch id)` for every micro-batch.

        After a failure, the function may be called again for the same micro-batch.
        """
        self.topology.each_batch(without_trace(self.frame), function, self.mode, name)

    def _with(self, frame: DataFrame) -> Stream:
        return replace(self, frame=frame)

    def _watermarked(self, delay: str, what: str) -> DataFrame:
        """Returns the frame with a watermark of at least `delay`.

        A query uses only the longest delay of all its operations. So if an earlier operation has a longer delay, a
        warning is logged.
        """
        delay_ms, known = milliseconds(delay, what), watermark_of(self.frame)
        if known is None or delay_ms > known:
            return self.frame.withWatermark(TIMESTAMP, delay)
        if 0 < delay_ms < known:
            _log.warning(
                "%s %s becomes %d ms, because an earlier step waits so long; to avoid it, write the results of that "
                "step to a topic (through)",
                what,
                delay,
                known,
            )
        return self.frame

    def _joinable(self, grace: str) -> DataFrame:
        from pyspark.sql import functions as F

        self._refuse_changes("join")
        self._refuse_windows("join")
        return self._watermarked(grace, "grace").where(F.col(VALUE).isNotNull())

    def _refuse_changes(self, what: str) -> None:
        if self.mode == UPDATE:
            raise ValueError(
                f"{what} of an aggregate's changes is not possible in Spark. Keep the aggregate with to_table(TOPIC) "
                "and continue from the table; an aggregate over windows can also be final (suppress)"
            )

    def _refuse_windows(self, what: str) -> None:
        if WINDOW in self.frame.columns:
            raise ValueError(
                f"{what} of records with key and window is not possible: choose a new key, for example "
                "select_key(lambda r: r.key) without the window"
            )


@dataclass(frozen=True, slots=True)
class Table:
    """The newest value of each key (KTable). A null value is a tombstone, which deletes the key.

    `frame` has the changes of the table in the columns key, value and timestamp. An aggregate over windows also has the
    column window.
    """

    topology: Topology
    frame: DataFrame
    mode: str
    """Spark's output mode: `update` for an aggregate that sends each new value, `append` for final values or the
    changes of a topic."""
    topic: Topic | None = None
    """The compacted topic of the table, or None if no topic contains the table. `to_table` writes such a table to a
    topic."""

    def filter(self, predicate: Function) -> Table:
        """Keeps the values of the keys for which the predicate is true.

        Other keys get a tombstone, because they may have had a value before.
        """
        from pyspark.sql import functions as F

        record = record_of(self.frame)
        value = F.when(F.coalesce(predicate(record), F.lit(False)), record.value)
        return replace(self, frame=with_columns(self.frame, value=value), topic=None)

    def filter_not(self, predicate: Function) -> Table:
        """Keeps the values of the keys for which the predicate is false or null. Other keys get a tombstone."""
        from pyspark.sql import functions as F

        return self.filter(lambda record: ~F.coalesce(predicate(record), F.lit(False)))

    def map_values(self, value: Function) -> Table:
        """Replaces the values. Tombstones stay tombstones."""
        from pyspark.sql import functions as F

        record = record_of(self.frame)
        mapped = F.when(record.value.isNotNull(), value(record))
        return replace(self, frame=with_columns(self.frame, value=mapped), topic=None)

    def suppress(self) -> Table:
        """Sends one final result when a window is closed, instead of every change of the aggregate."""
        if WINDOW not in self.frame.columns:
            raise ValueError("suppress is for aggregates over windows, because others are never final")
        return replace(self, mode="append")

    def join(self, other: Table, value: Callable[[Column, Column], Column], *, how: str = "inner") -> Table:
        """Joins the values that two tables have for the same key. A key without a result gets a tombstone.

        `how` selects which tables must have a value for the key: both tables (inner), this table (left), or at least
        one of the tables (outer).

        Both tables must be topics (see `to_table`). When a key changes in one of the tables, the micro-batch looks up
        the values of both tables. Keys that never had a value may get tombstones.
        """
        from pyspark.sql import functions as F

        conditions = {
            "inner": lambda left, right: left.isNotNull() & right.isNotNull(),
            "left": lambda left, right: left.isNotNull(),
            "outer": lambda left, right: left.isNotNull() | right.isNotNull(),
        }
        if how not in conditions:
            raise ValueError(f"how is {how!r}: expected one of {', '.join(conditions)}")
        if (mine := types_of(self.frame)[KEY]) != (others := types_of(other.frame)[KEY]):
            raise ValueError(
                f"join: key is {mine.simpleString()} here and {others.simpleString()} there: their "
                "bytes are compared"
            )
        changes = self.frame.select(KEY, TIMESTAMP).unionByName(other.frame.select(KEY, TIMESTAMP))
        changes = changes.withColumn(VALUE, F.lit(None).cast("binary"))
        both = looked_up(changes, self.topic, lambda record: record.key, "_left")
        both = looked_up(both, other.topic, lambda record: record.key, "_right")
        left, right = F.col("_left"), F.col("_right")
        joined = F.when(conditions[how](left, right), value(left, right))
        return Table(self.topology, with_columns(both, value=joined), "append")

    def to_stream(self) -> Stream:
        """Returns the changes of the table as a stream of records."""
        return Stream(self.topology, self.frame, self.mode)

    def to(
        self, topic: str, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> None:
        """Writes the changes of the table to a topic."""
        self.topology.write(self.frame, topic, self.mode, key=key, value=value, name=name)

    def to_table(
        self, topic: str, *, key: Serde | None = None, value: Serde | None = None, partitions: int = -1
    ) -> Table:
        """Writes the table to a compacted topic, which is created if it is missing. The returned table can be joined.

        The key of a windowed aggregate becomes a struct of `key`, `start` and `end`.
        """
        from pyspark.sql import functions as F

        frame = keyed_by_window(self.frame)
        keyed = frame.where(F.col(KEY).isNotNull())  # a compacted topic refuses records without a key
        types = types_of(keyed)
        key, value = (readable_serde(serde, types[name]) for name, serde in ((KEY, key), (VALUE, value)))
        self.topology.create_table_topic(topic, partitions)
        self.topology.write(keyed, topic, self.mode, key=key, value=value)
        return table_of(self.topology, topic, key=key, value=value)


def _alike(*streams: Stream) -> tuple[Stream, ...]:
    """Returns the streams without their trace headers, unless all of them have trace headers."""
    if all(TRACE in stream.frame.columns for stream in streams):
        return streams
    return tuple(stream._with(without_trace(stream.frame)) for stream in streams)


def stream_of(
    topology: Topology, *topics: str, key: Serde | None = None, value: Serde | None = None
) -> Stream:
    """Returns the records of topics as a stream."""
    if not topics:
        raise ValueError("stream() names no topic: expected stream(TOPIC, …)")
    return Stream(topology, topology.read(",".join(topics), key, value, topology.source))


def table_of(
    topology: Topology, topic: str, *, key: Serde | None = None, value: Serde | None = None
) -> Table:
    """Returns a compacted topic as a table. The topic is read from its first record on."""
    key, value = key or Binary(), value or Binary()
    options = {name: text for name, text in topology.source.items() if not name.startswith("starting")}
    frame = topology.read(topic, key, value, {**options, "startingOffsets": "earliest"})
    looked_up = {name: text for name, text in options.items() if name.startswith("kafka.")}
    source = Topic(topic, key, value, {**looked_up, "subscribe": topic})
    return Table(topology, frame.where(frame[KEY].isNotNull()), "append", source)


class _Groups(ABC):
    """Groups of records, and the aggregations of each group."""

    __slots__ = ()

    def count(self) -> Table:
        """Counts the records of each group."""
        from pyspark.sql import functions as F

        return self.reduce(lambda _: F.count(F.lit(1)))

    @abstractmethod
    def reduce(self, function: Function) -> Table:
        """Reduces each group to one value with an aggregate function of Spark: `lambda r: F.max(r.value)`."""

    def aggregate(self, **functions: Function) -> Table:
        """Reduces each group to a struct of values: `aggregate(total=lambda r: F.sum(r.value["amount"]), …)`."""
        from pyspark.sql import functions as F

        if not functions:
            raise ValueError("aggregate needs at least one field: aggregate(total=lambda r: F.sum(r.value))")
        return self.reduce(
            lambda record: F.struct(*(function(record).alias(name) for name, function in functions.items()))
        )


@dataclass(frozen=True, slots=True)
class Grouped(_Groups):
    """A stream grouped by key. As in Kafka Streams, records with a null key or value are left out."""

    stream: Stream

    def windowed_by(self, window: Window) -> Windowed:
        """Groups the records by key and window."""
        return Windowed(self.stream, window)

    def reduce(self, function: Function) -> Table:
        from pyspark.sql import functions as F

        frame = _grouped(self.stream.frame)
        grouped = frame.groupBy(KEY).agg(
            function(record_of(frame)).alias(VALUE), F.max(TIMESTAMP).alias(TIMESTAMP)
        )
        return Table(self.stream.topology, grouped, UPDATE)


@dataclass(frozen=True, slots=True)
class Windowed(_Groups):
    """A stream grouped by key and window."""

    stream: Stream
    window: Window

    def reduce(self, function: Function) -> Table:
        from pyspark.sql import functions as F

        frame = _grouped(self.stream._watermarked(self.window.grace, "grace"))
        record = record_of(frame)
        window = self.window.of(record.timestamp).alias(WINDOW)
        grouped = frame.groupBy(window, record.key).agg(function(record).alias(VALUE))
        result = grouped.select(KEY, VALUE, F.window_time(F.col(WINDOW)).alias(TIMESTAMP), WINDOW)
        # Spark does not support session windows in the mode `update`. So a session is returned only when it is closed.
        return Table(self.stream.topology, result, "append" if isinstance(self.window, Session) else UPDATE)


def _grouped(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.where(F.col(KEY).isNotNull() & F.col(VALUE).isNotNull())
