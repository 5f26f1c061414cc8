"""Chooses the topic and the partition of each row, and encodes the rows of each partition."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.columns import Spans
from kcli.protocol.batches.record_starts import Ints
from kcli.spark.client.cluster import Cluster
from kcli.spark.sink.encoder import RecordsArea, encode_records
from kcli.spark.sink.partitioner import partitions_for_keys

MICROSECONDS = 1000
"""The number of microseconds in a millisecond. Spark's timestamps are in microseconds, and Kafka's in milliseconds."""


class Router:
    """Chooses partitions as Kafka's producer does: by the column `partition` or, if it is null, by the key.

    All rows of a batch that have neither partition nor key go to one partition.
    """

    def __init__(self, cluster: Cluster, topic: str | None) -> None:
        self._cluster, self._topic = cluster, topic
        self._counts: dict[str, int] = {}
        self._turn = int.from_bytes(np.random.bytes(4), "little")
        """The number of the present batch. It selects the partition for rows without partition and key. Each task
        begins at a random number."""

    def areas(self, batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, RecordsArea]]:
        """Yields the records areas of each partition. The records of a partition keep the order of the rows."""
        if not batch.num_rows:
            return
        columns = {name: batch.column(name) for name in batch.schema.names}
        keys = _binary(columns["key"]) if "key" in columns else pa.nulls(batch.num_rows, pa.large_binary())
        names, topic_of_row = self._topics(columns.get("topic"), batch.num_rows)
        counts = np.array([self._partition_count(name) for name in names])
        partitions = self._partitions(keys, columns.get("partition"), names, counts, topic_of_row)
        groups = topic_of_row * int(counts.max()) + partitions
        order = np.argsort(groups, kind="stable")
        rows = pa.array(order)
        headers = columns.get("headers")
        encoded = encode_records(
            groups[order],
            keys.take(rows),
            _binary(columns["value"]).take(rows),
            None if headers is None or headers.null_count == len(headers) else headers.take(rows),
            _timestamps(columns["timestamp"].take(rows)) if "timestamp" in columns else None,
        )
        for area in encoded:
            topic, partition = divmod(area.group, int(counts.max()))
            yield TopicPartition(names[topic], partition), area

    def _topics(self, column: pa.Array | None, rows: int) -> tuple[list[str], Ints]:
        """Returns the topics in a batch of rows, and for each row the index of its topic.

        The option `topic` takes precedence over the column.
        """
        if self._topic is not None:
            return [self._topic], np.zeros(rows, np.int64)
        assert column is not None  # check_schema requires the column or the option
        if column.null_count:
            raise ValueError(
                "null topic present in the data. Use the topic option for setting a default topic."
            )
        encoded = column.dictionary_encode()
        return encoded.dictionary.to_pylist(), np.asarray(encoded.indices).astype(np.int64)

    def _partition_count(self, topic: str) -> int:
        if topic not in self._counts:
            self._counts[topic] = len(self._cluster.partitions([topic], create=True))
        return self._counts[topic]

    def _partitions(
        self, keys: pa.Array, column: pa.Array | None, names: list[str], counts: Ints, topic_of_row: Ints
    ) -> Ints:
        self._turn += 1
        partitions = (self._turn % counts)[topic_of_row]
        edges = np.frombuffer(keys.buffers()[1], np.int64)[keys.offset : keys.offset + len(keys) + 1]
        with_key = np.asarray(keys.is_valid())
        if with_key.any():
            spans = Spans(edges[:-1], np.diff(edges))
            text = keys.buffers()[2]
            for topic in range(len(names)):
                hashed = partitions_for_keys(text if text is not None else b"", spans, int(counts[topic]))
                partitions = np.where(with_key & (topic_of_row == topic), hashed, partitions)
        if column is not None:
            numbers = np.asarray(pc.fill_null(column, -1)).astype(np.int64)
            chosen = np.asarray(column.is_valid())
            wrong = np.flatnonzero(chosen & ((numbers < 0) | (numbers >= counts[topic_of_row])))
            if len(wrong):
                row = int(wrong[0])
                topic = int(topic_of_row[row])
                raise ValueError(
                    f"partition {numbers[row]} of topic {names[topic]}: expected 0 to {counts[topic] - 1}"
                )
            partitions = np.where(chosen, numbers, partitions)
        return partitions


def _timestamps(column: pa.Array) -> Ints:
    """Converts Spark's microseconds to milliseconds. A row without a timestamp gets the current time."""
    milliseconds = np.asarray(pc.fill_null(column.cast(pa.int64()), time.time_ns() // 1000)) // MICROSECONDS
    if milliseconds.min(initial=0) < 0:
        raise ValueError(f"timestamp {milliseconds.min()} ms: a record's timestamp cannot be before 1970")
    return milliseconds


def _binary(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.large_string())
    return column.cast(pa.large_binary())
