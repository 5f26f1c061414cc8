"""Reads one record by its topic, partition and offset."""

from __future__ import annotations

from functools import partial

from kcli.cli.syntax.options import CommandError
from kcli.cli.unreachable import explained
from kcli.cli.unreadable_records import UnreadableRecords, refuse_undecodable
from kcli.model.topic_partition import TopicPartition, missing_partition
from kcli.rdkafka import objects
from kcli.rdkafka.client import kafka_error, new_client
from kcli.rdkafka.configuration import translate
from kcli.rdkafka.consumer import JAVA_DEFAULTS, is_end
from kcli.rdkafka.lookup import LOOKUP_TIMEOUT_S, looked_up

POLL_S = 0.2

_NEVER_COMMITTED = "kcli-trace"
"""The group id, because librdkafka requires one. The tool does not join the group and commits nothing."""


def read_record(
    properties: dict[str, str], topic: str, partition: int | None, offset: int
) -> objects.Message:
    """Returns the record at an offset. `partition` may be None if the topic has only one partition.

    Raises CommandError with the reason if there is no such record.
    """
    from confluent_kafka import Consumer, KafkaException

    defaults = {"client.id": "kcli-trace", "group.id": _NEVER_COMMITTED, "enable.auto.commit": "false"}
    properties = {**defaults, **properties, "isolation.level": "read_uncommitted"}
    config = explained(translate(properties), properties, limit_ms=round(LOOKUP_TIMEOUT_S * 1000))
    consumer: objects.Consumer = new_client(
        Consumer, {**JAVA_DEFAULTS, **config, "enable.partition.eof": True, "allow.auto.create.topics": False}
    )
    try:
        chosen = _chosen(consumer, topic, partition)
        return _read(consumer, topic, chosen, offset, UnreadableRecords(config))
    except KafkaException as error:
        raise CommandError(kafka_error(error.args[0]).message) from error
    finally:
        consumer.close()


def _chosen(consumer: objects.Consumer, topic: str, partition: int | None) -> int:
    known = looked_up(consumer, partial(consumer.list_topics, topic)).topics[topic]
    if known.error is not None:
        raise CommandError(f"topic {topic}: {kafka_error(known.error).message}")
    if partition is None:
        if len(known.partitions) > 1:
            raise CommandError(
                f"topic {topic} has {len(known.partitions)} partitions: name one with --partition"
            )
        return min(known.partitions)
    if partition not in known.partitions:
        raise CommandError(missing_partition(TopicPartition(topic, partition), len(known.partitions)))
    return partition


def _read(
    consumer: objects.Consumer, topic: str, partition: int, offset: int, unreadable: UnreadableRecords
) -> objects.Message:
    from confluent_kafka import TopicPartition as ClientPartition

    place = f"{topic}-{partition}"
    ends = partial(consumer.get_watermark_offsets, ClientPartition(topic, partition))
    start, end = looked_up(consumer, ends)
    if offset < start:
        raise CommandError(f"{place} has no record at offset {offset} any more: its first offset is {start}")
    if offset >= end:
        raise CommandError(f"{place} has no record at offset {offset} yet: its end offset is {end}")
    partitions = [ClientPartition(topic, partition, offset)]
    unreadable.begin_at(partitions)
    consumer.assign(partitions)
    left_s = LOOKUP_TIMEOUT_S
    while left_s > 0:
        message = consumer.poll(POLL_S)
        if message is None:
            unreadable.check(consumer)
            left_s -= POLL_S
            continue
        refuse_undecodable(message)
        if (error := message.error()) is not None and not is_end(message):
            raise CommandError(kafka_error(error).message)
        if error is None and message.offset() == offset:
            return message
        raise CommandError(
            f"{place} has no record at offset {offset}: compaction has removed it, or it is a marker of a transaction"
        )
    raise CommandError(f"{place}: no broker returned the record in {LOOKUP_TIMEOUT_S:.0f} s")
