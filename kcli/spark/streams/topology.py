"""Collects the parts of an application: the options of its source and sink, and the queries of its streams and
tables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kcli.spark.client.cluster import Cluster
from kcli.spark.micro_batch import QUERY_ID
from kcli.spark.options import are_traced, sink_options
from kcli.spark.sink.writers import PREFIX
from kcli.spark.streams.record import KEY, TIMESTAMP, TRACE, UPDATE, VALUE, WINDOW, record_of
from kcli.spark.streams.serdes import Binary, Serde, keyed_by_window, serde_for
from kcli.tracing.trace_context import TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

NAME = re.compile(r"(?!\.+$)[a-zA-Z0-9._-]+")
"""Matches valid names of applications and queries. The names are restricted because the name of a query is also the
name of its checkpoint directory."""
NAME_EXPECTED = "expected letters, digits, dots, dashes and underscores"
TRANSACTIONAL_ID = "kafka.transactional.id"
HEADERS = "headers array<struct<key: string, value: binary>>"


@dataclass(frozen=True, slots=True)
class Query:
    """A query of the application. It writes to a topic or calls a function."""

    name: str
    writer: DataStreamWriter


@dataclass(frozen=True, slots=True)
class Topology:
    """The queries of an application, and the settings that they share.

    `source` and `sink` are options of the format `kcli`; `checkpoint` is the directory of all checkpoints.
    """

    spark: SparkSession
    application_id: str
    checkpoint: str
    source: Mapping[str, str]
    sink: Mapping[str, str]
    queries: dict[str, Query] = field(default_factory=dict)

    def read(
        self, topics: str, key: Serde | None, value: Serde | None, options: Mapping[str, str]
    ) -> DataFrame:
        """Returns the columns key, value and timestamp of topics (comma-separated)."""
        source = self.spark.readStream.format("kcli").options(**options).option("subscribe", topics)
        is_traced = are_traced(options)
        columns = f"{KEY} binary, {VALUE} binary, {TIMESTAMP} timestamp"
        raw = source.schema(f"{columns}, {HEADERS}" if is_traced else columns).load()
        return raw.select(
            (key or Binary()).decode(raw[KEY]).alias(KEY),
            (value or Binary()).decode(raw[VALUE]).alias(VALUE),
            raw[TIMESTAMP],
            *([_trace_headers(raw["headers"]).alias(TRACE)] if is_traced else []),
        )

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
        """Adds a query that writes key, value and timestamp to a topic, for `Stream.to` and `Table.to`."""
        if key is not None and WINDOW in frame.columns:
            raise ValueError(
                "key= is not for records of windows, whose key and window are written as JSON: leave it out, or choose "
                "a new key with to_stream().select_key(…)"
            )
        name = name or f"to-{topic}"
        keyed = keyed_by_window(frame)
        keys = key or serde_for(keyed.schema[KEY].dataType)
        values = value or serde_for(keyed.schema[VALUE].dataType)
        record = record_of(keyed)
        columns = keyed.select(
            keys.encode(record.key).alias(KEY),
            values.encode(record.value).alias(VALUE),
            record.timestamp,
            *([keyed[TRACE].alias("headers")] if TRACE in keyed.columns else []),
        )
        options = {**self.sink, "topic": topic}
        if (
            own := options.get(TRANSACTIONAL_ID)
        ) is not None:  # queries with the same transactional id would fence each other
            options[TRANSACTIONAL_ID] = f"{own}-{name}"
        if mode != UPDATE:
            writer = columns.writeStream.format("kcli").options(**options)
        else:
            # In the output mode `update`, Spark can pass rows only to a function (foreachBatch), not to a Python sink.
            writer = columns.writeStream.foreachBatch(partial(_write_changes, options=options))
        self._add(name, writer, mode)

    def each_batch(
        self, frame: DataFrame, function: Callable[[DataFrame, int], None], mode: str, name: str
    ) -> None:
        """Adds a query that calls a function, for `Stream.for_each_batch`."""
        self._add(name, frame.writeStream.foreachBatch(function), mode)

    def _add(self, name: str, writer: DataStreamWriter, mode: str) -> None:
        if not NAME.fullmatch(name):
            raise ValueError(f"name is {name!r}: {NAME_EXPECTED}")
        if name in self.queries:
            raise ValueError(f"two queries have the name {name!r}: use another one, as in .to(TOPIC, name=…)")
        writer = writer.outputMode(mode).queryName(f"{self.application_id}-{name}")
        writer = writer.option("checkpointLocation", os.path.join(self.checkpoint, name))
        self.queries[name] = Query(name, writer)

    def create_table_topic(self, topic: str, partitions: int = -1) -> None:
        """Creates a compacted topic if it is missing. If `partitions` is -1, the number of partitions is the broker's
        num.partitions."""
        client = sink_options({**self.sink, "topic": topic}).client
        with Cluster(client) as cluster:
            cluster.create_topic(topic, partitions, {"cleanup.policy": "compact"})


def _trace_headers(headers: Column) -> Column:
    """Returns only the trace headers of a record. Records that are made from this record get these headers and no
    others."""
    from pyspark.sql import functions as F

    return F.filter(headers, lambda header: header["key"].isin(TRACEPARENT, TRACESTATE))


def _write_changes(frame: DataFrame, batch: int, *, options: Mapping[str, str]) -> None:
    """Writes the changes of an aggregate in one micro-batch exactly once. The ids of query and batch identify the
    transactions.
    """
    query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    assert query is not None, "foreachBatch runs for a query"
    # The query id is a part of the transactional id. A new checkpoint begins with batch 0 again, but its query has a
    # new id.
    own = f"{options[TRANSACTIONAL_ID]}-{query}" if TRANSACTIONAL_ID in options else f"{PREFIX}{query}"
    once = {TRANSACTIONAL_ID: own, "kcli.batch.id": str(batch)}
    frame.write.format("kcli").mode("append").options(**{**options, **once}).save()
