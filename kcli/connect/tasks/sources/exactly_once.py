"""Sends the records of a source task in transactions, together with their offsets (KIP-618)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.conversion import NO_PARTITION, Outgoing
from kcli.connect.tasks.metrics import Sizes, TaskMetrics
from kcli.connect.tasks.sources.at_least_once import RecordMetadata, commit_record, commit_task, unrecoverable
from kcli.connect.tasks.sources.producing import RecordProducer, delivery_error
from kcli.connect.tasks.sources.submitted import Entries, latest_offsets
from kcli.connect.tasks.sources.worker_offsets import request_bodies
from kcli.connect.tasks.spec import SourceSpec, TaskSpec
from kcli.connect.tasks.topics import TopicCreation
from kcli.connectors.interface import SourceTask
from kcli.connectors.records import SourceRecord
from kcli.errors import KafkaError
from kcli.formats.connect.errors import ConnectException
from kcli.rdkafka.client import client_errors
from kcli.rdkafka.delivery import is_purged
from kcli.rdkafka.objects import ClientError, Message

LOG = logging.getLogger("org.apache.kafka.connect.runtime.ExactlyOnceWorkerSourceTask")

INIT_TIMEOUT_S = 60.0
"""The longest wait for the transactions of an earlier producer with the same transactional id."""


class Boundaries:
    """The requests of a task to end transactions (transaction.boundary=connector). A task's `TransactionContext`."""

    def __init__(self) -> None:
        self.commits_batch = False
        self.aborts_batch = False
        self._commits: dict[int, SourceRecord] = {}
        self._aborts: dict[int, SourceRecord] = {}

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        if record is None:
            self.commits_batch = True
        else:
            self._commits[id(record)] = record

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        if record is None:
            self.aborts_batch = True
        else:
            self._aborts[id(record)] = record

    def aborts_after(self, record: SourceRecord) -> bool:
        """Whether the task wants to abort after this record. An abort takes precedence over a commit."""
        if self._aborts.pop(id(record), None) is None:
            return False
        self._commits.pop(id(record), None)
        return True

    def commits_after(self, record: SourceRecord) -> bool:
        return self._commits.pop(id(record), None) is not None


class ExactlyOnce:
    """Sends records in transactions. The offsets of records are records of the same transaction."""

    def __init__(
        self,
        spec: TaskSpec,
        channel: Channel,
        task: SourceTask,
        producer: RecordProducer,
        topics: TopicCreation,
        metrics: TaskMetrics,
    ) -> None:
        assert spec.source is not None and spec.source.transaction_boundary is not None
        self._spec = spec
        self._source: SourceSpec = spec.source
        self._name = f"ExactlyOnceWorkerSourceTask{{id={spec.id}}}"
        self._channel = channel
        self._task = task
        self._producer = producer
        self._topics = topics
        self._metrics = metrics
        self._follows = type(task).commit_record is not SourceTask.commit_record
        self._offsets: Entries = {}
        self._is_open = False
        self._records_in_transaction = 0
        self._sent: list[tuple[SourceRecord, RecordMetadata | None]] = []
        self._error: KafkaError | None = None
        self._due = time.monotonic() + self._source.transaction_interval_ms / 1000
        self.boundaries = Boundaries() if self._source.transaction_boundary == "connector" else None
        self.transaction_sizes = Sizes()
        self.written = 0
        producer.open(reports_success=self._follows)
        self._client = producer.client

    @property
    def active(self) -> int:
        return len(self._client)

    def initialize(self) -> None:
        """Fences an earlier producer of this task, and asks the worker whether the task is still current.

        Raises ConnectException.
        """
        self._call(lambda: cast("Callable[[float], None]", self._client.init_transactions)(INIT_TIMEOUT_S))
        if not self._channel.ask("may_start"):
            raise ConnectException(
                f"Cannot start source task {self._spec.id} with exactly-once support, because its connector has a "
                "newer set of task configurations, or another worker runs the task"
            )

    def send(self, records: Sequence[SourceRecord], outgoing: Iterable[Outgoing | None]) -> None:
        if self.boundaries is None:
            self._send_all(records, outgoing)
        else:
            for record, item in zip(records, outgoing, strict=True):
                self._send_all((record,), (item,))
                if self.boundaries.aborts_after(record):
                    self._abort("record")
                elif self.boundaries.commits_after(record):
                    self._commit()
        self._end_batch()

    def _send_all(self, records: Sequence[SourceRecord], outgoing: Iterable[Outgoing | None]) -> None:
        written: list[SourceRecord] = []
        try:
            for record, item in zip(records, outgoing, strict=True):
                if item is not None:
                    self._write(record, item)
                    written.append(record)
                elif self._follows:
                    self._sent.append((record, None))
        finally:
            # A task that is stopped in the middle commits the records that it has written, with their offsets.
            if written:
                self.written += len(written)
                self._records_in_transaction += len(written)
                self._offsets |= latest_offsets(self._spec.connector, written)
        self._client.poll(0)

    def _write(self, record: SourceRecord, item: Outgoing) -> None:
        if item.topic == self._source.offsets_topic:
            raise ConnectException(
                "Source tasks may not produce to their own offsets topics when exactly-once support is enabled"
            )
        self._topics.ensure(item.topic)
        self._begin()
        refusal = self._producer.put(item, self._callback(record))
        if refusal is not None:
            # Else the offset of a later record would be committed, and no restart would read this one again.
            self._fail(item.topic, refusal)
            raise unrecoverable(refusal)

    def _callback(self, record: SourceRecord) -> Callable[[ClientError | None, Message], None]:
        if not self._follows:
            return self._failed

        def delivered(error: ClientError | None, message: Message) -> None:
            if error is not None:
                self._failed(error, message)
            else:
                self._sent.append((record, RecordMetadata(message)))

        return delivered

    def _failed(self, error: ClientError | None, message: Message) -> None:
        if error is not None and not is_purged(error):
            self._fail(message.topic(), delivery_error(error))

    def _fail(self, topic: str, error: KafkaError) -> None:
        LOG.error("%s failed to send record to %s: ", self._name, topic, exc_info=error)
        if self._error is None:
            self._error = error

    def _end_batch(self) -> None:
        """Ends the transaction at the end of a `poll`, if its boundary says so."""
        if self.boundaries is not None:
            self._end_by_request()
        elif self._source.transaction_boundary == "poll":
            self._commit()

    def _end_by_request(self) -> bool:
        boundaries = self.boundaries
        assert boundaries is not None
        if boundaries.aborts_batch:
            boundaries.aborts_batch = boundaries.commits_batch = False
            self._abort("batch")
            return True
        if boundaries.commits_batch:
            boundaries.commits_batch = False
            self._commit()
            return True
        return False

    def turn(self) -> None:
        self._client.poll(0)
        if self._error is not None:
            raise unrecoverable(self._error)
        if self._source.transaction_boundary == "interval" and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._source.transaction_interval_ms / 1000
            self._commit()

    def finish(self, *, failed: bool) -> None:
        if failed:
            LOG.debug("%s skips the final commit, because the task has failed", self._name)
        elif self.boundaries is None:
            self._commit()
        else:
            self._end_by_request()
        if self._is_open:
            self._is_open = False
            self._call(self._client.abort_transaction)

    def _begin(self) -> None:
        if not self._is_open:
            self._call(self._client.begin_transaction)
            self._is_open = True

    def _commit(self) -> None:
        started = time.monotonic()
        if self._is_open or self._offsets:
            self._commit_transaction()
        for record, metadata in self._sent:
            commit_record(self._task, record, metadata)
        self._sent.clear()
        self._metrics.committed(time.monotonic() - started, failed=False)
        commit_task(self._task)

    def _commit_transaction(self) -> None:
        started = time.monotonic()
        text = f"Failed to flush offsets and/or records for task {self._spec.id}"
        try:
            if self._error is not None:
                raise self._error
            # After an abort, the offsets of the discarded records need a transaction of their own.
            self._begin()
            for key, value in self._offsets.items():
                record = Outgoing(self._source.offsets_topic, value, key, NO_PARTITION, 0, None)
                refusal = self._producer.put(record, self._failed)
                if refusal is not None:
                    raise refusal
            self._call(self._client.commit_transaction)
        except (ConnectException, KafkaError) as error:
            self._metrics.committed(time.monotonic() - started, failed=True)
            raise ConnectException(text) from (self._error or error)
        self._is_open = False
        self.transaction_sizes.add(self._records_in_transaction)
        self._records_in_transaction = 0
        for pairs in request_bodies(self._offsets):
            self._channel.note("offsets_committed", pairs)
        self._offsets = {}

    def _abort(self, what: str) -> None:
        """Discards the records of the transaction. Their offsets are committed, so that they are not read again."""
        LOG.info("%s Aborting transaction for %s as requested by connector", self._name, what)
        if self._is_open:
            self._is_open = False
            self._call(self._client.abort_transaction)
        self._records_in_transaction = 0
        self._sent.clear()
        self._commit()

    def _call(self, step: Callable[[], object]) -> None:
        """Runs a step of a transaction. Raises the KafkaError of librdkafka."""
        from confluent_kafka import KafkaException

        try:
            step()
        except (KafkaException, SystemError) as raised:
            error = next(client_errors(raised), None)
            if error is None:
                raise
            raise delivery_error(error) from None
