"""The application: its sources, the queries that write its results, and running them."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kcli.errors import KafkaError, KcliError, TopicExistsException
from kcli.spark.sink import PREFIX, QUERY_ID
from kcli.spark.streams.record import KEY, TIMESTAMP, VALUE
from kcli.spark.streams.serdes import Binary, Serde, encoded_key, serde_for
from kcli.spark.streams.stream import Stream
from kcli.spark.streams.table import Table, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

APPLICATION_ID = re.compile(r"[a-zA-Z0-9._-]+")
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
    read_committed and written in transactions, so that each record has its effect once. `options` are options of the
    format `kcli` (`maxOffsetsPerTrigger`, `kafka.…`); those that only the sink or the source knows go there alone.
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
        if not APPLICATION_ID.fullmatch(application_id):
            raise ValueError(
                f"application_id is {application_id!r}: letters, digits, dots, dashes and underscores are allowed"
            )
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
        return Stream(self, self._read(",".join(topics), key, value))

    def table(self, topic: str, *, key: Serde | None = None, value: Serde | None = None) -> Table:
        """A compacted topic: its newest value for each key."""
        key, value = key or Binary(), value or Binary()
        looked_up = {**self._source, "subscribe": topic}
        looked_up.pop("maxOffsetsPerTrigger", None)
        frame = self._read(topic, key, value)
        return Table(self, frame.where(frame[KEY].isNotNull()), "append", Topic(topic, key, value, looked_up))

    def _read(self, topics: str, key: Serde | None, value: Serde | None) -> DataFrame:
        source = self.spark.readStream.format("kcli").options(**self._source).option("subscribe", topics)
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
        values = value or serde_for(frame.schema[VALUE].dataType)
        columns = frame.select(
            encoded_key(frame, key).alias(KEY), values.encode(frame[VALUE]).alias(VALUE), frame[TIMESTAMP]
        )
        options = {**self._sink, "topic": topic}
        if mode == "append":
            writer = columns.writeStream.format("kcli").options(**options)
        else:  # Spark gives changes to functions only
            writer = columns.writeStream.foreachBatch(partial(_write_changes, options=options))
        self._add(name or f"to-{topic}", writer, mode)

    def each_batch(
        self, frame: DataFrame, function: Callable[[DataFrame, int], None], mode: str, name: str
    ) -> None:
        """A query that calls a function; `Stream.for_each_batch` calls this."""
        self._add(name, frame.writeStream.foreachBatch(function), mode)

    def _add(self, name: str, writer: DataStreamWriter, mode: str) -> None:
        if name in self._queries:
            raise ValueError(f"two queries are called {name!r}: give one another name")
        writer = writer.outputMode(mode).queryName(f"{self.application_id}-{name}")
        writer = writer.option("checkpointLocation", os.path.join(self._checkpoint, name))
        self._queries[name] = Query(name, writer)

    def create_table_topic(self, topic: str, partitions: int = -1) -> None:
        """A compacted topic, unless it is there; -1: as many partitions as the broker gives by default."""
        from kcli.client.admin import AdminClient
        from kcli.client.config import client_config
        from kcli.client.topics import NewTopic

        async def create() -> KafkaError | None:
            async with AdminClient(client_config({}, bootstrap_servers=self.bootstrap_servers)) as admin:
                wanted = NewTopic(name=topic, partitions=partitions, configs={"cleanup.policy": "compact"})
                return (await admin.create_topics([wanted]))[topic]

        error = _in_thread(lambda: asyncio.run(create()))
        if error is not None and not isinstance(error, TopicExistsException):
            raise error

    # Running -------------------------------------------------------------------------------------

    def run_available(self) -> None:
        """Works off what the topics hold, query after query in the order they were declared, and returns."""
        self._refuse_nothing()
        for query in self._queries.values():
            query.writer.trigger(availableNow=True).start().awaitTermination()

    def start(self, *, interval: str | None = None) -> list[StreamingQuery]:
        """Starts every query; a micro-batch begins as soon as the last one is done, or each `interval`."""
        self._refuse_nothing()
        return [
            (query.writer.trigger(processingTime=interval) if interval else query.writer).start()
            for query in self._queries.values()
        ]

    def run(self, *, interval: str | None = None) -> None:
        """Runs until SIGTERM or Ctrl-C; raises what a query failed with, after the others were stopped."""
        from kcli.spark.jobs.running import Stop

        stop = Stop()
        running = self.start(interval=interval)
        try:
            while all(query.isActive for query in running) and not stop.is_asked:
                time.sleep(POLL_SECONDS)
        finally:
            for query in running:
                query.stop()
        for query in running:
            if (error := query.exception()) is not None:
                raise error

    def _refuse_nothing(self) -> None:
        if not self._queries:
            raise KcliError(f"application {self.application_id} writes nothing: it needs a .to(TOPIC)")


def _write_changes(frame: DataFrame, batch: int, *, options: Mapping[str, str]) -> None:
    """A micro-batch of an aggregate, in a transaction that notes whose it is and which."""
    query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    assert query is not None, "foreachBatch runs for a query"
    once = {"kafka.transactional.id": f"{PREFIX}{query}", "kcli.batch.id": str(batch)}
    frame.write.format("kcli").mode("append").options(**{**once, **options}).save()


def _in_thread(work: Callable[[], KafkaError | None]) -> KafkaError | None:
    """A notebook has an event loop of its own running in its thread."""
    result: list[KafkaError | None] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return result[0]
