"""Transactions of the sink (KIP-98). The rows of a task become visible together with a note that contains the batch id,
or never.

A task begins and fills a transaction, and the driver ends it. So `Transaction` is a plain value that Spark sends from
the task to the driver.

A transaction can include committed offsets of a consumer group (KIP-447). So the note is a committed offset: the offset
is the batch id, and the name of the group is the transactional id. When Spark repeats a batch, the repeated task reads
the note with `stored`, to find out whether its rows are already written.

The client uses version 1 of the transaction protocol (TV1), because every broker since 2.5 supports it. In this
version, a partition is added to the transaction before records are written to it. Each attempt of a task has a new
producer epoch, so brokers refuse late requests of earlier attempts, as they do in version 2.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kcli.errors import ErrorCode, KafkaError, KcliError, error_for
from kcli.model.request_values import CoordinatorType
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kcli.spark.client.calls import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    OFFSET_FETCH,
    TXN_OFFSET_COMMIT,
    AnswerT,
    Call,
    RequestT,
)
from kcli.spark.client.cluster import Cluster

ABANDON_MS = 5_000
"""The milliseconds for which an abort after a failure is repeated. If the abort does not succeed, the next attempt of
the task or the time-out aborts the transaction."""

NOT_OURS = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""The error codes for a transaction that another attempt or the broker has ended."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The transaction of one attempt of a task. Each attempt has a higher producer epoch than the attempt before."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def refused(self, code: ErrorCode, doing: str) -> KafkaError:
        """Returns the exception for an error code from the broker, with a hint for the user."""
        what = f"{doing} in transaction {self.transactional_id}: {code.name}"
        if code in NOT_OURS:
            what += (
                ". The transaction is no longer open: another attempt of this task has begun, or it took longer than "
                "kafka.transaction.timeout.ms"
            )
        return error_for(code, what)


@dataclass(frozen=True, slots=True)
class Note:
    """States that a task has written its part of a batch of `query`. `rows` is the number of written rows.

    `tasks` is the number of tasks of the batch. Only the note of the first task has it.
    """

    query: str
    batch: int
    rows: int | None = None
    tasks: int | None = None


def begin(cluster: Cluster, transactional_id: str, timeout_ms: int) -> Transaction:
    """Begins a transaction.

    Fences every earlier attempt of the task, and waits until the open transaction of such an attempt is aborted.
    """
    try:
        return Transaction(transactional_id, *cluster.init_producer_id(transactional_id, timeout_ms))
    except KafkaError as error:
        if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise error_for(
                error.code,
                f"kafka.transaction.timeout.ms is {timeout_ms}: the broker allows less "
                "(its transaction.max.timeout.ms)",
            ) from None
        raise


def add_partitions(cluster: Cluster, transaction: Transaction, parts: Iterable[TopicPartition]) -> None:
    """Adds partitions to a transaction, before the first rows are written to them."""
    by_topic: dict[str, list[int]] = {}
    for part in sorted(parts):
        by_topic.setdefault(part.topic, []).append(part.partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transaction.transactional_id,
        v3_and_below_producer_id=transaction.producer_id,
        v3_and_below_producer_epoch=transaction.producer_epoch,
        v3_and_below_topics=tuple(
            AddPartitionsToTxnTopic(name=name, partitions=tuple(partitions))
            for name, partitions in by_topic.items()
        ),
    )

    def attempt() -> None:
        answer = _ask(
            cluster,
            CoordinatorType.TRANSACTION,
            transaction.transactional_id,
            ADD_PARTITIONS_TO_TXN,
            request,
        )
        codes = [
            result.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        ]
        _check(transaction, codes, f"writing to {', '.join(by_topic)}")

    cluster.retried(attempt, "adding partitions to a transaction")


def store(cluster: Cluster, transaction: Transaction, note: Note, topic: str) -> None:
    """Stores `note` in the transaction."""
    group = transaction.transactional_id
    adding = AddOffsetsToTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        group_id=group,
    )
    written = {"query": note.query, "rows": note.rows, "tasks": note.tasks}
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=note.batch, committed_metadata=json.dumps(written)
    )
    committing = TxnOffsetCommitRequest(
        transactional_id=transaction.transactional_id,
        group_id=group,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=(TxnOffsetCommitRequestTopic(name=topic, partitions=(partition,)),),
    )

    def attempt() -> None:
        answer = _ask(
            cluster,
            CoordinatorType.TRANSACTION,
            transaction.transactional_id,
            ADD_OFFSETS_TO_TXN,
            adding,
        )
        _check(transaction, [answer.error_code], "storing the batch id")
        committed = _ask(cluster, CoordinatorType.GROUP, group, TXN_OFFSET_COMMIT, committing)
        codes = [partition.error_code for topic in committed.topics for partition in topic.partitions]
        _check(transaction, codes, "storing the batch id")

    cluster.retried(attempt, "storing the batch id")


def stored(cluster: Cluster, transactional_id: str, query: str, *, stable: bool) -> Note | None:
    """Returns the note with the greatest batch id that `query` has stored under this transactional id, or None.

    If `stable` is True, waits for the end of open transactions.
    """
    request = OffsetFetchRequest(group_id=transactional_id, topics=None, require_stable=stable)
    notes: list[Note] = []

    def attempt() -> None:
        notes.clear()
        answer = _ask(cluster, CoordinatorType.GROUP, transactional_id, OFFSET_FETCH, request)
        parts = [partition for topic in answer.topics for partition in topic.partitions]
        for code in (answer.error_code, *(part.error_code for part in parts)):
            if code:
                raise error_for(code, f"reading the batch id of {transactional_id}: {code.name}")
        notes.extend(filter(None, (_note(part.committed_offset, part.metadata) for part in parts)))

    cluster.retried(attempt, "reading the batch id")
    return max((note for note in notes if note.query == query), key=lambda note: note.batch, default=None)


def end(
    cluster: Cluster,
    transactions: Sequence[Transaction],
    *,
    committed: bool,
    patience_ms: int | None = None,
) -> None:
    """Commits or aborts transactions. A repeated commit or a repeated abort has no effect.

    A transaction that another attempt or the broker has ended counts as aborted. Committing such a transaction is an
    error.
    """
    left = list(transactions)

    def attempt() -> None:
        nodes = [
            cluster.coordinator(CoordinatorType.TRANSACTION, transaction.transactional_id)
            for transaction in left
        ]
        sent = []
        for transaction, node in zip(left, nodes, strict=True):
            request = EndTxnRequest(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                committed=committed,
            )
            sent.append((transaction, node, cluster.connection(node).send(END_TXN, request)))
        failures = []
        for transaction, node, pending in sent:
            code = cluster.connection(node).receive(pending).error_code
            if code and (committed or code not in NOT_OURS):
                failures.append(transaction.refused(code, "committing" if committed else "aborting"))
            else:
                left.remove(transaction)
        if failures:
            raise next((error for error in failures if not error.retriable), failures[0])

    cluster.retried(attempt, "ending transactions", timeout_ms=patience_ms)


def abandon(cluster: Cluster, transactions: Sequence[Transaction]) -> None:
    """Aborts transactions if possible, so that readers need not wait for the time-out or the next attempt.

    This function raises no exception.
    """
    with contextlib.suppress(OSError, KcliError):
        end(cluster, transactions, committed=False, patience_ms=ABANDON_MS)


def _ask(
    cluster: Cluster, kind: CoordinatorType, name: str, call: Call[RequestT, AnswerT], request: RequestT
) -> AnswerT:
    """Sends a request to the coordinator of `name`."""
    return cluster.connection(cluster.coordinator(kind, name)).request(call, request)


def _check(transaction: Transaction, codes: Iterable[ErrorCode], doing: str) -> None:
    """Raises the first error.

    OPERATION_NOT_ATTEMPTED is raised only if there is no other error. The reason for this code is always the error of
    another partition.
    """
    failed = sorted(
        (code for code in codes if code), key=lambda code: code is ErrorCode.OPERATION_NOT_ATTEMPTED
    )
    if failed:
        raise transaction.refused(failed[0], doing)


def _note(batch: int, metadata: str | None) -> Note | None:
    """Parses the metadata of a committed offset as a note. Returns None if it is not a note, because another client
    committed the offset.
    """
    with contextlib.suppress(ValueError, TypeError, KeyError):
        written = json.loads(metadata or "")
        return Note(str(written["query"]), batch, written.get("rows"), written.get("tasks"))
    return None
