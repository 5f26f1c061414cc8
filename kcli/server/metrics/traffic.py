"""Counts of the traffic of topics, as plain integers. Produce and fetch add to the counts. All other code only reads
them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from kcli.errors import ErrorCode

# Errors that clients cause, or that end without help. Kafka's "failed" meters count only failures of the broker, so
# they leave these errors out.
_EXPECTED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
    }
)


@dataclass(slots=True)
class Traffic:
    """The traffic of one topic on this broker since the start of the broker. A request counts once for each of its
    partitions, as in Kafka."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    reassignment_bytes_in: int = 0
    bytes_rejected: int = 0
    produces: int = 0
    fetches: int = 0
    failed_produces: int = 0
    failed_fetches: int = 0
    corrupt_batches: int = 0
    isr_expands: int = 0
    isr_shrinks: int = 0
    failed_isr_updates: int = 0

    def add(self, other: Traffic) -> None:
        for name in NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


NAMES = tuple(field.name for field in fields(Traffic))


class TrafficTable:
    """The traffic of every topic. Only existing topics get an entry, because a client can send any number of other
    names."""

    def __init__(self) -> None:
        self.topics: dict[str, Traffic] = {}
        # The traffic of deleted and of unknown topics, which is part of the total.
        self._elsewhere = Traffic()

    def of(self, topic: str) -> Traffic:
        """Returns the counts of an existing topic."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = Traffic()
        return found

    def forget(self, topic: str) -> None:
        """Removes a deleted topic. Its counts stay in the total."""
        gone = self.topics.pop(topic, None)
        if gone is not None:
            self._elsewhere.add(gone)

    def total(self) -> Traffic:
        total = Traffic()
        total.add(self._elsewhere)
        for traffic in self.topics.values():
            total.add(traffic)
        return total

    def produce_failed(self, topic: str, code: ErrorCode, size_bytes: int) -> None:
        """Counts a refused batch of `size_bytes` bytes."""
        traffic = self.topics.get(topic, self._elsewhere)
        if code is ErrorCode.CORRUPT_MESSAGE:
            traffic.corrupt_batches += 1
        elif code is ErrorCode.MESSAGE_TOO_LARGE:
            traffic.bytes_rejected += size_bytes
        if code not in _EXPECTED:
            traffic.failed_produces += 1

    def fetch_failed(self, topic: str, code: ErrorCode) -> None:
        if code not in _EXPECTED:
            self.topics.get(topic, self._elsewhere).failed_fetches += 1
