"""Reads topics from a broker's log directories, or from copies of log directories, without the broker.

`LogDirectories` has the same methods as `Cluster`, but finds partitions and offsets in file names, checkpoints and
indexes. `read_range` yields the batches that a fetch would return. As for a consumer, the readable range goes from the
log start offset to the high watermark. With read_committed, the range ends at the last stable offset, and aborted
transactions are skipped.

The high watermark comes from the broker's last checkpoint. The broker writes a checkpoint every 5 s
(replica.high.watermark.checkpoint.interval.ms). In a copy of single partitions, there is no checkpoint. If there is no
checkpoint, or if readUpTo is logEnd, the range ends after the last whole batch.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

import numpy as np

from kcli.errors import CorruptRecordError, KcliError, UnknownTopicOrPartitionException
from kcli.model.java_text import natural
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import EARLIEST, LATEST, READ_COMMITTED
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches import batch_headers
from kcli.protocol.batches.aborted import AbortedTransaction as AbortedInFetch
from kcli.protocol.batches.batch import CONTROL, TRANSACTIONAL
from kcli.protocol.batches.batch_headers import BatchHeaders
from kcli.protocol.batches.columns import Depth, decode
from kcli.runtime.disk import SystemDisk
from kcli.spark.options import SourceOptions
from kcli.spark.source.fetcher import Fetched
from kcli.spark.source.offsets import OffsetRange, data_loss
from kcli.spark.source.segment_files import SegmentFile, list_segments
from kcli.storage.checkpoint import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, read_offsets
from kcli.storage.log.producer_entries import decode_snapshot
from kcli.storage.log.transaction_index import AbortedTransaction

_log = logging.getLogger("kcli.spark")

NOT_USERS = INTERNAL_TOPICS | {CLUSTER_METADATA_TOPIC}
"""Topics that `topic_names` leaves out, because Kafka itself uses them."""

ATTEMPTS = 5
"""The most times that the segments are listed for one read. They are listed again if a segment was deleted before it
could be opened."""


class LogDirectories:
    """The partitions in log directories. A path may be a log directory, or the directory of a single partition."""

    def __init__(self, paths: Iterable[str], *, isolation_level: int, to_log_end: bool) -> None:
        self._paths = tuple(paths)
        self._isolation_level, self._to_log_end = isolation_level, to_log_end
        self._directories: dict[TopicPartition, str] | None = None

    def __enter__(self) -> LogDirectories:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Drops the list of partitions. The next call lists the directories again."""
        self._directories = None

    def topic_names(self) -> list[str]:
        """Returns the names of all topics that are not internal."""
        self._directories = None
        return sorted({part.topic for part in self._found() if part.topic not in NOT_USERS})

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Returns the partitions of `topics`. Raises UnknownTopicOrPartitionException if a topic has no directory."""
        self._directories = None
        names = set(topics)
        parts = sorted(part for part in self._found() if part.topic in names)
        if missing := sorted(names - {part.topic for part in parts}):
            raise UnknownTopicOrPartitionException(f"topic {missing[0]} is not in {', '.join(self._paths)}")
        return parts

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int | None = None
    ) -> dict[TopicPartition, OffsetAt]:
        """Returns the first offset at or after each timestamp, as `Cluster.list_offsets` does."""
        level = self._isolation_level if isolation_level is None else isolation_level
        offsets = {}
        for part, timestamp in timestamps.items():
            partition = self.partition(part)
            if timestamp == EARLIEST:
                offsets[part] = OffsetAt(offset=partition.log_start_offset)
            elif timestamp == LATEST:
                offsets[part] = OffsetAt(offset=partition.end_offset(level))
            else:
                offsets[part] = partition.first_at(timestamp, partition.end_offset(level))
        return offsets

    def partition(self, part: TopicPartition) -> PartitionFiles:
        """Returns the files of a partition.

        Raises UnknownTopicOrPartitionException if the partition has no directory.
        """
        if part not in self._found():
            raise UnknownTopicOrPartitionException(f"{part} is not in {', '.join(self._paths)}")
        return PartitionFiles(part, self._found()[part], to_log_end=self._to_log_end)

    def cut(self, offset_range: OffsetRange) -> list[OffsetRange]:
        """Divides a range at the starts of segments, so that no two tasks read the same file."""
        bases = [segment.base_offset for segment in self.partition(offset_range.part).segments()]
        edges = [
            offset_range.start,
            *(base for base in bases if offset_range.start < base < offset_range.end),
            offset_range.end,
        ]
        return [OffsetRange(offset_range.part, low, high) for low, high in pairwise(edges)]

    def _found(self) -> dict[TopicPartition, str]:
        if self._directories is None:
            self._directories = {}
            for path in self._paths:
                if not os.path.isdir(path):
                    raise KcliError(
                        f"there is no directory {path} on {os.uname().nodename} (every node of Spark needs it)"
                    )
                own = _named(os.path.basename(os.path.abspath(path)))
                if own is not None and list_segments(path):
                    self._directories[own] = path
                    continue
                for name in sorted(os.listdir(path)):
                    part, directory = _named(name), os.path.join(path, name)
                    if part is not None and os.path.isdir(directory):
                        self._directories[part] = directory
        return self._directories


class PartitionFiles:
    """The directory of one partition. Each call reads the present state of the files."""

    def __init__(self, part: TopicPartition, directory: str, *, to_log_end: bool) -> None:
        self.part, self._directory, self._to_log_end = part, directory, to_log_end

    def segments(self) -> list[SegmentFile]:
        """Returns the segments, oldest first. Raises UnknownTopicOrPartitionException if there are none."""
        segments = list_segments(self._directory)
        if not segments:
            raise UnknownTopicOrPartitionException(f"{self._directory} holds no segment of {self.part}")
        return segments

    @property
    def log_start_offset(self) -> int:
        noted = self._checkpoint(LOG_START_OFFSET_FILE)
        return max(self.segments()[0].base_offset, 0 if noted is None else noted)

    def end_offset(self, isolation_level: int) -> int:
        """Returns the high watermark. With read_committed, returns the last stable offset."""
        noted = None if self._to_log_end else self._checkpoint(HIGH_WATERMARK_FILE)
        end = self.log_end_offset() if noted is None else noted
        return self._last_stable_offset(end) if isolation_level == READ_COMMITTED else end

    def log_end_offset(self) -> int:
        """Returns the offset after the last whole batch. In a damaged log, this is the offset at which a broker's
        recovery would truncate the log.
        """
        last = self.segments()[-1]
        end, position = last.base_offset, last.position_of(1 << 62)
        batches = last.batches(position, str(self.part), is_last=True)
        try:
            for _, table in batches:
                end = table.next_offset
        except CorruptRecordError as error:
            sound = self._sound_end(last, position)
            _log.warning("%s ends at offset %d, where recovery would cut it: %s", self.part, sound, error)
            return sound
        return end

    def _sound_end(self, segment: SegmentFile, position: int) -> int:
        """Returns the offset after the last valid batch of a segment in which a corrupt batch follows."""
        end = segment.base_offset
        with open(segment.path, "rb") as file:
            file.seek(position)
            while len(prefix := file.read(12)) == 12:
                body = file.read(max(0, int.from_bytes(prefix[8:], "big", signed=True)))
                try:
                    table = batch_headers.read_headers(prefix + body, str(self.part))
                except CorruptRecordError:
                    break
                if not len(table) or table.headers["base_offset"][0] < end:
                    break
                end = table.next_offset
        return end

    def _last_stable_offset(self, end: int) -> int:
        """Returns the first offset of the oldest transaction that is open at offset `end`.

        Without an open transaction, returns `end`.
        """
        start, open_ = self._newest_snapshot(end)
        for table, _ in self.tables(start, end):
            transactional = table.headers["attributes"] & TRANSACTIONAL != 0
            for header in table.headers[transactional]:
                if header["base_offset"] >= end:
                    break
                if header["attributes"] & CONTROL:
                    open_.pop(int(header["producer_id"]), None)
                else:
                    open_.setdefault(int(header["producer_id"]), int(header["base_offset"]))
        return min(open_.values(), default=end)

    def _newest_snapshot(self, end: int) -> tuple[int, dict[int, int]]:
        """Returns the offset of the newest producer snapshot up to `end`, and for each open transaction in it the
        producer and the first offset.
        """
        names = [name for name in os.listdir(self._directory) if name.endswith(".snapshot")]
        for name in sorted(names, reverse=True):
            offset = natural(name.removesuffix(".snapshot"))
            if offset is None or offset > end:
                continue
            try:
                with open(os.path.join(self._directory, name), "rb") as file:
                    producers = decode_snapshot(file.read(), name)
            except (FileNotFoundError, CorruptRecordError):
                continue  # the snapshot is being deleted or was never finished, so an older one is read
            opened = ((producer.producer_id, producer.current_txn_first_offset) for producer in producers)
            return offset, {producer: first for producer, first in opened if first is not None}
        return self.segments()[0].base_offset, {}

    def first_at(self, timestamp_ms: int, end: int) -> OffsetAt:
        """Finds the first record before offset `end` whose timestamp is at least `timestamp_ms`."""
        segments = self.segments()
        for segment in segments:
            if segment is not segments[-1] and segment.ends_before(timestamp_ms):
                continue
            start = max(segment.offset_before(timestamp_ms), self.log_start_offset)
            for table, _ in self.tables(start, end):
                rows = np.flatnonzero(table.headers["max_timestamp"] >= timestamp_ms)
                if not len(rows):
                    continue
                first = max(start, int(table.headers["base_offset"][rows[0]]))
                for columns in decode(table, Depth.TIMESTAMP, first_offset=first, end_offset=end):
                    assert columns.timestamps is not None
                    late = np.flatnonzero(columns.timestamps >= timestamp_ms)
                    if len(late):
                        offset, timestamp = columns.offsets[late[0]], columns.timestamps[late[0]]
                        return OffsetAt(offset=int(offset), timestamp=int(timestamp))
            return OffsetAt()
        return OffsetAt()

    def tables(
        self, start: int, end: int, lost: Callable[[str], None] | None = None
    ) -> Iterator[tuple[BatchHeaders, int]]:
        """Yields tables of batch headers from offset `start` to `end`. Each table comes with the offset after its last
        batch.

        Before each segment is read, all segments are listed again, because old segments may have been cleaned or
        deleted meanwhile. `lost` is called with a message if records were deleted before they were read.
        """
        position, missed = start, 0
        while position < end:
            segments = self.segments()
            if position < segments[0].base_offset:
                if lost is not None:
                    lost(
                        f"offset {position} of {self.part} is gone: the log begins at {segments[0].base_offset}"
                    )
                position = segments[0].base_offset
            segment = [candidate for candidate in segments if candidate.base_offset <= position][-1]
            began = position
            try:
                for table in self._read(segment, position, end, is_last=segment is segments[-1]):
                    if table.next_offset > position:
                        position = table.next_offset
                        yield table, position
                    if position >= end:
                        return
            except FileNotFoundError:
                # The cleaner or retention has deleted the segment, so the segments are listed again.
                missed += 1
                if missed == ATTEMPTS:
                    raise
                continue
            missed = 0
            # There are no more batches here, because compaction may have removed the last batches.
            if position == began:
                later = [candidate.base_offset for candidate in segments if candidate.base_offset > position]
                if not later:
                    return
                position = later[0]

    def _read(self, segment: SegmentFile, offset: int, end: int, *, is_last: bool) -> Iterator[BatchHeaders]:
        position = segment.position_of(offset)
        for _, table in segment.batches(position, str(self.part), is_last=is_last, end=end):
            yield table

    def aborted(self, offset_range: OffsetRange) -> list[AbortedTransaction]:
        """Returns the aborted transactions that overlap `offset_range`.

        The transaction index of a segment lists the transactions whose abort marker is in this segment.
        """
        return [
            transaction
            for segment in self.segments()
            for transaction in segment.aborted()
            if transaction.last_offset >= offset_range.start and transaction.first_offset < offset_range.end
        ]

    def _checkpoint(self, name: str) -> int | None:
        path = os.path.join(os.path.dirname(os.path.abspath(self._directory)), name)
        return read_offsets(SystemDisk(), path).get(self.part)


def read_range(logs: LogDirectories, offset_range: OffsetRange, options: SourceOptions) -> Iterator[Fetched]:
    """Yields the batches of a range from files, in the same form as `fetcher.fetch_range`."""
    partition = logs.partition(offset_range.part)
    if offset_range.start < (first := partition.log_start_offset):
        said = f"offset {offset_range.start} of {offset_range.part} cannot be read: the log begins at {first}"
        data_loss(options, said)
    aborted = partition.aborted(offset_range) if options.client.isolation_level == READ_COMMITTED else None
    position = max(offset_range.start, first)
    for table, after in partition.tables(
        position, offset_range.end, lambda message: data_loss(options, message)
    ):
        dropped = None
        if aborted is not None:
            dropped = tuple(
                AbortedInFetch(transaction.producer_id, transaction.first_offset)
                for transaction in aborted
                if transaction.last_offset >= position and transaction.first_offset < after
            )
        yield Fetched(table, position, dropped)
        position = after
    last = partition.segments()[-1].base_offset
    # If the missing offsets are before the last segment, no record is lost, because compaction may have removed them.
    if max(position, last) < offset_range.end:
        data_loss(
            options,
            f"{offset_range.part} ends at offset {position}, before the wanted end {offset_range.end}",
        )


def _named(name: str) -> TopicPartition | None:
    """Parses the name of a partition directory, such as `orders-0`.

    Returns None for other names, such as names that end with `-delete`, `-future` or `-stray`.
    """
    topic, dash, number = name.rpartition("-")
    partition = natural(number)
    return TopicPartition(topic, partition) if dash and topic and partition is not None else None
