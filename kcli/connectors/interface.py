"""The interface of a connector, as in Kafka Connect (org.apache.kafka.connect.source and .sink).

A connector plans: it validates a configuration, and divides its work into the configurations of tasks. A task moves
records, or follows a program that moves them. Both run in processes of their own, so that their crash or their endless
loop cannot stop a worker. An entry point of the group `kcli.connect.source` or `kcli.connect.sink` names the class of a
connector.

All methods are plain functions that may block. Every exception fails the task or the connector, except
RetriableException from `poll` and `put`, which the worker tries again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from kcli.config.definition import ConfigDef
from kcli.connectors.records import SinkRecord, SourceRecord
from kcli.model.topic_partition import TopicPartition

Config = Mapping[str, str]
Offsets = Mapping[TopicPartition, int]
Partition = Mapping[str, object]
"""A part of an external system, such as a table. Its values are primitive, because it becomes JSON."""
Offset = Mapping[str, object]
"""A position in a `Partition`."""


class ConnectorContext(Protocol):
    """What a running connector may ask its worker for."""

    def request_task_reconfiguration(self) -> None:
        """Asks the worker to call `task_configs` again. Callable from any thread."""
        ...

    def raise_error(self, error: Exception) -> None:
        """Fails the connector. Callable from any thread."""
        ...

    def offset(self, partition: Partition) -> Offset | None:
        """The last stored offset of a source partition. A sink connector has none."""
        ...


class Connector:
    """The base of `SourceConnector` and `SinkConnector`."""

    version: ClassVar[str | None] = None
    """The version that REST answers show. None means the version of the distribution that has the entry point."""

    java_class: ClassVar[str | None] = None
    """The class of Kafka Connect that this connector replaces. Both names are accepted as connector.class."""

    config_def: ClassVar[ConfigDef]
    """The keys of the connector, beside the keys that every connector has. Their validators and recommenders run in
    the worker, so they must be fast, and must accept None."""

    task_class: ClassVar[type[SourceTask] | type[SinkTask] | type[JobTask]]

    monitors: ClassVar[bool] = False
    """Whether the connector works between two calls, such as a thread that looks for new tables. If not, the worker
    starts it only for the time of a call."""

    context: ConnectorContext

    def start(self, config: Config) -> None:
        """Begins. `config` is the connector's configuration with all placeholders resolved."""
        self.config = config

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        """Returns the configuration of each task, at most `max_tasks`."""
        return [self.config] * max_tasks

    def stop(self) -> None:
        """Ends the threads of the connector."""

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        """Returns additional errors by key. The worker has checked the keys of `config_def` before."""
        return {}


class SourceConnector(Connector):
    """A connector whose tasks read an external system."""

    def exactly_once_support(self, config: Config) -> bool | None:
        """Whether the connector can be exactly once with this configuration. None means that it cannot tell."""
        return None

    def can_define_transaction_boundaries(self, config: Config) -> bool:
        """Whether its tasks can end transactions themselves (transaction.boundary=connector)."""
        return False

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition | None, Offset | None]]
    ) -> bool:
        """Checks offsets that a user wants to set. None as an offset resets the partition. A user may also send None as
        a partition.

        Returns False if the connector keeps offsets elsewhere too. Raises ConnectException to refuse them, and
        NotImplementedError if the offsets of this connector cannot be changed.
        """
        return False


class SinkConnector(Connector):
    """A connector whose tasks write to an external system."""

    def alter_offsets(self, config: Config, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """As `SourceConnector.alter_offsets`. The keys are partitions of topics."""
        return False


class OffsetReader(Protocol):
    """Reads the stored offsets of a source task."""

    def offset(self, partition: Partition) -> Offset | None: ...

    def offsets(self, partitions: Iterable[Partition]) -> Sequence[Offset | None]:
        """The offset of each partition, in the order of `partitions`."""
        ...


class TransactionContext(Protocol):
    """Ends the transactions of a task with transaction.boundary=connector (KIP-618)."""

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commits after `record`, or after the records of the current `poll`."""
        ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Discards the records since the last transaction, including `record` or the records of the current `poll`."""
        ...


class SourceTaskContext(Protocol):
    config: Config
    offsets: OffsetReader
    transaction: TransactionContext | None
    """None, except with exactly once and transaction.boundary=connector."""


class SourceTask:
    """Reads records. One thread calls its methods, except `stop`, which another thread may call during `poll`."""

    context: SourceTaskContext

    def start(self, config: Config) -> None:
        """Begins, with the configuration that `task_configs` has returned for this task."""

    def poll(self) -> Sequence[SourceRecord] | None:
        """Returns new records. Waits for them up to about a second, and then returns None."""
        raise NotImplementedError

    def commit(self) -> None:
        """The worker has stored the offsets of all records that were sent."""

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """A record is in its topic. `metadata` is None if a transformation or an error dropped the record."""

    def stop(self) -> None:
        """Ends `poll` soon."""


class RecordMetadata(Protocol):
    topic: str
    partition: int
    offset: int
    timestamp: int


class ErrantRecordReporter(Protocol):
    def report(self, record: SinkRecord, error: Exception) -> None:
        """Reports a record that the target refuses: to the dead-letter topic and the log, as `errors.*` say.

        Raises ConnectException if errors.tolerance=none. Returns when the report is written.
        """
        ...


class SinkTaskContext(Protocol):
    config: Config
    errant_record_reporter: ErrantRecordReporter | None
    """None if the connector has neither a dead-letter topic nor a log of errors."""

    @property
    def assignment(self) -> frozenset[TopicPartition]: ...

    def offset(self, offsets: Offsets) -> None:
        """Reads on from other offsets, for example those that the target has stored."""
        ...

    def timeout(self, milliseconds: int) -> None:
        """The wait before `put` is called again after a RetriableException."""
        ...

    def pause(self, *partitions: TopicPartition) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...

    def request_commit(self) -> None:
        """Asks the worker to commit offsets soon."""
        ...


class SinkTask:
    """Writes records. One thread calls its methods."""

    context: SinkTaskContext

    def start(self, config: Config) -> None:
        """Begins, with the configuration that `task_configs` has returned for this task."""

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """The task begins to get the records of these partitions."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Takes records, which it may write later. `records` may be empty."""
        raise NotImplementedError

    def flush(self, offsets: Offsets) -> None:
        """Writes everything that `put` has taken. `offsets` are the next offsets to read."""

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Returns the offsets that the worker may commit. The default writes everything first."""
        self.flush(offsets)
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """The task no longer gets the records of these partitions."""

    def stop(self) -> None:
        """Closes what `start` has opened."""


class JobTaskContext(Protocol):
    config: Config
    client: Mapping[str, str]
    """The properties of Java's client with which the program connects to the cluster: those of the producer of a source
    connector, or of the consumer of a sink connector."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The offsets that a program has stored itself, and the topics that it reads or writes."""

    source_offsets: Sequence[tuple[Partition, Offset]] = ()
    """For the offsets of a source connector."""
    topic_offsets: Offsets = field(default_factory=dict)
    """For the group of a sink connector: the next offset of each partition."""
    topics: Collection[str] = ()


class JobTask:
    """Follows a program that moves the records itself. The worker only copies the offsets of the program, so that users
    see them. One thread calls all methods."""

    context: JobTaskContext

    def start(self, config: Config) -> None:
        """Starts the program, with the configuration that `task_configs` has returned for this task."""
        raise NotImplementedError

    def check(self) -> None:
        """Looks at the program, without a wait. Raises ConnectException if it has failed."""
        raise NotImplementedError

    def progress(self) -> JobProgress:
        """What the program has done so far."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stops the program and waits for its end. The worker calls it for a pause too, and then `start` again."""
        raise NotImplementedError
