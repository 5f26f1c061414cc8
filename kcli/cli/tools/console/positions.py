"""Finds the start offsets of the console consumer for `--from-time` and `--last`. With these options, no group is
needed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial

from kcli.cli import moment
from kcli.cli.missing_rights import consumer_lacks
from kcli.cli.syntax.options import CommandError, UsageError
from kcli.cli.unreadable_records import UnreadableRecords, refuse_undecodable
from kcli.model.topic_partition import TopicPartition, missing_partition
from kcli.rdkafka.client import kafka_error
from kcli.rdkafka.log import logger
from kcli.rdkafka.lookup import LOOKUP_TIMEOUT_S, looked_up
from kcli.rdkafka.matching_topics import matcher
from kcli.rdkafka.objects import Consumer, PartitionOffset, TopicMetadata

# The most records in one call to librdkafka, and the longest wait for them.
BATCH_RECORDS = 2000
POLL_S = 0.2
# If a search finds too few records because of gaps, the next search covers a range that is larger by this factor.
WIDER = 4


def start_ms(text: str | None) -> int | None:
    """Returns the time of `--from-time` in milliseconds. Raises UsageError if it is invalid."""
    if text is None:
        return None
    try:
        return moment.epoch_ms(text, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise UsageError(f"--from-time: {error}") from None


def starts(
    consumer: Consumer,
    partitions: Iterable[TopicPartition],
    unreadable: UnreadableRecords,
    *,
    from_ms: int | None,
    last: int | None,
) -> list[PartitionOffset]:
    """Returns the partitions with their start offsets.

    If a leader does not answer, its partition is logged and left out.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka import TopicPartition as ClientPartition

    bounds: dict[TopicPartition, tuple[int, int]] = {}
    first_offsets: dict[TopicPartition, int] = {}
    for place in partitions:
        topic, number = place
        try:
            ends = partial(consumer.get_watermark_offsets, ClientPartition(topic, number))
            low, high = looked_up(consumer, ends)
            bounds[place] = (low, high)
            if from_ms is not None:
                searched = [ClientPartition(topic, number, from_ms)]
                at = looked_up(consumer, partial(consumer.offsets_for_times, searched))[0]
                if at.error is not None:
                    raise KafkaException(at.error)
                # If no record is new enough, reading starts at the end that the partition had before this request.
                first_offsets[place] = at.offset if at.offset >= 0 else high
        except KafkaException as error:
            why = kafka_error(error.args[0]).message
            logger().warning("%s-%d is left out: %s", topic, number, why)
    if last is not None:
        first_offsets = _last(consumer, bounds, last, unreadable)
    if not first_offsets:
        raise CommandError("None of the partitions can be read.")
    return [ClientPartition(topic, number, offset) for (topic, number), offset in first_offsets.items()]


def _last(
    consumer: Consumer,
    bounds: Mapping[TopicPartition, tuple[int, int]],
    count: int,
    unreadable: UnreadableRecords,
) -> dict[TopicPartition, int]:
    """Returns the offset in each partition at which its last `count` records begin.

    The records are read, because transaction markers, aborted records and compaction leave gaps in the offsets.
    """
    firsts = {place: high for place, (low, high) in bounds.items() if low >= high}
    begins = {place: max(low, high - count) for place, (low, high) in bounds.items() if place not in firsts}
    while begins:
        ends = {place: bounds[place][1] for place in begins}
        for place, offsets in _offsets(consumer, begins, ends, count, unreadable).items():
            low, high = bounds[place]
            if len(offsets) == count or begins[place] == low:
                firsts[place] = offsets[0] if offsets else high
                del begins[place]
            else:
                begins[place] = max(low, high - (high - begins[place]) * WIDER)
    return {place: firsts[place] for place in bounds}


def _offsets(
    consumer: Consumer,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    count: int,
    unreadable: UnreadableRecords,
) -> dict[TopicPartition, deque[int]]:
    """Returns the offsets of the last `count` records in each range from `begins` to `ends`."""
    from confluent_kafka import KafkaError
    from confluent_kafka import TopicPartition as ClientPartition

    seen = {place: deque[int](maxlen=count) for place in begins}
    left = set(begins)
    assigned = [ClientPartition(topic, number, offset) for (topic, number), offset in begins.items()]
    unreadable.begin_at(assigned)
    consumer.assign(assigned)
    heard = time.monotonic()
    while left:
        first = consumer.poll(POLL_S)
        unreadable.check(consumer)
        messages = [] if first is None else [first, *consumer.consume(BATCH_RECORDS, 0)]
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > LOOKUP_TIMEOUT_S:
            raise CommandError(f"The last records were not read: no answer in {LOOKUP_TIMEOUT_S:g} s")
        for message in messages:
            place, offset = TopicPartition(message.topic(), message.partition()), message.offset()
            if (error := message.error()) is not None:
                refuse_undecodable(message)
                if error.code() == KafkaError._PARTITION_EOF:
                    left.discard(place)
                continue
            if offset < ends[place]:
                seen[place].append(offset)
            if offset >= ends[place] - 1:
                left.discard(place)
    return seen


def partitions_of(
    consumer: Consumer, topic: str | None, include: str | None, partition: int | None = None
) -> list[TopicPartition]:
    """Returns the partitions of a topic, or of all topics that match `include`, or the one `partition` of a topic.

    Raises CommandError if there are none.
    """
    from confluent_kafka import KafkaException

    ask = consumer.list_topics if topic is None else partial(consumer.list_topics, topic)
    try:
        topics = looked_up(consumer, lambda timeout_s: ask(timeout=timeout_s)).topics
    except KafkaException as error:
        raise CommandError(f"The topics cannot be listed: {kafka_error(error.args[0]).message}") from None
    if topic is not None:
        problem = topics[topic].error
        if problem is not None:
            consumer_lacks(problem.code(), topic, None)
            raise CommandError(f"Topic {topic} cannot be read: {kafka_error(problem).message}")
        if partition is not None:
            refuse_missing(TopicPartition(topic, partition), topics[topic])
            return [TopicPartition(topic, partition)]
        partitions = [topic]
    else:
        partitions = sorted(filter(matcher(include or ""), topics))
        if not partitions:
            raise CommandError(f"No topic matches {include}")
    return [TopicPartition(name, number) for name in partitions for number in sorted(topics[name].partitions)]


def refuse_missing(place: TopicPartition, topic: TopicMetadata) -> None:
    """Raises CommandError if the topic exists without this partition."""
    if topic.error is None and place.partition not in topic.partitions:
        raise CommandError(missing_partition(place, len(topic.partitions)))
