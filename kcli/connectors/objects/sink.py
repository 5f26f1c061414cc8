"""The sink of objects: each task writes the records of its partitions to objects of a store."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from kcli.config.definition import ConfigError
from kcli.connectors.interface import Config, Offsets, SinkConnector, SinkTask
from kcli.connectors.objects.formats import format_named
from kcli.connectors.objects.sink_keys import SINK_KEYS, SinkSettings, partitioner_errors
from kcli.connectors.objects.store_keys import FORMAT, open_store, store_errors
from kcli.connectors.objects.writing import PartitionWriter
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.errors import ConnectException
from kcli.model.topic_partition import TopicPartition

_log = logging.getLogger("kcli.connectors.objects")
_BACKOFF_MS_MAX = 10_000


class ObjectSinkTask(SinkTask):
    """Writes records to objects. Only offsets of stored records are committed."""

    java_class = "io.confluent.connect.s3.S3SinkTask"

    def start(self, config: Config) -> None:
        self._settings = SinkSettings.of(config)
        self._store = open_store(SINK_KEYS.parse(config))
        self._writers: dict[TopicPartition, PartitionWriter] = {}
        self._failures = 0

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._writers[partition] = PartitionWriter(self._settings, self._store, self._stored)

    def put(self, records: Sequence[SinkRecord]) -> None:
        now_ms = time.time_ns() // 1_000_000
        try:
            for record in records:
                self._writer(record).add(record, now_ms, self._report)
            for writer in self._writers.values():
                writer.end_batch(now_ms)
        except OSError as error:  # including the errors of s3fs
            self._read_again(records, error)

    def pre_commit(self, offsets: Offsets) -> Offsets:
        stored = {partition: self._writers[partition].stored_offset for partition in self._writers}
        return {partition: offset for partition, offset in stored.items() if offset is not None}

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            writer = self._writers.pop(partition, None)
            if writer is not None:
                writer.discard()

    def stop(self) -> None:
        self.close(list(getattr(self, "_writers", ())))

    def _writer(self, record: SinkRecord) -> PartitionWriter:
        return self._writers[_partition(record)]

    def _stored(self) -> None:
        self._failures = 0

    def _report(self, record: SinkRecord, error: Exception) -> None:
        reporter = self.context.errant_record_reporter
        if reporter is None:
            raise error
        reporter.report(record, error)

    def _read_again(self, records: Sequence[SinkRecord], error: OSError) -> None:
        """Discards all open objects, and reads their records again after a pause."""
        self._failures += 1
        # A partition whose first records are in this batch has no stored offset yet.
        offsets = {_partition(record): record.origin[2] for record in reversed(records)}
        for partition, writer in self._writers.items():
            if (offset := writer.discard()) is not None:
                offsets[partition] = offset
        if self._failures > self._settings.retries:
            raise ConnectException(f"The store failed {self._failures} times: {error}") from error
        pause_ms = min(self._settings.backoff_ms * 2 ** (self._failures - 1), _BACKOFF_MS_MAX)
        _log.warning("The store has failed, and the records are written again in %d ms: %s", pause_ms, error)
        self.context.offset(offsets)
        time.sleep(pause_ms / 1000)


def _partition(record: SinkRecord) -> TopicPartition:
    """The partition before transformations, whose offsets the worker commits."""
    return TopicPartition(*record.origin[:2])


class ObjectSinkConnector(SinkConnector):
    """Writes the records of topics to files or to an object store."""

    java_class = "io.confluent.connect.s3.S3SinkConnector"
    config_def = SINK_KEYS
    task_class = ObjectSinkTask

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        try:
            values = SINK_KEYS.parse(config)
        except ConfigError:
            return {}
        return partitioner_errors(values) | store_errors(values, format_named(str(values[FORMAT])))

    def alter_offsets(self, config: Config, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """The offsets are only in Kafka. Objects with other first offsets remain."""
        return True
