"""Keeps a copy of a table's topic in a Python worker, for joins, like a GlobalKTable of Kafka Streams.

A join of a stream with a table needs the table's newest value for each record. If a query read the table's topic as a
batch, Spark would read the topic only once, and would not see later changes. So each Python worker keeps the keys and
values of the table in memory. At the start of every task, the worker first reads the changes since its last task, and
then looks up the keys. Each core has a worker process with its own copy of the table, so the memory must be enough for
all copies. If Spark repeats a micro-batch, the repetition may see newer values of the table.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kcli.model.request_values import EARLIEST, LATEST
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.columns import Depth, bytes_at, decode
from kcli.spark.client.cluster import Cluster
from kcli.spark.options import SourceOptions, source_options
from kcli.spark.source.fetcher import fetch_range
from kcli.spark.source.offsets import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa


TOMBSTONE_SECONDS = 12 * 3600.0
"""If a copy was not updated for this time, the worker reads the topic again from the start.

Brokers keep tombstones for a day (delete.retention.ms), so an older copy could have missed a tombstone.
"""


@dataclass(slots=True)
class TableCopy:
    """The values of a table by key. The copy contains all changes before the offsets in `positions`.

    If the topic is deleted and created again, `topic_id` changes.
    """

    options: SourceOptions
    values: dict[bytes, bytes] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    topic_id: uuid.UUID | None = None
    followed_at: float = 0.0

    def follow(self) -> None:
        """Reads the records that were written since the last call. Waits if a broker is unavailable."""
        now = time.monotonic()
        with Cluster(self.options.client) as cluster:
            (topic,) = self.options.subscription.topics
            # The id is read before the offsets. If the topic is created again between these two requests, the next call
            # notices the new id.
            topic_id = cluster.topic_id(topic)
            parts = cluster.partitions([topic])
            starts = cluster.list_offsets(dict.fromkeys(parts, EARLIEST))
            ends = cluster.list_offsets(dict.fromkeys(parts, LATEST))
            is_another = topic_id != self.topic_id or any(
                self.positions.get(part, 0) > ends[part].offset for part in parts
            )
            if is_another or now - self.followed_at > TOMBSTONE_SECONDS:
                self.values.clear()
                self.positions.clear()
                self.topic_id = topic_id
            for part in parts:
                start = max(self.positions.get(part, 0), starts[part].offset)
                self._read(cluster, OffsetRange(part, start, ends[part].offset))
        self.followed_at = now

    def _read(self, cluster: Cluster, offset_range: OffsetRange) -> None:
        if len(offset_range):
            for fetched in fetch_range(cluster, offset_range, self.options):
                chunks = decode(
                    fetched.table,
                    Depth.VALUE,
                    first_offset=fetched.first_offset,
                    end_offset=offset_range.end,
                    aborted=fetched.aborted,
                )
                for columns in chunks:
                    assert columns.keys is not None and columns.values is not None
                    for nth in range(len(columns)):
                        self._put(
                            bytes_at(columns.buffer, columns.keys, nth),
                            bytes_at(columns.buffer, columns.values, nth),
                        )
        self.positions[offset_range.part] = offset_range.end

    def _put(self, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            return  # a table ignores records without a key, as in Kafka Streams
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value


_COPIES: dict[tuple[tuple[str, str], ...], TableCopy] = {}
"""The table copies of this process, by the options of the source. They are kept because Spark reuses a worker process
for later tasks."""


def look_up(
    batches: Iterable[pa.RecordBatch], options: Mapping[str, str], keys: str, column: str
) -> Iterator[pa.RecordBatch]:
    """Adds the binary column `column` to each batch. It contains the value that the table has for the key in the column
    `keys`, or null.
    """
    import pyarrow as pa

    copy = _COPIES.setdefault(tuple(sorted(options.items())), TableCopy(_read_options(options)))
    copy.follow()
    for batch in batches:
        at = [copy.values.get(key) if key is not None else None for key in batch.column(keys).to_pylist()]
        arrays = [*batch.columns, pa.array(at, pa.binary())]
        yield pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, column])


def _read_options(options: Mapping[str, str]) -> SourceOptions:
    """Reads the options of the source, with failOnDataLoss off, because compaction leaves gaps in the offsets."""
    return replace(source_options(options, streaming=False), fail_on_data_loss=False)
