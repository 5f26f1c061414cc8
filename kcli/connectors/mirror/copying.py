"""Makes source records of fetched batches: key, value, headers, timestamp and partition stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcli.connectors.interface import Offset, Partition
from kcli.connectors.mirror.fetcher import Fetched
from kcli.connectors.records import Header, SourceRecord
from kcli.errors import CorruptRecordError
from kcli.formats.connect.schema import BYTES_SCHEMA, OPTIONAL_BYTES_SCHEMA
from kcli.model.java_text import parse_int
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, crc_is_valid, iter_batches, read_records


def source_partition(cluster: str, partition: TopicPartition) -> Partition:
    """The source partition in the offsets of the worker. Its fields have the order of Java's map."""
    return {"cluster": cluster, "partition": partition.partition, "topic": partition.topic}


def source_offset(offset: int) -> Offset:
    """The offset of the last record that was copied."""
    return {"offset": offset}


def next_position(stored: Offset | None) -> int | None:
    """The position after the last record that was copied, or None if the partition begins at auto.offset.reset."""
    offset = (stored or {}).get("offset")
    return offset + 1 if isinstance(offset, int) and offset >= 0 else None


def source_records(fetched: Fetched, partition: Partition, topic: str) -> Iterator[SourceRecord]:
    """Yields a record for the remote `topic` for each record of the batches."""
    number = fetched.partition.partition
    for record in _readable(fetched):
        yield SourceRecord(
            partition,
            source_offset(record.offset),
            topic,
            record.value,
            BYTES_SCHEMA,
            record.key,
            OPTIONAL_BYTES_SCHEMA,
            number,
            record.timestamp_ms,
            [Header(key, BYTES_SCHEMA, value) for key, value in record.headers],
        )


def _readable(fetched: Fetched) -> Iterator[Record]:
    """Yields the records from the position on. Leaves out markers and, with read_committed, aborted transactions.

    Raises CorruptRecordError or a KafkaError for invalid batches.
    """
    ahead = sorted(fetched.aborted or (), key=lambda transaction: transaction.first_offset, reverse=True)
    aborting: set[int] = set()
    for at, header in iter_batches(fetched.batches):
        if not crc_is_valid(fetched.batches, at, header):
            raise CorruptRecordError(
                f"{fetched.partition}: the checksum of batch {header.base_offset} is wrong"
            )
        while ahead and ahead[-1].first_offset <= header.last_offset:
            aborting.add(ahead.pop().producer_id)
        if header.is_control:
            # The marker ends the transaction. The next transaction of the producer has an entry of its own.
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            for record in read_records(fetched.batches, at):
                if record.offset >= fetched.offset:
                    yield record


def task_partitions(text: str) -> list[TopicPartition]:
    """Parses `t-0,t-1`. Raises ValueError."""
    partitions = []
    for item in filter(None, text.split(",")):
        topic, _, number = item.rpartition("-")
        partitions.append(TopicPartition(topic, parse_int(number)))
    return partitions


def upstream(record: SourceRecord) -> tuple[TopicPartition, int]:
    """The place of a record in the source cluster."""
    partition: Mapping[str, object] = record.source_partition or {}
    offset = (record.source_offset or {})["offset"]
    number, topic = partition["partition"], partition["topic"]
    assert isinstance(number, int) and isinstance(topic, str) and isinstance(offset, int)
    return TopicPartition(topic, number), offset
