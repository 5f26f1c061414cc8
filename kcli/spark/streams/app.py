"""The application: its sources, the queries that write its results, and running them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.spark.cluster import Cluster
from kcli.spark.options import sink_options
from kcli.spark.sink import PREFIX, QUERY_ID
from kcli.spark.streams.record import KEY, TIMESTAMP, UPDATE, VALUE, WINDOW, record_of
from kcli.spark.streams.serdes import Binary, Serde, keyed_by_window, serde_for
from kcli.spark.streams.stream import Stream
from kcli.spark.streams.table import Table, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

NAME = re.compile(r"(?!\.+$)[a-zA-Z0-9._-]+")
"""Of applications and queries: also a directory's name."""
NAME_MEANT = "letters, digits, dots, dashes and underscores are meant"
TRANSACTIONAL_ID = "kafka.transactional.id"
POLL_SECONDS = 0.25
"""How soon it is noticed that a query has ended or that the application should."""


@dataclass(frozen=True, slots=True)
class Query:
    """One of the application's results: a topic that is written, or a function that is called."""

    name: str
    writer: DataStreamWriter


class Streams:
    """An application of Kafka Streams' kind on Spark.

    `application_id` names it in messages; everything it remembers is under `checkpoint`, a directory that every
    machine of the Spark cluster can reach: offsets, state, and which micro-batches are done. Topics are read with
    read_committed and written in transactions, so that each record has its effect once. `source_options` and
    `sink_options` are options of the format `kcli` (`maxOffsetsPerTrigger`; `kafka.security.protocol`, for both).
    """

    def __init__(
        self,
        spark: SparkSession,
        application_id: str,
        *,
        bootstrap_servers: str,
        checkpoint: str,
        source_options: Mapping[str, str] | None = None,
        sink_options: Mapping[str, str] | None = None,
    ) -> None:
        if not NAME.fullmatch(application_id):
            raise ValueError(f"application_id is {application_id!r}: {NAME_MEANT}")
        self.spark = spark
        self.application_id = application_id
        self.bootstrap_servers = bootstrap_servers
        self._checkpoint = checkpoint
        servers = {"kafka.bootstrap.servers": bootstrap_servers}
        self._source = {
            **servers,
            "kafka.isolation.level": "read_committed",
            "startingOffsets": "earliest",
            **(source_options or {}),
        }
        self._sink = {**servers, **(sink_options or {})}
        self._queries: dict[str, Query] = {}

    # What it reads -------------------------------------------------------------------------------

    def stream(self, *topics: str, key: Serde | None = None, value: Serde | None = None) -> Stream:
        """The records of topics, from the earliest on; keys and values are bytes where no serde is given."""
        if not topics:
            raise ValueError("stream() names no topic: stream(TOPIC, …) is meant")
        return Stream(self, self._read(",".join(topics), key, value, self._source))

    def table(self, topic: str, *, key: Serde | None = None, value: Serde | None = None) -> Table:
        """A compacted topic, all of it: its newest value for each key."""
        key, value = key or Binary(), value or Binary()
        options = {name: each for name, each in self._source.items() if not name.startswith("starting")}
        frame = self._read(topic, key, value, {**options, "startingOffsets": "earliest"})
        looked_up = {name: each for name, each in options.items() if name.startswith("kafka.")}
        source = Topic(topic, key, value, {**looked_up, "subscribe": topic})
        return Table(self, frame.where(frame[KEY].isNotNull()), "append", source)

    def _read(
        self, topics: str, key: Serde | None, value: Serde | None, options: Mapping[str, str]
    ) -> DataFrame:
        source = self.spark.readStream.format("kcli").options(**options).option("subscribe", topics)
        raw = source.schema(f"{KEY} binary, {VALUE} binary, {TIMESTAMP} timestamp").load()
        return raw.select(
            (key or Binary()).decode(raw[KEY]).alias(KEY),
            (value or Binary()).decode(raw[VALUE]).alias(VALUE),
            raw[TIMESTAMP],
        )

    # What it writes ------------------------------------------------------------------------------

    def write(
        self,
        frame: DataFrame,
        topic: str,
        mode: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        name: str | None = None,
    ) -> None:
        """A query that writes key, value and timestamp to a topic; `Stream.to` and `Table.to` call this."""
        if key is not None and WINDOW in frame.columns:
            raise ValueError(
                "key= is given for records of windows, whose key and window are written as JSON: leave it out, or say "
                "what they are keyed by with to_stream().select_key(…)"
            )
        name = name or f"to-{topic}"
        keyed = keyed_by_window(frame)
        keys = key or serde_for(keyed.schema[KEY].dataType)
        values = value or serde_for(keyed.schema[VALUE].dataType)
        record = record_of(keyed)
        columns = keyed.select(
            keys.encode(record.key).alias(KEY), values.encode(record.value).alias(VALUE), record.timestamp
        )
        options = {**self._sink, "topic": topic}
        if (own := options.get(TRANSACTIONAL_ID)) is not None:  # one for all queries would fence them all
            options[TRANSACTIONAL_ID] = f"{own}-{name}"
        if mode != UPDATE:
            writer = columns.writeStream.format("kcli").options(**options)
        else:  # Spark gives changes to functions only
            writer = columns.writeStream.foreachBatch(partial(_write_changes, options=options))
        self._add(name, writer, mode)

    def each_batch(
        self, frame: DataFrame, function: Callable[[DataFrame, int], None], mode: str, name: str
    ) -> None:
        """A query that calls a function; `Stream.for_each_batch` calls this."""
        self._add(name, frame.writeStream.foreachBatch(function), mode)

    def _add(self, name: str, writer: DataStreamWriter, mode: str) -> None:
        if not NAME.fullmatch(name):
            raise ValueError(f"name is {name!r}: {NAME_MEANT}")
        if name in self._queries:
            raise ValueError(
                f"two queries are called {name!r}: give one another name, as in .to(TOPIC, name=…)"
            )
        writer = writer.outputMode(mode).queryName(f"{self.application_id}-{name}")
        writer = writer.option("checkpointLocation", os.path.join(self._checkpoint, name))
        self._queries[name] = Query(name, writer)

    def create_table_topic(self, topic: str, partitions: int = -1) -> None:
        """A compacted topic, unless it is there; -1: as many partitions as the broker gives by default."""
        client = sink_options({**self._sink, "topic": topic}).client
        with Cluster(client) as cluster:
            cluster.create_topic(topic, partitions, {"cleanup.policy": "compact"})

    # Running -------------------------------------------------------------------------------------

    def run_available(self) -> None:
        """Works off what the topics hold, query after query in the order they were declared, and returns."""
        self._refuse_nothing()
        for query in self._queries.values():
            running = _started(query, query.writer.trigger(availableNow=True))
            try:
                running.awaitTermination()
            finally:
                running.stop()

    def start(self, *, interval: str | None = None) -> list[StreamingQuery]:
        """Starts every query; a micro-batch begins as soon as the last one is done, or each `interval`."""
        self._refuse_nothing()
        running: list[StreamingQuery] = []
        try:
            for query in self._queries.values():
                writer = query.writer.trigger(processingTime=interval) if interval else query.writer
                running.append(_started(query, writer))
        except BaseException:
            _stop(running)
            raise
        return running

    def run(self, *, interval: str | None = None) -> None:
        """Runs until SIGTERM or Ctrl-C; raises what a query failed with, after the others were stopped."""
        from kcli.spark.jobs.running import Stop

        failed: list[Exception] = []
        with Stop().listening() as stop:
            running = self.start(interval=interval)
            try:
                while not stop.is_asked and all(query.isActive for query in running):
                    time.sleep(POLL_SECONDS)
                # Now, since one that is stopped in the middle of something may say that it failed.
                failed += filter(None, (query.exception() for query in running if not query.isActive))
            finally:
                _stop(running)
        if failed:
            raise failed[0]

    def _refuse_nothing(self) -> None:
        if not self._queries:
            raise KcliError(f"application {self.application_id} writes nothing: it needs a .to(TOPIC)")


def _started(query: Query, writer: DataStreamWriter) -> StreamingQuery:
    from pyspark.errors import AnalysisException

    try:
        return writer.start()
    except AnalysisException as error:
        said = str(error).partition("\n")[0]
        raise KcliError(
            f"query {query.name}: Spark cannot do all of it in one query. Write what its last aggregation, join or "
            f"deduplication works on to a topic (through or to_table) and go on from there. Spark says: {said}"
        ) from error


def _stop(running: list[StreamingQuery]) -> None:
    for query in running:
        query.stop()


def _write_changes(frame: DataFrame, batch: int, *, options: Mapping[str, str]) -> None:
    """A micro-batch of an aggregate, in a transaction that notes whose it is and which."""
    query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    assert query is not None, "foreachBatch runs for a query"
    # The query's id is new with a new checkpoint, whose batches begin at 0 and have nothing to do with earlier ones.
    own = f"{options[TRANSACTIONAL_ID]}-{query}" if TRANSACTIONAL_ID in options else f"{PREFIX}{query}"
    once = {TRANSACTIONAL_ID: own, "kcli.batch.id": str(batch)}
    frame.write.format("kcli").mode("append").options(**{**options, **once}).save()
