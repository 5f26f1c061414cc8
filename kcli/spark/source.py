"""The data source `kcli`: Spark's Kafka source in Python, for batch and stream, reading and writing.

Everything here runs in Spark's Python workers: `schema` and the planning of partitions on the driver, `read` in the
executors. Readers are pickled, so they hold options and a schema and open their connections where they are used.

    spark.read.format("kcli").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

Spark does not tell a Python source which columns a query uses. Give the ones you need as the schema, in any order,
`.schema("value binary, offset bigint")`, and only those are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kcli.spark.cluster import EARLIEST, LATEST, Cluster
from kcli.spark.offsets import (
    OffsetRange,
    Offsets,
    batch_ranges,
    from_json,
    limited,
    resolve,
    split,
    stream_ranges,
    subscribed,
    to_json,
)
from kcli.spark.options import SourceOptions, sink_options, source_options

if TYPE_CHECKING:
    import pyarrow as pa

    from kcli.spark.sink import BatchWriter, StreamWriter

FIELDS = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
"""The columns of Spark's Kafka source; headers only where includeHeaders asks for them."""


class KcliDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "kcli"

    def schema(self) -> StructType:
        wanted = self.options.get("includeheaders", "false").strip().lower() == "true"
        return StructType([*FIELDS, HEADERS] if wanted else list(FIELDS))

    def reader(self, schema: StructType) -> KcliReader:
        return KcliReader(source_options(self.options, streaming=False), checked_schema(schema))

    def streamReader(self, schema: StructType) -> KcliStreamReader:
        return KcliStreamReader(source_options(self.options, streaming=True), checked_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from kcli.spark.sink import BatchWriter

        if overwrite:
            raise ValueError("a topic cannot be overwritten: use mode('append')")
        return BatchWriter(sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from kcli.spark.sink import StreamWriter

        if overwrite:
            raise ValueError("a topic cannot be overwritten: use outputMode('append') or 'update'")
        return StreamWriter(sink_options(self.options), schema)


class RangePartition(InputPartition):
    """One task's offsets."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)


class KcliReader(DataSourceReader):
    """A batch: offsets are settled once, when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options, self.schema = options, schema

    def partitions(self) -> Sequence[InputPartition]:
        with Cluster(self.options.client) as cluster:
            ranges = batch_ranges(cluster, self.options)
        return [RangePartition(each) for each in split(ranges, self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.schema)


class KcliStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of micro-batches. Offsets live in Spark's checkpoint, never in a consumer group."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options, self.schema = options, schema
        self._cluster: Cluster | None = None
        self._last: Offsets | None = None
        """Where an AvailableNow query ends."""

    def __reduce__(self) -> tuple[Any, ...]:
        return KcliStreamReader, (self.options, self.schema)

    def initialOffset(self) -> dict[str, Any]:
        options, cluster = self.options, self._connected()
        parts = subscribed(cluster, options.subscription)
        late = options.latest_if_no_offset
        return to_json(
            resolve(cluster, parts, options.start, latest_if_no_offset=late, name="startingOffsets")
        )

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._ends()

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        end = self._ends() if self._last is None else self._last
        if isinstance(limit, ReadMaxRows):
            begin = from_json(start)
            new = [part for part in end if part not in begin]
            begin |= self._earliest(new)
            end = limited(begin, end, limit.max_rows)
        return to_json(end)

    def reportLatestOffset(self) -> dict[str, Any]:
        return to_json(self._ends())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, stop = from_json(start), from_json(end)
        earliest = self._earliest([part for part in stop if part not in begin])
        ranges = stream_ranges(begin, stop, earliest, self.options)
        return [RangePartition(each) for each in split(ranges, self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.schema)

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self.options.client)
        return self._cluster

    def _ends(self) -> Offsets:
        cluster = self._connected()
        found = cluster.list_offsets(dict.fromkeys(subscribed(cluster, self.options.subscription), LATEST))
        return {part: each.offset for part, each in found.items()}

    def _earliest(self, parts: list[Any]) -> Offsets:
        if not parts:
            return {}
        found = self._connected().list_offsets(dict.fromkeys(parts, EARLIEST))
        return {part: each.offset for part, each in found.items()}


def read_partition(
    partition: InputPartition, options: SourceOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """In an executor: fetch, decode and hand over one range."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from kcli.spark.arrow import record_batches
    from kcli.spark.fetcher import fetch_range

    wanted = partition.value
    with Cluster(options.client) as cluster:
        fetched = fetch_range(cluster, wanted, options)
        yield from record_batches(fetched, wanted, to_arrow_schema(schema, timezone="UTC"))


def checked_schema(schema: StructType) -> StructType:
    """A schema given by the user may leave columns out and reorder them, and nothing else."""
    full = {field.name: field.dataType for field in (*FIELDS, HEADERS)}
    for field in schema.fields:
        if field.name not in full:
            raise ValueError(f"column {field.name} is not one of {', '.join(full)}")
        if field.dataType != full[field.name]:
            meant, given = full[field.name].simpleString(), field.dataType.simpleString()
            raise ValueError(f"column {field.name} is {meant}, not {given}: cast it in the query")
    return schema
