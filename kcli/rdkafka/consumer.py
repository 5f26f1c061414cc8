"""Makes a librdkafka consumer behave like Java's consumer: the same defaults, the same order of records in a poll, and
the same commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kcli.model.java_order import map_order, partition_hash
from kcli.rdkafka.log import logger
from kcli.rdkafka.objects import Consumer, Message, PartitionOffset, Rebalanced

JAVA_DEFAULTS: dict[str, object] = {
    "allow.auto.create.topics": True,
    "check.crcs": True,
    "enable.auto.offset.store": False,
    "enable.partition.eof": False,
    # Java fetches again as soon as the application polls. By default, librdkafka waits 0.5 s after an error and 1 s
    # after a full queue. Users would notice such pauses, so they are shorter here.
    "fetch.error.backoff.ms": 100,
    "fetch.queue.backoff.ms": 5,
}

# max.poll.records of Java's consumer.
POLL_RECORDS = 500
# The time that records wait for records of slower partitions. If a queue returns no record for this time, it counts as
# empty.
GATHER_S = 0.5
QUIET_S = 0.02
# The time-out of requests for the committed offsets of assigned partitions.
STANDING_TIMEOUT_S = 5.0

# The timestamps that mean the start and the end in a ListOffsets request.
_ENDS = {"earliest": -2, "latest": -1}


def gathered(consumer: Consumer, first: Message) -> list[Message]:
    """Returns the messages that one poll of Java's consumer would return: the messages that were fetched together,
    ordered by partition.

    Java returns partitions in the order of a hash map, so Kafka's tools always print a small topic in the same order.
    librdkafka returns the messages of each partition as soon as it has them.
    """
    assigned = consumer.assignment()
    places = [(place.topic, place.partition) for place in assigned]
    ordered = map_order(places, partition_hash, capacity=len(places))
    topics = list(dict.fromkeys(topic for topic, _ in ordered))
    rank = {place: (topics.index(place[0]), at) for at, place in enumerate(ordered)}
    messages = [first]
    deadline = time.monotonic() + GATHER_S
    all_answered = False
    while len(messages) < POLL_RECORDS and time.monotonic() < deadline:
        more = consumer.consume(POLL_RECORDS - len(messages), QUIET_S)
        if all_answered and not more:
            break
        messages += more
        all_answered = all(consumer.get_watermark_offsets(place, cached=True)[1] >= 0 for place in assigned)
    return sorted(messages, key=lambda message: rank.get((message.topic(), message.partition()), (-1, 0)))


class JavaPositions:
    """Sets the positions of a group in its partitions as Java's consumer does.

    Java's consumer commits its position in every partition, even if it has read no record there. For example, a group
    waits at the end of a partition, stops, and starts again later. Because its position was committed, the group then
    reads the records that were written while it was stopped. librdkafka commits only offsets after records that were
    read.

    The positions of all partitions are set together, so that the first fetch includes all partitions.
    """

    def __init__(
        self,
        config: Mapping[str, object],
        on_assign: Rebalanced | None = None,
        on_placed: Callable[[list[PartitionOffset]], None] | None = None,
    ) -> None:
        self._commits = str(config.get("enable.auto.commit", "true")).lower() == "true"
        self._end = _ENDS.get(str(config.get("auto.offset.reset", "latest")))
        strategy = str(config.get("partition.assignment.strategy", ""))
        self._is_incremental = (
            "cooperative" in strategy or str(config.get("group.protocol", "")).lower() == "consumer"
        )
        self._on_assign = on_assign
        self._on_placed = on_placed

    def assigned(self, consumer: Consumer, partitions: list[PartitionOffset]) -> None:
        """Sets the positions of assigned partitions. librdkafka calls this method."""
        from confluent_kafka import KafkaException

        if self._on_assign is not None:
            self._on_assign(consumer, partitions)
        try:
            placed = consumer.committed(partitions, STANDING_TIMEOUT_S) if partitions else []
            fresh = [place for place in placed if place.offset < 0]
            if fresh and self._end is not None:
                for place in fresh:
                    place.offset = self._end
                fresh = consumer.offsets_for_times(fresh, STANDING_TIMEOUT_S)
            places = list({(place.topic, place.partition): place for place in (*placed, *fresh)}.values())
            if any(place.error is not None or place.offset < 0 for place in places):
                return  # librdkafka then chooses the positions itself
            if self._on_placed is not None:
                self._on_placed(places)
            self.assign(consumer, places)
            if self._commits and fresh:
                consumer.store_offsets(offsets=fresh)
        except KafkaException as error:
            logger().warning("The committed offsets of the group are not known: %s", error.args[0].str())

    def assign(self, consumer: Consumer, places: list[PartitionOffset]) -> None:
        """Lets the consumer read from these places. Without an offset, librdkafka chooses the position."""
        (consumer.incremental_assign if self._is_incremental else consumer.assign)(places)


def is_end(message: Message) -> bool:
    """Returns True if a message is not a record but reports the end of its partition (enable.partition.eof)."""
    error = message.error()
    return error is not None and error.code() == error._PARTITION_EOF


def store_offsets(consumer: Consumer, messages: list[Message]) -> None:
    """Stores the offsets after these messages, for the next commit.

    The messages are records and reports of the end of a partition. Markers of transactions may follow the last record.
    Java's consumer commits the offset after these markers. The report of the end is the only message that contains this
    offset.
    """
    from confluent_kafka import KafkaException, TopicPartition

    last = {(message.topic(), message.partition()): message for message in messages}
    offsets = [
        TopicPartition(topic, partition, _next_offset(message), leader_epoch=_epoch(message))
        for (topic, partition), message in last.items()
    ]
    if not offsets:
        return
    try:
        consumer.store_offsets(offsets=offsets)
    except KafkaException:
        # A partition was revoked while its records were in the queue. Its new owner reads the records again.
        return


def _next_offset(message: Message) -> int:
    return message.offset() if is_end(message) else message.offset() + 1


def _epoch(message: Message) -> int:
    """Returns the leader epoch to commit with an offset. In librdkafka -1 means unknown."""
    epoch = message.leader_epoch()
    return -1 if epoch is None else epoch
