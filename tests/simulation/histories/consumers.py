"""Consumers with librdkafka: with assigned partitions, and as members of a group. In the history, each poll is an
operation."""

from __future__ import annotations

import contextlib
import random
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from simulation.checks.operations import Operation, Outcome, Polled
from simulation.histories.recorder import PARTITIONS, TOPIC, Recorder

POLL_S = 0.3
RECORDS_MAX = 200
WATERMARK_S = 10.0
READ_AGAIN_S = 30.0
"""The mean time after which a reader begins again at the start. It is a time and not a number of polls, because a
reader that begins again polls more often, and the history of a long run would become too large."""
SESSION_TIMEOUT_MS = 6_000
SOCKET_TIMEOUT_MS = 4_000
# Errors that a cluster with faults may report. The consumer continues after them.
PASSING = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)


class AssignedReader:
    """Reads all partitions from their start. A poll is a part of another operation (a transaction), or a separate
    operation."""

    def __init__(
        self, recorder: Recorder, name: str, rng: random.Random, *, reads_uncommitted: bool = False
    ) -> None:
        self.recorder, self.name, self._rng = recorder, name, rng
        self.reads_uncommitted = reads_uncommitted
        self._session = 0
        self._positions: dict[int, int] = {}
        self._consumer = _consumer(recorder, name, reads_uncommitted=reads_uncommitted)
        self._assign()

    def _assign(self) -> None:
        self._session += 1
        self._positions = dict.fromkeys(range(PARTITIONS), 0)
        self._consumer.assign(
            [TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)]
        )

    def run(self) -> None:
        again_at = self._next_time()
        while not self.recorder.is_stopping:
            operation = self.recorder.begin(self.name, reads_uncommitted=self.reads_uncommitted)
            self.poll(operation)
            operation.outcome = Outcome.COMMITTED
            operation.asked = operation.begun
            operation.ended = time.monotonic()
            if operation.ended >= again_at:
                self._assign()
                again_at = self._next_time()
        self.close()

    def _next_time(self) -> float:
        return time.monotonic() + self._rng.expovariate(1 / READ_AGAIN_S)

    def poll(self, operation: Operation) -> None:
        """Polls once, and adds the records to an operation."""
        messages = self._consumer.consume(RECORDS_MAX, POLL_S)
        for partition, records in _records(self.recorder, self.name, messages).items():
            operation.actions.append(
                Polled(
                    partition, records, self._session, time.monotonic(), self._positions.pop(partition, None)
                )
            )

    def close(self) -> None:
        self._consumer.close()


class GroupReader:
    """A member of a group. The member commits its offsets, and continues at the committed offsets after a rebalance."""

    def __init__(self, recorder: Recorder, name: str, group: str, protocol: str) -> None:
        self.recorder, self.name = recorder, name
        self._session = 0
        self._consumer = _consumer(recorder, group, protocol=protocol)

    def run(self) -> None:
        self._consumer.subscribe(
            [TOPIC], on_assign=self._rebalanced, on_revoke=self._rebalanced, on_lost=self._rebalanced
        )
        while not self.recorder.is_stopping:
            operation = self.recorder.begin(self.name)
            messages = self._consumer.consume(RECORDS_MAX, POLL_S)
            for partition, records in _records(self.recorder, self.name, messages).items():
                operation.actions.append(Polled(partition, records, self._session, time.monotonic()))
            operation.outcome = Outcome.COMMITTED
            operation.asked = operation.begun
            operation.ended = time.monotonic()
            if operation.actions:
                with contextlib.suppress(KafkaException):
                    self._consumer.commit(asynchronous=True)
        self._consumer.close()

    def _rebalanced(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._session += 1


def read_to_end(recorder: Recorder, patience_s: float) -> tuple[Operation, dict[int, int]]:
    """Reads all partitions with read_committed, from their start to their end. Returns the read and the ends.

    Raises AssertionError if a partition cannot be read up to its high watermark within `patience_s`.
    """
    operation = recorder.begin("last reader")
    consumer = _consumer(recorder, "last reader", eof=True)
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    deadline = time.monotonic() + patience_s
    reached: dict[int, int] = {}
    ends: dict[int, int] = {}
    positions: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
    while len(ends) < PARTITIONS:
        assert time.monotonic() < deadline, (
            f"only partitions {sorted(ends)} are read up to the high watermark"
        )
        messages = consumer.consume(RECORDS_MAX, POLL_S)
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                assert partition is not None and offset is not None
                reached[partition] = offset
        for partition, records in _records(recorder, "last reader", messages).items():
            operation.actions.append(
                Polled(partition, records, 0, time.monotonic(), positions.pop(partition, None))
            )
        if not messages or len(reached) == PARTITIONS:
            ends = {each: at for each, at in reached.items() if _high_watermark(consumer, each) == at}
    consumer.close()
    operation.outcome, operation.asked, operation.ended = Outcome.COMMITTED, operation.begun, time.monotonic()
    return operation, ends


def _high_watermark(consumer: Consumer, partition: int) -> int:
    try:
        _, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=WATERMARK_S)
    except KafkaException:
        return -1
    return int(high)


def _consumer(
    recorder: Recorder,
    group: str,
    *,
    reads_uncommitted: bool = False,
    protocol: str = "classic",
    eof: bool = False,
) -> Consumer:
    config: dict[str, object] = {
        "bootstrap.servers": recorder.bootstrap,
        "group.id": group.replace(" ", "-"),
        "isolation.level": "read_uncommitted" if reads_uncommitted else "read_committed",
        "enable.auto.commit": False,
        # An offset that is out of range is a broken promise, so a consumer with assigned partitions reports an error.
        "auto.offset.reset": "earliest" if group.startswith("group") else "error",
        "enable.partition.eof": eof,
        "socket.timeout.ms": SOCKET_TIMEOUT_MS,
        "reconnect.backoff.max.ms": 500,
        "check.crcs": True,
        "group.protocol": protocol,
        "log_level": 0,
    }
    if protocol == "classic":
        config["session.timeout.ms"] = SESSION_TIMEOUT_MS
    return Consumer(config)


def _records(
    recorder: Recorder, name: str, messages: list[Message]
) -> dict[int, tuple[tuple[int, str], ...]]:
    """The records of a poll by partition. An error that no fault explains is added to the problems of the run."""
    found: dict[int, list[tuple[int, str]]] = {}
    for message in messages:
        error = message.error()
        if error is None:
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None and offset is not None and value is not None
            found.setdefault(partition, []).append((offset, value.decode()))
        elif error.code() != KafkaError._PARTITION_EOF and error.code() not in PASSING:
            recorder.problems.append(f"{name}: {error}")
    return {partition: tuple(records) for partition, records in found.items()}
