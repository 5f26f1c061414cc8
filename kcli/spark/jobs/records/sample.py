"""Infers the columns of topics from their first records, which the driver reads before Spark plans the query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kcli.spark.jobs.records.json_schema import inferred
from kcli.spark.jobs.shared.endpoints import opened_topics
from kcli.spark.options import source_options
from kcli.spark.source.offsets import OffsetRange, resolve, subscribed

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SAMPLE_RECORDS = 1000
"""The number of records that are read from each partition to infer a JSON schema."""

SAMPLE_BYTES = 16 << 20
"""The most bytes of values that are read from each partition, because records may be large."""

SAMPLE_FETCH_BYTES = 1 << 20
"""The size of a fetch. A sample is small, and the broker sends a larger batch whole."""

_POSITIONS = frozenset(
    {
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingOffsets",
        "endingTimestamp",
        "maxOffsetsPerTrigger",
        "minPartitions",
    }
)
"""The options that select the range to read. The columns are always inferred from the first records of the log."""


def inferred_columns(reading: Mapping[str, str]) -> StructType:
    """Returns the columns of the JSON values in topics. `reading` are the options of the source.

    Raises JobError if there is no JSON object in the first records.
    """
    return inferred(sample(reading))


def sample(reading: Mapping[str, str]) -> Iterator[bytes]:
    """Yields the values of the first records of each partition: at most SAMPLE_RECORDS, with SAMPLE_BYTES."""
    import pyarrow as pa

    from kcli.spark.source.arrow import record_batches
    from kcli.spark.source.readers import fetched

    settings = {name: value for name, value in reading.items() if name not in _POSITIONS}
    # The records may be deleted while they are read, and the sample needs no particular records.
    settings |= {"failOnDataLoss": "false", "kafka.max.partition.fetch.bytes": str(SAMPLE_FETCH_BYTES)}
    options = source_options(settings, streaming=False)
    with opened_topics(options) as topics:
        parts = subscribed(topics, options.subscription)
        starts = resolve(topics, parts, options.start, latest_if_no_offset=True, name="startingOffsets")
        ends = resolve(topics, parts, options.end, latest_if_no_offset=True, name="endingOffsets")
        for part in parts:
            records, size = 0, 0
            whole = OffsetRange(part, starts[part], ends[part])
            batches = record_batches(
                fetched(topics, whole, options), whole, pa.schema([("value", pa.binary())])
            )
            for batch in batches:
                for value in batch.column(0).slice(0, SAMPLE_RECORDS - records).to_pylist():
                    records, size = records + 1, size + len(value or b"")
                    if value is not None:
                        yield value
                if records >= SAMPLE_RECORDS or size >= SAMPLE_BYTES:
                    break
