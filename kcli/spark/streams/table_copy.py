"""A copy of a table's topic inside a Python worker, for joins: what a GlobalKTable of Kafka Streams is.

A stream joined with a table needs the table's newest value at each record, and Spark reads a topic that is not itself
a stream only once. So each Python worker keeps the keys and values of the table in its memory, follows the topic up to
its end at the beginning of every task, and looks the keys up. Reading costs what has changed since; the memory is
the size of the table, once for each worker process (one a core). Batches that Spark runs again may see newer values.
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
"""A copy that was not followed for so long is read anew: tombstones are there for a day (delete.retention.ms)."""


@dataclass(slots=True)
class TableCopy:
    """Key to value, in bytes, as of `positions`. A topic that was deleted and made anew has another id."""

    options: SourceOptions
    values: dict[bytes, bytes] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    topic_id: uuid.UUID | None = None
    followed_at: float = 0.0

    def follow(self) -> None:
        """Takes in what was written since the last time, waiting for a broker that is away."""
        now = time.monotonic()
        with Cluster(self.options.client) as cluster:
            (topic,) = self.options.subscription.topics
            # Before the offsets: if the topic is made anew in between, the next time finds another id.
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

    def _read(self, cluster: Cluster, wanted: OffsetRange) -> None:
        if len(wanted):
            for fetched in fetch_range(cluster, wanted, self.options):
                chunks = decode(
                    fetched.table,
                    Depth.VALUE,
                    first_offset=fetched.first_offset,
                    end_offset=wanted.end,
                    aborted=fetched.aborted,
                )
                for columns in chunks:
                    assert columns.keys is not None and columns.values is not None
                    for nth in range(len(columns)):
                        self._put(
                            bytes_at(columns.buffer, columns.keys, nth),
                            bytes_at(columns.buffer, columns.values, nth),
                        )
        self.positions[wanted.part] = wanted.end

    def _put(self, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            return  # a table has no place for it; Kafka Streams skips it, too
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value


_COPIES: dict[tuple[tuple[str, str], ...], TableCopy] = {}
"""The copies of this process; Spark uses a worker again for later tasks."""


def look_up(
    batches: Iterable[pa.RecordBatch], options: Mapping[str, str], keys: str, found: str
) -> Iterator[pa.RecordBatch]:
    """Each batch with a binary column `found`: the table's value for the column `keys`, null where there is none."""
    import pyarrow as pa

    copy = _COPIES.setdefault(tuple(sorted(options.items())), TableCopy(_read_options(options)))
    copy.follow()
    for batch in batches:
        at = [copy.values.get(key) if key is not None else None for key in batch.column(keys).to_pylist()]
        arrays = [*batch.columns, pa.array(at, pa.binary())]
        yield pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, found])


def _read_options(options: Mapping[str, str]) -> SourceOptions:
    """A table's topic is compacted: what is gone from it was replaced by something newer."""
    return replace(source_options(options, streaming=False), fail_on_data_loss=False)
