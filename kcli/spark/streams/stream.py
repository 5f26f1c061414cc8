"""Streams of records, tables, and what is grouped: each makes the others, so they are in one module.

Each operation gives a new one; nothing runs until the application does.
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
    UPDATE,
    VALUE,
    WINDOW,
    Function,
    Record,
    record_of,
    watermark_of,
    with_columns,
    without_watermark,
)
from kcli.spark.streams.serdes import Binary, Serde, keyed_by_window
from kcli.spark.streams.stateful import Field, Key, Sent, StateFunction, Value, process
from kcli.spark.streams.table_topic import Topic, looked_up, readable_serde, types_of
from kcli.spark.streams.topology import Topology
from kcli.spark.streams.windows import NO_GRACE, Session, Window, milliseconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

log = logging.getLogger("kcli.spark")

OUTERS = {"inner": "inner", "left": "left_outer", "outer": "full_outer"}
OTHERWISE = "otherwise"


@dataclass(frozen=True, slots=True)
class Stream:
    """Records one after the other (KStream): columns key, value, timestamp, and after windows window."""

    topology: Topology
    frame: DataFrame
    mode: str = "append"
    """Spark's output mode for what is written; update: these are the changes of an aggregate."""

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
        """Another value."""
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
            exploded.select(F.col(each)[KEY].alias(KEY), F.col(each)[VALUE].alias(VALUE), TIMESTAMP)
        )

    def branch(self, **predicates: Function) -> dict[str, Stream]:
        """A stream by name for each predicate, with the records that no earlier one took; `otherwise` has the rest."""
        from pyspark.sql import functions as F

        branches: dict[str, Stream] = {}
        taken = F.lit(False)
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
        streams = (self, *others)
        for other in others:
            for name in dict.fromkeys((*self.frame.columns, *other.frame.columns)):
                check_same_type(f"merge: {name}", self.frame, other.frame, name)
        marks = {watermark_of(each.frame) for each in streams}
        # Spark would take the first one's watermark for that of all.
        frames = [each.frame if len(marks) == 1 else without_watermark(each.frame) for each in streams]
        frame = frames[0]
        for other_frame in frames[1:]:
            frame = frame.unionByName(other_frame)
        is_update = any(each.mode == UPDATE for each in streams)
        return Stream(self.topology, frame, UPDATE if is_update else self.mode)

    # State ---------------------------------------------------------------------------------------

    def deduplicate(self, on: Function | None = None, *, within: str) -> Stream:
        """The first of the records that agree in `on` (by default in key and value), at least as far apart as `within`.

        Nulls agree with each other. Records later than `within` behind the newest one seen are left out.
        """
        self._refuse_changes("deduplicate")
        mark = "_duplicate"
        frame = self._watermarked(within, "deduplicate within")
        if on is None:
            names = [name for name in frame.columns if name != TIMESTAMP]
            return self._with(frame.dropDuplicatesWithinWatermark(names))
        marked = frame.withColumn(mark, on(record_of(frame)))
        return self._with(marked.dropDuplicatesWithinWatermark([mark]).drop(mark))

    def process(self, function: StateFunction[Key, Value, Field, Sent], *, state: str, output: str) -> Stream:
        """Python with a state of its own for each key; `state` and `output` are DDL, as "count bigint, last string".

        `function(key, values, state)` gets the values of a key in a micro-batch, in the order of their timestamps, and
        the state as a dict, None at first. It returns the values to send on, as tuples in the order of `output`, and
        the new state, None to forget the key. A value of None is a tombstone.

        This is Python on each key: about a millisecond of CPU for each key in each micro-batch and 10 to 20
        microseconds for each record. Aggregations and joins, which Spark does itself, cost a hundredth of that.
        """
        self._refuse_changes("process")
        self._refuse_windows("process")
        return self._with(process(self.frame, function, state, output))

    def group_by_key(self) -> Grouped:
        """Bring together what has the same key."""
        self._refuse_changes("group_by_key")
        self._refuse_windows("group_by_key")
        return Grouped(self)

    def group_by(self, key: Function) -> Grouped:
        """Bring together what has the same new key."""
        self._refuse_changes("group_by")
        return Grouped(self.select_key(key))

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

        Records of an outer join without a partner come once none can come any more, `within` and `grace` later. As in
        Kafka Streams records with a null value are left out, and those without a key have no partner.
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
        """Each record with the table's value for its key, or for `on` (a foreign key). `how`: inner or left (null).

        As in Kafka Streams records with a null value are left out. The table is looked up as of the micro-batch: see
        `table_copy` for what that costs in memory.
        """
        if how not in ("inner", "left"):
            raise ValueError(f"how is {how!r}: expected inner or left")
        from pyspark.sql import functions as F

        found = "_table_value"
        valued = self.frame.where(F.col(VALUE).isNotNull())
        frame = looked_up(valued, table.topic, on or (lambda record: record.key), found)
        if how == "inner":
            frame = frame.where(F.col(found).isNotNull())
        return self._with(with_columns(frame, value=value(record_of(frame), F.col(found))))

    # Where it goes -------------------------------------------------------------------------------

    def to(
        self, topic: str, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> None:
        """Write to a topic, each record once. `name` is the query's, and of its checkpoint: `to-TOPIC` by default."""
        self.topology.write(self.frame, topic, self.mode, key=key, value=value, name=name)

    def through(self, topic: str, *, key: Serde, value: Serde, name: str | None = None) -> Stream:
        """Write to a topic, which has to be there, and go on from it in a query of its own."""
        self.to(topic, key=key, value=value, name=name)
        return stream_of(self.topology, topic, key=key, value=value)

    def to_table(
        self, topic: str, *, key: Serde | None = None, value: Serde | None = None, partitions: int = -1
    ) -> Table:
        """Keep the newest value of each key in a compacted topic, which is made where it is not there.

        Records without a key are left out, as in Kafka Streams.
        """
        return Table(self.topology, self.frame, self.mode).to_table(
            topic, key=key, value=value, partitions=partitions
        )

    def for_each_batch(self, function: Callable[[DataFrame, int], None], *, name: str) -> None:
        """Call `function(frame, batch id)` for every micro-batch; it may be called twice with the same one."""
        self.topology.each_batch(self.frame, function, self.mode, name)

    def _with(self, frame: DataFrame) -> Stream:
        return replace(self, frame=frame)

    def _watermarked(self, delay: str, what: str) -> DataFrame:
        """Sets the watermark. A query has one, that of its longest delay, so a shorter delay is logged as idle."""
        wanted, known = milliseconds(delay, what), watermark_of(self.frame)
        if known is None or wanted > known:
            return self.frame.withWatermark(TIMESTAMP, delay)
        if 0 < wanted < known:
            log.warning(
                "%s %s becomes %d ms, for which an earlier step waits; to avoid it write that step's results to a "
                "topic (through)",
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
                f"{what} of an aggregate's changes: Spark can only pass them on. Keep the aggregate with "
                "to_table(TOPIC) and go on from there; one over windows can also be final (suppress)"
            )

    def _refuse_windows(self, what: str) -> None:
        if WINDOW in self.frame.columns:
            raise ValueError(
                f"{what} of records that belong to key and window: say by what they are keyed from here on, "
                "select_key(lambda r: r.key) without the window"
            )


@dataclass(frozen=True, slots=True)
class Table:
    """For each key its newest value (KTable). A null value is a tombstone: the key is gone.

    `frame` are the changes: columns key, value, timestamp, and window for an aggregate over windows.
    """

    topology: Topology
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
            raise ValueError(f"how is {how!r}: expected one of {', '.join(conditions)}")
        if (mine := types_of(self.frame)[KEY]) != (others := types_of(other.frame)[KEY]):
            raise ValueError(
                f"join: key is {mine.simpleString()} here and {others.simpleString()} there: keys are compared as they "
                "are written"
            )
        changes = self.frame.select(KEY, TIMESTAMP).unionByName(other.frame.select(KEY, TIMESTAMP))
        changes = changes.withColumn(VALUE, F.lit(None).cast("binary"))
        both = looked_up(changes, self.topic, lambda record: record.key, "_left")
        both = looked_up(both, other.topic, lambda record: record.key, "_right")
        left, right = F.col("_left"), F.col("_right")
        joined = F.when(conditions[how](left, right), value(left, right))
        return Table(self.topology, with_columns(both, value=joined), "append")

    def to_stream(self) -> Stream:
        """Its changes, one record each."""
        return Stream(self.topology, self.frame, self.mode)

    def to(
        self, topic: str, *, key: Serde | None = None, value: Serde | None = None, name: str | None = None
    ) -> None:
        """Write its changes to a topic."""
        self.topology.write(self.frame, topic, self.mode, key=key, value=value, name=name)

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
        key, value = (readable_serde(serde, types[name]) for name, serde in ((KEY, key), (VALUE, value)))
        self.topology.create_table_topic(topic, partitions)
        self.topology.write(keyed, topic, self.mode, key=key, value=value)
        return table_of(self.topology, topic, key=key, value=value)


def stream_of(
    topology: Topology, *topics: str, key: Serde | None = None, value: Serde | None = None
) -> Stream:
    """The records of topics."""
    if not topics:
        raise ValueError("stream() names no topic: expected stream(TOPIC, …)")
    return Stream(topology, topology.read(",".join(topics), key, value, topology.source))


def table_of(
    topology: Topology, topic: str, *, key: Serde | None = None, value: Serde | None = None
) -> Table:
    """The table that a compacted topic is, all of it."""
    key, value = key or Binary(), value or Binary()
    options = {name: each for name, each in topology.source.items() if not name.startswith("starting")}
    frame = topology.read(topic, key, value, {**options, "startingOffsets": "earliest"})
    looked_up = {name: each for name, each in options.items() if name.startswith("kafka.")}
    source = Topic(topic, key, value, {**looked_up, "subscribe": topic})
    return Table(topology, frame.where(frame[KEY].isNotNull()), "append", source)


class _Groups(ABC):
    """Records that were brought together; what can be made of each group."""

    __slots__ = ()

    def count(self) -> Table:
        """How many records it has."""
        from pyspark.sql import functions as F

        return self.reduce(lambda _: F.count(F.lit(1)))

    @abstractmethod
    def reduce(self, function: Function) -> Table:
        """One value of all its values: `lambda r: F.max(r.value)`, or any aggregate function of Spark."""

    def aggregate(self, **functions: Function) -> Table:
        """Several, as the fields of a struct: `aggregate(total=lambda r: F.sum(r.value["amount"]), …)`."""
        from pyspark.sql import functions as F

        if not functions:
            raise ValueError("aggregate needs at least one field: aggregate(total=lambda r: F.sum(r.value))")
        return self.reduce(
            lambda record: F.struct(*(each(record).alias(name) for name, each in functions.items()))
        )


@dataclass(frozen=True, slots=True)
class Grouped(_Groups):
    """A stream whose records are brought together by key. As in Kafka Streams those with a null key or value are not
    in any group."""

    stream: Stream

    def windowed_by(self, window: Window) -> Windowed:
        """Bring together by key and time."""
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
    """A stream whose records are brought together by key and window."""

    stream: Stream
    window: Window

    def reduce(self, function: Function) -> Table:
        from pyspark.sql import functions as F

        frame = _grouped(self.stream._watermarked(self.window.grace, "grace"))
        record = record_of(frame)
        window = self.window.of(record.timestamp).alias(WINDOW)
        grouped = frame.groupBy(window, record.key).agg(function(record).alias(VALUE))
        result = grouped.select(KEY, VALUE, F.window_time(F.col(WINDOW)).alias(TIMESTAMP), WINDOW)
        # Spark gives session windows only when they are closed.
        return Table(self.stream.topology, result, "append" if isinstance(self.window, Session) else UPDATE)


def _grouped(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.where(F.col(KEY).isNotNull() & F.col(VALUE).isNotNull())
