"""Where the console consumer starts with `--from-time` and `--last`: an offset for each partition, without a group."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any

from kcli.cli import moment, rdkafka
from kcli.cli.options import CommandError, UsageError
from kcli.cli.output import warn

# How long the cluster may take to tell what there is.
LOOKUP_TIMEOUT_S = 30.0
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def start_ms(text: str | None) -> int | None:
    """The moment of `--from-time`. Raises UsageError."""
    if text is None:
        return None
    try:
        return moment.epoch_ms(text, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise UsageError(f"--from-time: {error}") from None


def starts(
    consumer: Any, partitions: Iterable[tuple[str, int]], *, from_ms: int | None, last: int | None
) -> list[Any]:
    """The partitions with the offset to start at. One that cannot be asked is told and left out."""
    from confluent_kafka import KafkaException, TopicPartition

    found = []
    for topic, number in partitions:
        partition = TopicPartition(topic, number)
        try:
            low, high = consumer.get_watermark_offsets(partition, LOOKUP_TIMEOUT_S)
            if from_ms is not None:
                at = consumer.offsets_for_times([TopicPartition(topic, number, from_ms)], LOOKUP_TIMEOUT_S)[0]
                if at.error is not None:
                    raise KafkaException(at.error)
                # Without a record so late: from the end, as it was before the question.
                partition.offset = at.offset if at.offset >= 0 else high
            else:
                assert last is not None
                partition.offset = max(low, high - last)
        except KafkaException as error:
            warn(f"WARN {topic}-{number} is left out: {rdkafka.kafka_error(error.args[0]).message}")
            continue
        found.append(partition)
    if not found:
        raise CommandError("None of the partitions can be read.")
    return found


def partitions_of(consumer: Any, topic: str | None, pattern: str) -> list[tuple[str, int]]:
    """The partitions there are of a topic, or of all whose names match. Raises CommandError."""
    from confluent_kafka import KafkaException

    try:
        topics = (
            consumer.list_topics(topic, LOOKUP_TIMEOUT_S)
            if topic
            else consumer.list_topics(timeout=LOOKUP_TIMEOUT_S)
        ).topics
    except KafkaException as error:
        raise CommandError(
            f"The topics cannot be listed: {rdkafka.kafka_error(error.args[0]).message}"
        ) from None
    if topic is not None:
        problem = topics[topic].error
        if problem is not None:
            raise CommandError(f"Topic {topic} cannot be read: {rdkafka.kafka_error(problem).message}")
        wanted = [topic]
    else:
        matches = re.compile(pattern).fullmatch
        wanted = sorted(name for name in topics if name not in INTERNAL and matches(name))
        if not wanted:
            raise CommandError(f"No topic matches {pattern}")
    return [(name, number) for name in wanted for number in sorted(topics[name].partitions)]
