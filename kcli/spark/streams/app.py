"""The class of an application: its sources, its queries, and the ways to run them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.spark.streams.serdes import Serde
from kcli.spark.streams.stream import Stream, Table, stream_of, table_of
from kcli.spark.streams.topology import NAME, NAME_EXPECTED, Query, Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

POLL_SECONDS = 0.25
"""The seconds between two checks whether the application should stop and whether a query has ended."""


class Streams:
    """An application like those of Kafka Streams, on Spark.

    `application_id` is a part of the names of the queries. `checkpoint` is a directory that every machine of the Spark
    cluster can reach. Spark stores offsets, state and the list of finished micro-batches there. Topics are read with
    read_committed and written in transactions, so that each record takes effect exactly once. `source_options` and
    `sink_options` are options of the format `kcli`: for example `maxOffsetsPerTrigger` for the source, and
    `kafka.security.protocol` for the source and the sink.
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
            raise ValueError(f"application_id is {application_id!r}: {NAME_EXPECTED}")
        self.spark = spark
        self.application_id = application_id
        self.bootstrap_servers = bootstrap_servers
        servers = {"kafka.bootstrap.servers": bootstrap_servers}
        source = {
            **servers,
            "kafka.isolation.level": "read_committed",
            "startingOffsets": "earliest",
            **(source_options or {}),
        }
        sink = {**servers, **(sink_options or {})}
        self._topology = Topology(spark, application_id, checkpoint, source, sink)

    # --- sources

    def stream(self, *topics: str, key: Serde | None = None, value: Serde | None = None) -> Stream:
        """Returns the records of topics as a stream, from the first record on. If no serde is given, keys and values
        are bytes.
        """
        return stream_of(self._topology, *topics, key=key, value=value)

    def table(self, topic: str, *, key: Serde | None = None, value: Serde | None = None) -> Table:
        """Returns a compacted topic as a table, which contains the newest value of each key."""
        return table_of(self._topology, topic, key=key, value=value)

    # --- running

    def run_available(self) -> None:
        """Processes all records that the topics have now, one query after the other, and returns."""
        self._refuse_nothing()
        for query in self._topology.queries.values():
            running = _started(query, query.writer.trigger(availableNow=True))
            try:
                running.awaitTermination()
            finally:
                running.stop()

    def start(self, *, interval: str | None = None) -> list[StreamingQuery]:
        """Starts all queries. A micro-batch begins when the one before it has ended. If `interval` is given, a
        micro-batch begins every `interval`."""
        self._refuse_nothing()
        running: list[StreamingQuery] = []
        try:
            for query in self._topology.queries.values():
                writer = query.writer.trigger(processingTime=interval) if interval else query.writer
                running.append(_started(query, writer))
        except BaseException:
            _stop(running)
            raise
        return running

    def run(self, *, interval: str | None = None) -> None:
        """Starts all queries and runs them until SIGTERM or Ctrl-C. If a query fails, stops the other queries and
        raises the error.
        """
        from kcli.spark.jobs.shared.running import Stop

        failed: list[Exception] = []
        with Stop().listening() as stop:
            running = self.start(interval=interval)
            try:
                while not stop.is_asked and all(query.isActive for query in running):
                    time.sleep(POLL_SECONDS)
                # Errors are collected before the other queries are stopped, because a query that is stopped may report
                # an error too.
                failed += filter(None, (query.exception() for query in running if not query.isActive))
            finally:
                _stop(running)
        if failed:
            raise failed[0]

    def _refuse_nothing(self) -> None:
        if not self._topology.queries:
            raise KcliError(f"application {self.application_id} has no query: add a .to(TOPIC)")


def _started(query: Query, writer: DataStreamWriter) -> StreamingQuery:
    from pyspark.errors import AnalysisException

    try:
        return writer.start()
    except AnalysisException as error:
        said = str(error).partition("\n")[0]
        raise KcliError(
            f"query {query.name}: Spark cannot run it as one query. Write the input of its last aggregation, join or "
            f"deduplication to a topic (through or to_table), and continue from the topic. Spark reports: {said}"
        ) from error


def _stop(running: list[StreamingQuery]) -> None:
    for query in running:
        query.stop()
