"""Sends the records of a source task at least once, and stores the offsets of records that are in their topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol

from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.conversion import Outgoing
from kcli.connect.tasks.metrics import TaskMetrics
from kcli.connect.tasks.sources.producing import RecordProducer, delivery_error
from kcli.connect.tasks.sources.submitted import Acknowledgements, Batches, Entries, Submitted, latest_offsets
from kcli.connect.tasks.sources.worker_offsets import store_offsets
from kcli.connect.tasks.spec import TaskSpec
from kcli.connect.tasks.tolerance import Failure, Stage, Stopping, Tolerance
from kcli.connect.tasks.topics import TopicCreation
from kcli.connectors.interface import SourceTask
from kcli.connectors.records import SourceRecord
from kcli.errors import KafkaError
from kcli.formats.connect.errors import ConnectException
from kcli.rdkafka.objects import ClientError, Message

LOG = logging.getLogger("org.apache.kafka.connect.runtime.AbstractWorkerSourceTask")


class Delivery(Protocol):
    """Sends batches of records, and commits their offsets."""

    written: int
    """The number of records that were given to the producer."""

    @property
    def active(self) -> int:
        """The number of records that are not acknowledged yet."""
        ...

    def send(self, records: Sequence[SourceRecord], outgoing: Iterable[Outgoing | None]) -> None:
        """Sends the records of one `poll`. `outgoing` has None for each record that is left out."""
        ...

    def turn(self) -> None:
        """Handles acknowledgements, and commits if it is due. Raises ConnectException if a record was refused."""
        ...

    def finish(self, *, failed: bool) -> None:
        """Commits what may be committed before the task ends."""
        ...


class RecordMetadata:
    """Where a record is, for `commit_record`."""

    __slots__ = ("offset", "partition", "timestamp", "topic")

    def __init__(self, message: Message) -> None:
        self.topic = message.topic()
        self.partition = message.partition()
        self.offset = message.offset()
        self.timestamp = message.timestamp()[1]


def commit_record(task: SourceTask, record: SourceRecord, metadata: RecordMetadata | None) -> None:
    """Calls `commit_record`, whose exceptions do not fail a task."""
    try:
        task.commit_record(record, metadata)
    except Exception:
        LOG.error("Exception thrown while calling task.commitRecord()", exc_info=True)


def commit_task(task: SourceTask) -> None:
    """Calls `commit`, whose exceptions do not fail a task."""
    try:
        task.commit()
    except Exception:
        LOG.error("Exception thrown while calling task.commit()", exc_info=True)


def unrecoverable(error: KafkaError) -> ConnectException:
    """The error of a task whose record was refused."""
    failure = ConnectException("Unrecoverable exception from producer send callback")
    failure.__cause__ = error
    return failure


class AtLeastOnce:
    """Sends records, and stores offsets through the worker from time to time."""

    def __init__(
        self,
        spec: TaskSpec,
        channel: Channel,
        task: SourceTask,
        producer: RecordProducer,
        topics: TopicCreation,
        tolerance: Tolerance,
        metrics: TaskMetrics,
    ) -> None:
        self._spec = spec
        self._name = f"WorkerSourceTask{{id={spec.id}}}"
        self._channel = channel
        self._task = task
        self._producer = producer
        self._topics = topics
        self._tolerance = tolerance
        self._metrics = metrics
        self._error: KafkaError | None = None
        self._due = time.monotonic() + spec.offset_flush_interval_ms / 1000
        # Someone must learn of each record if it can be tolerated, or if the task wants to know.
        self._each = tolerance.tolerates or type(task).commit_record is not SourceTask.commit_record
        self._batches = Batches()
        self._acknowledgements = Acknowledgements()
        self.written = 0
        producer.open(reports_success=self._each)
        self._client = producer.client

    @property
    def active(self) -> int:
        return len(self._client)

    def send(self, records: Sequence[SourceRecord], outgoing: Iterable[Outgoing | None]) -> None:
        if self._each:
            for record, item in zip(records, outgoing, strict=True):
                self._send_followed(record, item)
            return
        written: list[SourceRecord] = []
        topic: str | None = None
        put = self._producer.fast_put(self._failed)
        try:
            for record, item in zip(records, outgoing, strict=True):
                if item is not None:
                    if item[0] != topic:
                        topic = item[0]
                        self._topics.ensure(topic)
                    refusal = put(item)
                    if refusal is not None:
                        LOG.error("%s failed to send record to %s: ", self._name, topic, exc_info=refusal)
                        raise unrecoverable(refusal)
                    written.append(record)
            self._client.poll(0)
        finally:
            self.written += len(written)
            if written:
                self._batches.sent(latest_offsets(self._spec.connector, written))

    def _send_followed(self, record: SourceRecord, item: Outgoing | None) -> None:
        """Sends a record whose acknowledgement is reported."""
        if item is None:
            commit_record(self._task, record, None)
            return
        self._topics.ensure(item.topic)
        submitted = self._acknowledgements.submit(self._spec.connector, record)
        try:
            refusal = self._producer.put(item, partial(self._delivered, record, submitted))
        except Stopping:
            self._acknowledgements.withdraw(submitted)
            raise
        self.written += 1
        if refusal is not None:
            self._refuse(record, submitted, item.topic, refusal)

    def _failed(self, error: ClientError | None, message: Message) -> None:
        if error is not None:
            self._fail(message.topic(), delivery_error(error))

    def _delivered(
        self, record: SourceRecord, submitted: Submitted, error: ClientError | None, message: Message
    ) -> None:
        if error is not None:
            self._refuse(record, submitted, message.topic(), delivery_error(error))
            return
        submitted.acknowledged = True
        commit_record(self._task, record, RecordMetadata(message))

    def _fail(self, topic: str, error: KafkaError) -> None:
        LOG.error("%s failed to send record to %s: ", self._name, topic, exc_info=error)
        if self._error is None:
            self._error = error

    def _refuse(self, record: SourceRecord, submitted: Submitted, topic: str, error: KafkaError) -> None:
        """Handles a record that is not in its topic."""
        if not self._tolerance.tolerates:
            self._fail(topic, error)
            return
        LOG.error("%s failed to send record to %s: ", self._name, topic, exc_info=error)
        class_name = "org.apache.kafka.connect.runtime.WorkerSourceTask"
        self._tolerance.failed(Failure(record, Stage.KAFKA_PRODUCE, class_name, error))
        submitted.acknowledged = True
        commit_record(self._task, record, None)

    def turn(self) -> None:
        self._client.poll(0)
        if self._each:
            self._acknowledgements.release()
        elif not len(self._client) and self._error is None:
            self._batches.all_acknowledged()
        if self._error is not None:
            raise unrecoverable(self._error)
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._spec.offset_flush_interval_ms / 1000
            self._commit()

    def finish(self, *, failed: bool) -> None:
        self._client.flush(self._spec.offset_flush_timeout_ms / 1000)
        self._commit()

    def _commit(self) -> None:
        started = time.monotonic()
        entries = self._committable()
        stored = not entries or self._stored(entries)
        self._metrics.committed(time.monotonic() - started, failed=not stored)
        if stored:
            commit_task(self._task)

    def _committable(self) -> Entries:
        if self._each:
            if self._acknowledgements.pending:
                LOG.debug("%s waits for %d records", self._name, self._acknowledgements.pending)
            return self._acknowledgements.take()
        waiting = len(self._client)
        if waiting:
            waiting = self._client.flush(self._spec.offset_flush_timeout_ms / 1000)
        if self._error is None:
            if not waiting:
                self._batches.all_acknowledged()
            else:
                LOG.warning(
                    "%s There are currently %d messages that are not acknowledged; their offsets are stored later.",
                    self._name,
                    waiting,
                )
        return self._batches.take()

    def _stored(self, entries: Entries) -> bool:
        """Stores offsets through the worker. Returns whether they are stored."""
        try:
            store_offsets(self._channel, entries, self._spec.offset_flush_timeout_ms / 1000)
        except ConnectException:
            LOG.error("%s Failed to commit offsets", self._name, exc_info=True)
            (self._acknowledgements if self._each else self._batches).give_back(entries)
            return False
        return True
