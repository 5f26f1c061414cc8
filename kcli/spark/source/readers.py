"""The readers of the data source `kcli`: a batch, and a stream of micro-batches.

The driver plans the partitions and the executors call `read`. Spark pickles a reader, so a reader is sent only with its
options and its schema. It opens connections in the process that uses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
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

from kcli.model.request_values import EARLIEST, LATEST
from kcli.model.topic_partition import TopicPartition
from kcli.spark.client.cluster import Cluster
from kcli.spark.options import SourceOptions
from kcli.spark.source.admission import Admission
from kcli.spark.source.offsets import (
    OffsetJson,
    OffsetRange,
    Offsets,
    batch_ranges,
    from_json,
    resolve,
    split,
    stream_ranges,
    subscribed,
    to_json,
)
from kcli.spark.worker_memory import freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa

    from kcli.spark.registry_values import ReadColumns
    from kcli.spark.source.fetcher import Fetched
    from kcli.spark.source.log_directory import LogDirectories

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
"""The column `headers` of Spark's Kafka source. It is added to FIELDS, the other columns, if includeHeaders is true."""

VALUE_ERROR = StructField("valueError", StringType())
"""The column with the reason why a value could not be decoded. Without this column, such a value is an error."""

SAMPLE_BYTES = 256 << 10
"""The number of bytes that are read from a partition to estimate its bytes per offset (for maxBytesPerTrigger)."""


class RangePartition(InputPartition):
    """The offsets that one task reads."""

    def __init__(self, offset_range: OffsetRange) -> None:
        super().__init__(offset_range)


class KcliReader(DataSourceReader):
    """Reads topics as a batch. The offsets are resolved once, when Spark plans the query."""

    def __init__(self, options: SourceOptions, schema: StructType, values: ReadColumns | None = None) -> None:
        self.options, self.schema, self.values = options, schema, values

    def partitions(self) -> Sequence[InputPartition]:
        with opened(self.options) as topics:
            return tasks(topics, batch_ranges(topics, self.options), self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.schema, self.values)


class KcliStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as a stream of micro-batches. The offsets are in Spark's checkpoint, never in a consumer group."""

    def __init__(self, options: SourceOptions, schema: StructType, values: ReadColumns | None = None) -> None:
        self.options, self.schema, self.values = options, schema, values
        self._topics: Cluster | LogDirectories | None = None
        self._admission = Admission(options, self._density)
        self._last: Offsets | None = None
        """The offsets at which a query with the trigger AvailableNow ends."""

    def __reduce__(
        self,
    ) -> tuple[type[KcliStreamReader], tuple[SourceOptions, StructType, ReadColumns | None]]:
        return KcliStreamReader, (self.options, self.schema, self.values)

    def initialOffset(self) -> OffsetJson:
        options, topics = self.options, self._opened()
        parts = subscribed(topics, options.subscription)
        late = options.latest_if_no_offset
        return to_json(
            resolve(topics, parts, options.start, latest_if_no_offset=late, name="startingOffsets")
        )

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._ends()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns one of the limits, because Spark accepts only one limit. `latestOffset` applies all limits."""
        options = self.options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        end = self._ends() if self._last is None else self._last
        if isinstance(limit, ReadAllAvailable):
            return to_json(end)
        begin = from_json(start)
        begin |= self._earliest([part for part in end if part not in begin])
        # A query with the trigger AvailableNow does not wait for more records, because its end is fixed.
        admitted = self._admission.end(begin, end, may_wait=self._last is None)
        return start if admitted is None else to_json(admitted)

    def reportLatestOffset(self) -> OffsetJson:
        return to_json(self._ends())

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        begin, stop = from_json(start), from_json(end)
        earliest = self._earliest([part for part in stop if part not in begin])
        return tasks(self._opened(), stream_ranges(begin, stop, earliest, self.options), self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.schema, self.values)

    def stop(self) -> None:
        if self._topics is not None:
            self._topics.close()
            self._topics = None

    def _opened(self) -> Cluster | LogDirectories:
        if self._topics is None:
            self._topics = opened(self.options)
        return self._topics

    def _ends(self) -> Offsets:
        topics = self._opened()
        offsets = topics.list_offsets(dict.fromkeys(subscribed(topics, self.options.subscription), LATEST))
        return {part: offset.offset for part, offset in offsets.items()}

    def _earliest(self, parts: list[TopicPartition]) -> Offsets:
        if not parts:
            return {}
        offsets = self._opened().list_offsets(dict.fromkeys(parts, EARLIEST))
        return {part: offset.offset for part, offset in offsets.items()}

    def _density(self, offset_range: OffsetRange) -> float:
        from kcli.spark.source.fetcher import bytes_per_offset

        topics, options = self._opened(), self.options
        first = offset_range.start
        if isinstance(topics, Cluster):  # one request is enough for an estimate
            offset_range = OffsetRange(offset_range.part, first, first + 1)
            options = replace(options, client=replace(options.client, max_partition_fetch_bytes=SAMPLE_BYTES))
        return bytes_per_offset(fetched(topics, offset_range, options), first)


def opened(options: SourceOptions) -> Cluster | LogDirectories:
    """Opens the cluster or the log directories that the options name."""
    if not options.log_directories:
        return Cluster(options.client)
    from kcli.spark.source.log_directory import LogDirectories

    level = options.client.isolation_level
    return LogDirectories(options.log_directories, isolation_level=level, to_log_end=options.to_log_end)


def tasks(
    topics: Cluster | LogDirectories, ranges: list[OffsetRange], options: SourceOptions
) -> list[InputPartition]:
    """Divides ranges into tasks.

    The same ranges give the same tasks, so that a repeated batch has the tasks of the first run. Ranges of log
    directories are also divided by the present segments.
    """
    if not isinstance(topics, Cluster):
        ranges = [piece for offset_range in ranges if len(offset_range) for piece in topics.cut(offset_range)]
    freeze_imports()
    return [RangePartition(offset_range) for offset_range in split(ranges, options)]


def fetched(
    topics: Cluster | LogDirectories, offset_range: OffsetRange, options: SourceOptions
) -> Iterator[Fetched]:
    """Yields the batches of a range, not decoded yet."""
    if isinstance(topics, Cluster):
        from kcli.spark.source.fetcher import fetch_range

        return fetch_range(topics, offset_range, options)
    from kcli.spark.source.log_directory import read_range

    return read_range(topics, offset_range, options)


def read_partition(
    partition: InputPartition, options: SourceOptions, schema: StructType, values: ReadColumns | None = None
) -> Iterator[pa.RecordBatch]:
    """Reads and decodes the range of one task. Runs in an executor."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from kcli.spark.source.arrow import record_batches

    offset_range: OffsetRange | None = partition.value
    if offset_range is None:  # Spark adds an empty partition if a batch has no tasks
        return
    with opened(options) as topics:
        batches = fetched(topics, offset_range, options)
        stored = schema if values is None else stored_schema(schema)
        arrow_batches = record_batches(batches, offset_range, to_arrow_schema(stored, timezone="UTC"))
        if options.traces is not None:
            from kcli.spark.traces import polled

            arrow_batches = polled(
                arrow_batches, options.traces, offset_range.part.topic, offset_range.part.partition
            )
        if values is not None:
            from kcli.spark.source.decoded_values import decoded_batches

            typed = to_arrow_schema(schema, timezone="UTC")
            arrow_batches = decoded_batches(arrow_batches, values, typed, offset_range.part)
        yield from arrow_batches
    freeze_imports()


def stored_schema(schema: StructType) -> StructType:
    """Returns the columns from which those of `schema` are decoded."""
    full = {field.name: field for field in (*FIELDS, HEADERS)}
    names = dict.fromkeys([*schema.names, "value", "offset", "headers"])
    return StructType([full[name] for name in names if name in full])


def checked_schema(schema: StructType, values: ReadColumns | None = None) -> StructType:
    """Checks the schema that the user has given. The schema may omit and reorder columns.

    Raises ValueError for an unknown column, or for a column with another type.
    """
    full = {field.name: field.dataType for field in (*FIELDS, HEADERS)}
    if values is not None:
        full |= {field.name: field.dataType for field in (values.field, VALUE_ERROR)}
    for field in schema.fields:
        if field.name not in full:
            raise ValueError(f"column {field.name} is not one of {', '.join(full)}")
        if field.dataType != full[field.name]:
            expected, declared = full[field.name].simpleString(), field.dataType.simpleString()
            raise ValueError(f"column {field.name} is {expected}, not {declared}: cast it in the query")
    return schema
