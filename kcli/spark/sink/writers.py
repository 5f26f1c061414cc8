"""The sink `kcli`: the executors write rows with the columns key, value, headers, topic, partition and timestamp.

Streams are exactly-once by default. Spark repeats failed tasks, and repeats a whole micro-batch after a crash. So each
task writes in a transaction that also contains a note with the batch id. The driver commits the transactions of a batch
when all its tasks are done:

* A task first fences every earlier attempt of the same task. This is possible because all attempts have the same
  transactional id (the query and the task's number). Then the task reads its note. If the note has the id of this
  batch, the rows are committed already, and the task writes nothing.
* Tasks never commit. So a failed batch leaves nothing visible, and the next attempt may divide the rows into other
  tasks.
* The driver commits the first task's transaction before the transactions of the other tasks. After this first commit,
  the batch must be completed. The driver itself stores the first task's note, because this note contains the number of
  tasks. The other commits take milliseconds. If the driver dies before all commits, Spark repeats the batch: committed
  tasks are skipped, and the other tasks write again. The result is correct only if the rows are divided into tasks as
  before. So a different number of tasks is refused, unless all earlier tasks are committed.
* The driver commits with the epochs of the attempts that wrote. If an old driver still runs, its commit of the first
  task's transaction fails. So an old driver cannot commit in place of a newer attempt.

Without transactions a task has an idempotent producer, so its own retries write no duplicates. But if Spark repeats a
task or micro-batch, the rows are written again, as with Spark's own Kafka sink.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from kcli.errors import KcliError
from kcli.model.topic_names import GROUP_METADATA_TOPIC
from kcli.spark.client.cluster import Cluster
from kcli.spark.micro_batch import BATCH_ID, QUERY_ID
from kcli.spark.options import SINK_COLUMNS, SinkOptions
from kcli.spark.sink import transaction
from kcli.spark.sink.transaction import Note, Transaction
from kcli.spark.worker_memory import freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa


PREFIX = "kcli-"
"""The prefix of generated transactional ids, so that one ACL covers all of them."""


class BatchChangedError(KcliError):
    """Raised if Spark repeats a partly committed batch with different tasks."""


class BatchTooLongError(KcliError):
    """Raised if writing a batch took longer than the time-out of its transactions."""


@dataclass(frozen=True, slots=True)
class Work:
    """A batch that the tasks of a query write. `name` is the prefix of the transactional ids.

    If `batch` is None, the batch is never repeated.
    """

    name: str
    query: str
    batch: int | None

    def id_of(self, task: int) -> str:
        """Returns the transactional id of a task. All attempts of the task have the same id."""
        return f"{self.name}-{task}"

    @property
    def note(self) -> Note | None:
        """The note for the transaction of a task, or None if the batch is never repeated."""
        return None if self.batch is None else Note(self.query, self.batch)


@dataclass
class Written(WriterCommitMessage):
    """The report of a task to the driver. If `transaction` is None, there is nothing to commit."""

    rows: int
    task: int = 0
    work: Work | None = None
    transaction: Transaction | None = None
    began: float = 0.0
    """The time at which the time-out of the transaction started."""
    earlier_tasks: int | None = None
    """The number of tasks of an earlier attempt at this batch, if that attempt was committed at least in part."""
    earlier_rows: int | None = None
    """The number of rows that an earlier attempt of this task has committed."""

    @property
    def is_changed(self) -> bool:
        """Whether an earlier attempt of this task has committed another number of rows."""
        return self.earlier_rows not in (None, self.rows)


class _Writer(ABC):
    """The common part of the writers of batches and streams.

    The executors write the rows. The driver checks the result and commits.
    """

    is_transactional: bool

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self.options = options

    @abstractmethod
    def work(self, context: TaskContext) -> Work:
        """Returns the batch that the task with this context writes."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Writes the rows of a task. Runs in an executor."""
        with Cluster(self.options.client) as cluster:
            if not self.is_transactional:
                written = Written(self._produce(cluster, iterator, None)[0])
            else:
                context = TaskContext.get()
                assert context is not None, "write runs in a task"
                written = self.write_once(cluster, iterator, self.work(context), context.partitionId())
        freeze_imports()
        return written

    def write_once(
        self, cluster: Cluster, iterator: Iterator[pa.RecordBatch], work: Work, task: int
    ) -> Written:
        """Writes the rows in a transaction, unless an earlier attempt of the task is committed."""
        if self.options.topic is not None:
            # The note is stored with the name of the topic, so the topic must exist even if there are no rows.
            cluster.partitions([self.options.topic], create=True)
        # The transaction begins before the notes are read. After its begin, an earlier attempt cannot add a note any
        # more.
        mine = transaction.begin(cluster, work.id_of(task), self.options.transaction_timeout_ms)
        own, first = self._notes(cluster, work, task)
        if is_written(work.batch, own, first):
            rows = sum(batch.num_rows for batch in iterator)  # Spark requires that all rows are read
            tasks = first.tasks if first is not None and first.batch == work.batch else None
            noted = own.rows if own is not None and own.batch == work.batch else None
            return Written(rows, task, work, earlier_tasks=tasks, earlier_rows=noted)
        try:
            rows, began = self._produce(cluster, iterator, mine)
            if work.note is not None and task != 0:  # the driver stores the note of the first task
                transaction.store(cluster, mine, replace(work.note, rows=rows), self._notes_topic())
        except BaseException:
            transaction.abandon(cluster, [mine])
            raise
        is_empty = work.note is None and rows == 0
        return Written(rows, task, work, None if is_empty else mine, began)

    def _notes(self, cluster: Cluster, work: Work, task: int) -> tuple[Note | None, Note | None]:
        """Returns the notes of this task and of the first task.

        The first task's note is read without waiting, because this note may be in an open transaction of the same
        batch.
        """
        if work.batch is None:
            return None, None
        own = transaction.stored(cluster, work.id_of(task), work.query, stable=True)
        if task == 0:
            return own, own
        return own, transaction.stored(cluster, work.id_of(0), work.query, stable=False)

    def _produce(
        self, cluster: Cluster, iterator: Iterator[pa.RecordBatch], mine: Transaction | None
    ) -> tuple[int, float]:
        """Writes rows. Returns the number of rows, and the time at which the transaction's time-out started."""
        from kcli.spark.sink.producer import Producer
        from kcli.spark.sink.rows import Router

        rows = 0
        producer = Producer(cluster, self.options, mine)
        router = Router(cluster, self.options.topic)
        for batch in self._traced(iterator):
            for part, area in router.areas(batch):
                producer.add(part, area)
            rows += batch.num_rows
        producer.flush()
        return rows, producer.began or time.time()

    def _traced(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches. If there are traces, adds a trace context to the records and exports a span."""
        traces = self.options.traces
        if traces is None:
            return batches
        from kcli.spark.sink.trace_headers import sent

        return sent(batches, traces, self.options.topic)

    def commit_tasks(self, messages: Sequence[Written | None]) -> None:
        """Commits the transaction of the first task, and then the transactions of the other tasks."""
        written = [message for message in messages if message is not None]
        with Cluster(self.options.client) as cluster:
            if self._is_committed(cluster, written):
                return
            self._check_age(cluster, written)
            open_ = {
                message.task: message.transaction for message in written if message.transaction is not None
            }
            leading = open_.pop(0, None)
            if leading is not None:
                [first] = [message for message in written if message.task == 0]
                if first.work is not None and first.work.note is not None:
                    note = replace(first.work.note, rows=first.rows, tasks=len(written))
                    transaction.store(cluster, leading, note, self._notes_topic())
                transaction.end(cluster, [leading], committed=True)
            transaction.end(cluster, list(open_.values()), committed=True)
        freeze_imports()

    def _is_committed(self, cluster: Cluster, written: list[Written]) -> bool:
        """Whether the whole batch is committed.

        Raises BatchChangedError if only a part is committed and the tasks are different now.
        """
        now = len(written)
        for message in written:
            if message.task == 0 and message.earlier_tasks not in (None, now):
                assert message.work is not None and message.earlier_tasks is not None
                transaction.abandon(cluster, _transactions(written))
                if self._wrote_all(cluster, message.work, range(1, message.earlier_tasks), now):
                    return True
                raise _changed(f"with {message.earlier_tasks} tasks and has {now} now")
        left = _transactions(written)
        for message in written:
            if left and message.is_changed:
                transaction.abandon(cluster, left)
                raise _changed(
                    f"whose task {message.task} had {message.earlier_rows} rows and has {message.rows} now"
                )
        return not left

    def _wrote_all(self, cluster: Cluster, work: Work, tasks: range, now: int) -> bool:
        """Whether all `tasks` of an earlier attempt have stored their note for this batch, so that their rows are
        committed.

        `now` is the number of tasks of this attempt. Earlier tasks with a number from `now` on are fenced, because this
        attempt has not fenced them.
        """
        for task in tasks:
            if task >= now:
                transaction.begin(cluster, work.id_of(task), self.options.transaction_timeout_ms)
            own = transaction.stored(cluster, work.id_of(task), work.query, stable=True)
            if not is_written(work.batch, own, None):
                return False
        return True

    def _check_age(self, cluster: Cluster, written: list[Written]) -> None:
        """Raises BatchTooLongError if the time-out of a transaction may have passed. The driver calls this method
        before the first commit.
        """
        oldest = time.time() - min(message.began for message in written if message.transaction is not None)
        if oldest * 1000 > self.options.transaction_timeout_ms:
            transaction.abandon(cluster, _transactions(written))
            raise BatchTooLongError(
                f"writing the batch took {oldest:.0f} s, and its transactions end after "
                f"kafka.transaction.timeout.ms = {self.options.transaction_timeout_ms}: make batches smaller "
                "(maxOffsetsPerTrigger) or raise it, up to the broker's transaction.max.timeout.ms"
            )

    def abort_tasks(self, messages: Sequence[Written | None]) -> None:
        """Aborts the transactions of all tasks after a task has failed."""
        if left := _transactions(messages):
            with Cluster(self.options.client) as cluster:
                transaction.abandon(cluster, left)

    def _notes_topic(self) -> str:
        return self.options.topic or GROUP_METADATA_TOPIC


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a batch.

    Transactions are off by default, because a batch job may take longer than the time-out of a transaction.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        named = options.transactional_id is not None or options.batch_id is not None
        self.is_transactional = named if options.transactional is None else options.transactional
        if options.batch_id is not None and options.transactional_id is None:
            raise ValueError("kcli.batch.id needs kafka.transactional.id, which names the job of the batch")
        name = options.transactional_id or f"{PREFIX}{uuid.uuid4()}"
        self._work = Work(name, name, options.batch_id)

    def work(self, context: TaskContext) -> Work:
        return self._work

    def commit(self, messages: Sequence[Written | None]) -> None:
        self.commit_tasks(messages)

    def abort(self, messages: Sequence[Written | None]) -> None:
        self.abort_tasks(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes a stream, exactly-once unless transactions are turned off."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self.is_transactional = options.transactional is not False
        if options.batch_id is not None:
            raise ValueError("kcli.batch.id is for batches (in foreachBatch): a stream's batches have ids")

    def work(self, context: TaskContext) -> Work:
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        assert query is not None and batch is not None, "a stream's tasks know query and batch"
        return Work(self.options.transactional_id or f"{PREFIX}{query}", query, int(batch))

    def commit(self, messages: Sequence[Written | None], batchId: int) -> None:
        self.commit_tasks(messages)

    def abort(self, messages: Sequence[Written | None], batchId: int) -> None:
        self.abort_tasks(messages)


def is_written(batch: int | None, own: Note | None, first: Note | None) -> bool:
    """Whether a task's part of `batch` is committed, according to the task's own note and the note of the first task.

    A note of the first task for a later batch shows this too, because Spark begins a batch only after the previous
    batch is committed.
    """
    if batch is None:
        return False
    return (own is not None and own.batch >= batch) or (first is not None and first.batch > batch)


def _changed(how: str) -> BatchChangedError:
    return BatchChangedError(
        f"this batch was committed in part by an earlier run {how}, so the missing rows are not known. Run it with the "
        "same number of tasks (the same source options and number of cores), or once with kcli.transactional=false, "
        "which writes all of it again"
    )


def _transactions(messages: Sequence[Written | None]) -> list[Transaction]:
    return [
        message.transaction for message in messages if message is not None and message.transaction is not None
    ]


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """Checks the columns of the rows. Raises ValueError for a column that is missing, unknown or of the wrong type."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, type_ in types.items():
        if name not in SINK_COLUMNS:
            raise ValueError(f"column {name} cannot be written to a topic; {', '.join(SINK_COLUMNS)} can")
        if type_ not in SINK_COLUMNS[name]:
            raise ValueError(f"column {name} is {type_}; expected {' or '.join(SINK_COLUMNS[name])}")
    if "value" not in types:
        raise ValueError("Required attribute 'value' not found: name the column to write value")
    if "topic" not in types and options.topic is None:
        raise ValueError("topic option required when no 'topic' attribute is present")
