"""One partition of `__transaction_state` as a state machine: its transactional ids, their transactions, their timers.

A method takes a request, its token and the time, and returns a `Ready`, which lists what the caller must do. The token
identifies the request in a later reply (see `coordinator.runtime`). Only `replay` changes the state of a transactional
id, both in normal running and when the shard is loaded. The shard also keeps state that is not in the log: the ids with
a write in progress, and the partitions that wait for their marker. If the record that fences a producer could not be
written, the shard also keeps the new epoch. While an id has a write in progress, other requests for this id get
CONCURRENT_TRANSACTIONS.

The shard decides about markers, and the caller sends them. When a record of PrepareCommit or PrepareAbort is committed,
the shard asks for markers with a `SendMarkers`. After a load, the shard asks for the markers of every transaction in
one of these two states. For each partition, the caller reports the result with `markers_written`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kcli.coordinator.runtime import Answer, AnswerT, Continuation, Ready, Step, Timers, Token
from kcli.coordinator.transaction.config import TransactionConfig
from kcli.coordinator.transaction.end import EndDecision, judge_end
from kcli.coordinator.transaction.init import expected_epoch, init_refused, is_own, renewed, rotates
from kcli.coordinator.transaction.questions import Filter, describe, listed
from kcli.coordinator.transaction.records import TransactionRecord
from kcli.coordinator.transaction.state import (
    IDLE,
    LEGAL_BEFORE,
    PREPARED,
    TV2,
    Transaction,
    TransactionStatus,
    completed,
    fenced,
    prepared,
    with_partitions,
)
from kcli.errors import ErrorCode
from kcli.model.ids import NO_PRODUCER_ID
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.list_transactions import TransactionState as ListedTransaction

COMPLETE_RETRY_MS = 100
"""The pause before a failed write of CompleteCommit or CompleteAbort is repeated. The pause is short, because the
client's next transaction waits for this write."""
EXPIRED_AT_ONCE = 100
"""The number of ids that are removed without a pause (a slice of about 1 ms). A slice is short, because up to 50 shards
share the event loop."""
TIMED_OUT_AT_ONCE = 5
"""The number of timed-out transactions that are aborted in a slice. This number is below EXPIRED_AT_ONCE, because each
transaction needs markers."""
PAUSE_MS = 20
"""The pause between two slices."""

_COMPLETE = "complete"
_CARRY_OUT = "carry out"
_ABORT_TIMED_OUT = ("abort timed out", "")
_REMOVE_EXPIRED = ("remove expired", "")
AT_ONCE_MS = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMarkers:
    """A request to write a marker to every partition of a transaction. The caller reports the results with
    `markers_written`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


TransactionReady = Ready[TransactionRecord, SendMarkers]
TransactionStep = Step[TransactionRecord, SendMarkers]
TransactionContinuation = Continuation[TransactionRecord, SendMarkers]


class TransactionShard:
    def __init__(self, config: TransactionConfig, version: Callable[[], int]) -> None:
        """Makes an empty shard. `version`: returns the present finalized level of transaction.version."""
        self._config = config
        self._version = version
        self._transactions: dict[str, Transaction] = {}
        self._pending = set[str]()  # ids with a write in progress
        self._overdue = set[str]()  # pending ids whose write timed out but may still be committed
        self._unmarked: dict[str, set[TopicPartition]] = {}
        self._fences: dict[
            str, int
        ] = {}  # by id: the epoch that a fence makes invalid, until the fence is written
        self._timed_out = deque[str]()  # the rest of the present round of time-outs
        self._expired = deque[str]()  # the rest of the present round of removals
        self._timers = Timers[tuple[str, str]]()
        """Deadlines by their kind and transactional id. The id is empty if a deadline concerns all ids."""

    # InitProducerId

    def wants_producer_id_to_init(self, request: InitProducerIdRequest) -> bool:
        """Whether `init_producer_id` will need a new producer id."""
        assert request.transactional_id is not None
        if self._refuse_init(request) is not ErrorCode.NONE:
            return False
        known = self._transactions.get(request.transactional_id)
        return known is None or (known.status in IDLE and rotates(known, expected_epoch(request)))

    def init_producer_id(
        self,
        request: InitProducerIdRequest,
        fresh_producer_id: int | None,
        token: Token[InitProducerIdResponse],
        now_ms: int,
    ) -> TransactionReady:
        transactional_id = request.transactional_id
        assert transactional_id is not None
        step: TransactionStep = Step(now_ms)
        code = self._refuse_init(request)
        if code is not ErrorCode.NONE:
            return _answer(token, init_refused(code))
        before = self._transactions.get(transactional_id)
        # An earlier process with this transactional id may still write. Its transaction is aborted first, and the new
        # process repeats its request until the abort is complete (KIP-98).
        if before is not None and before.status is TransactionStatus.ONGOING:
            self._fence({transactional_id: before}, step)
            step.reply(token, init_refused(ErrorCode.CONCURRENT_TRANSACTIONS))
            return step.ready()
        after = renewed(before, request, fresh_producer_id, now_ms)
        if isinstance(after, ErrorCode):
            return _answer(token, init_refused(after))
        self._write({transactional_id: after}, step)
        step.reply(
            token,
            InitProducerIdResponse(producer_id=after.producer_id, producer_epoch=after.producer_epoch),
        )
        return step.ready()

    def _refuse_init(self, request: InitProducerIdRequest) -> ErrorCode:
        transactional_id = request.transactional_id
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < request.transaction_timeout_ms <= self._config.max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        known = self._transactions.get(transactional_id)
        if self._is_moving(transactional_id, known):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if known is None:
            return ErrorCode.NONE
        if not is_own(known, request):
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.NONE

    # Adding partitions

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        client_version: int,
        token: Token[ErrorCode],
        now_ms: int,
    ) -> TransactionReady:
        """Adds partitions to a transaction. The reply is one ErrorCode for all partitions."""
        known = self._transactions.get(transactional_id)
        if transactional_id and self._is_moving(transactional_id, known):
            return _answer(token, ErrorCode.CONCURRENT_TRANSACTIONS)
        code = self._refuse_partitions(transactional_id, known, producer_id, producer_epoch)
        if known is None or code is not ErrorCode.NONE:
            return _answer(token, code)
        # As in Kafka, a repeated request needs no write, because the log already has these partitions.
        if known.status is TransactionStatus.ONGOING and partitions <= known.partitions:
            return _answer(token, ErrorCode.NONE)
        step: TransactionStep = Step(now_ms)
        after = with_partitions(known, partitions, client_version, now_ms)
        self._write({transactional_id: after}, step)
        step.reply(token, ErrorCode.NONE)
        return step.ready()

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """The error code for each partition: NONE if the partition belongs to the producer's open transaction
        (KIP-890).

        A write in progress does not matter. If the write ends the transaction, the marker in the partition's log makes
        the verification invalid."""
        known = self._transactions.get(transactional_id)
        code = self._refuse_partitions(transactional_id, known, producer_id, producer_epoch)
        if known is None or code is not ErrorCode.NONE:
            return dict.fromkeys(partitions, code)
        added = known.partitions if known.status is TransactionStatus.ONGOING else frozenset()
        return {
            partition: ErrorCode.NONE if partition in added else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def _refuse_partitions(
        self, transactional_id: str, known: Transaction | None, producer_id: int, producer_epoch: int
    ) -> ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if known is None or known.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if known.producer_epoch != producer_epoch or self._is_fenced(transactional_id, producer_epoch):
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if known.status in PREPARED else ErrorCode.NONE

    def _is_moving(self, transactional_id: str, known: Transaction | None) -> bool:
        """Whether a change is not complete: its write is in progress, or its markers are being written."""
        return transactional_id in self._pending or (known is not None and known.status in PREPARED)

    def _is_fenced(self, transactional_id: str, producer_epoch: int) -> bool:
        return self._fences.get(transactional_id) == producer_epoch

    # EndTxn

    def wants_producer_id_to_end(self, request: EndTxnRequest, client_version: int) -> bool:
        """Whether `end` will need a new producer id, because the epoch is exhausted."""
        decision = self._judge_end(request, client_version)
        known = self._transactions.get(request.transactional_id)
        return (
            decision.next_status is not None and known is not None and _needs_next_id(known, client_version)
        )

    def end(
        self,
        request: EndTxnRequest,
        client_version: int,
        fresh_producer_id: int | None,
        token: Token[EndTxnResponse],
        now_ms: int,
    ) -> TransactionReady:
        """Serves EndTxn. The client gets its answer when the decision is committed, before the markers are written."""
        decision = self._judge_end(request, client_version)
        known = self._transactions.get(request.transactional_id)
        if known is None or decision.next_status is None:
            return _answer(token, _end_response(decision.code, known, client_version))
        next_producer_id: int = NO_PRODUCER_ID
        if _needs_next_id(known, client_version):
            if fresh_producer_id is None:
                return _answer(token, EndTxnResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS))
            next_producer_id = fresh_producer_id
        after = prepared(known, decision.next_status, client_version, now_ms, next_producer_id)
        step: TransactionStep = Step(now_ms)
        self._write({request.transactional_id: after}, step, self._sends_markers(request.transactional_id))
        step.reply(token, _end_response(ErrorCode.NONE, after, client_version))
        return step.ready()

    def _judge_end(self, request: EndTxnRequest, client_version: int) -> EndDecision:
        transactional_id = request.transactional_id
        if not transactional_id:
            return EndDecision(ErrorCode.INVALID_REQUEST)
        known = self._transactions.get(transactional_id)
        if known is None:
            return EndDecision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return judge_end(
            known,
            request,
            client_version,
            is_moving=self._is_moving(transactional_id, known),
            is_fenced=self._is_fenced(transactional_id, request.producer_epoch),
        )

    # Markers

    def markers_written(
        self,
        transactional_id: str,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        now_ms: int,
    ) -> TransactionReady:
        """Stores the caller's report that these partitions have their marker, or do not need it any more. When all
        partitions are reported, the transaction is completed."""
        known = self._transactions.get(transactional_id)
        unmarked = self._unmarked.get(transactional_id)
        # A late report about an earlier transaction must not complete the present one.
        if known is None or unmarked is None or known.producer_epoch != producer_epoch:
            return Ready()
        unmarked.difference_update(partitions)
        if unmarked or transactional_id in self._pending:
            return Ready()
        return self._complete(transactional_id, known, now_ms)

    def _complete(self, transactional_id: str, known: Transaction, now_ms: int) -> TransactionReady:
        step: TransactionStep = Step(now_ms)

        def written(code: ErrorCode, then: TransactionStep) -> None:
            if code is ErrorCode.NONE:
                self._unmarked.pop(transactional_id, None)
            else:
                self._timers.schedule((_COMPLETE, transactional_id), then.now_ms + COMPLETE_RETRY_MS)

        self._write({transactional_id: completed(known, now_ms)}, step, written)
        return step.ready()

    def _sends_markers(self, transactional_id: str) -> TransactionContinuation:
        def written(code: ErrorCode, then: TransactionStep) -> None:
            if code is ErrorCode.NONE:
                then.send(self._markers(transactional_id))

        return written

    def _markers(self, transactional_id: str) -> SendMarkers:
        known = self._transactions[transactional_id]
        self._unmarked[transactional_id] = set(known.partitions)
        return SendMarkers(
            transactional_id=transactional_id,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            committed=known.commits,
            # Sorted, because the order of a set differs between runs, and a simulation must send the same requests
            # again.
            partitions=tuple(sorted(known.partitions)),
            transaction_version=known.client_version,
        )

    # Questions

    def describe(self, transactional_id: str) -> DescribedTransaction:
        return describe(transactional_id, self._transactions.get(transactional_id))

    def list_transactions(self, selection: Filter, now_ms: int) -> Iterator[ListedTransaction | None]:
        """Yields each transaction that matches the filter, and None in place of each other transaction. The caller may
        pause after every item."""
        for transactional_id in tuple(self._transactions):
            known = self._transactions.get(transactional_id)
            if known is None or not selection.matches(known, now_ms):
                yield None
            else:
                yield listed(transactional_id, known)

    # Time

    @property
    def next_deadline_ms(self) -> int | None:
        return self._timers.next_deadline_ms

    def tick(self, now_ms: int) -> TransactionReady | None:
        """Does the work of the earliest deadline, if this deadline has passed. Returns None if no deadline has
        passed."""
        key = self._timers.pop_expired(now_ms)
        if key is None:
            return None
        if key == _ABORT_TIMED_OUT:
            return self._abort_timed_out(now_ms)
        if key == _REMOVE_EXPIRED:
            return self._remove_expired(now_ms)
        what, transactional_id = key
        retry = self._retry_complete if what == _COMPLETE else self._carry_out
        return retry(transactional_id, now_ms)

    def _retry_complete(self, transactional_id: str, now_ms: int) -> TransactionReady:
        known = self._transactions.get(transactional_id)
        if known is None or known.status not in PREPARED:
            return Ready()
        return self.markers_written(transactional_id, known.producer_epoch, (), now_ms)

    def _carry_out(self, transactional_id: str, _now_ms: int) -> TransactionReady:
        known = self._transactions.get(transactional_id)
        if known is None or known.status not in PREPARED or transactional_id in self._pending:
            return Ready()
        return Ready(sends=(self._markers(transactional_id),))

    def _abort_timed_out(self, now_ms: int) -> TransactionReady:
        def is_due(transactional_id: str, known: Transaction) -> bool:
            return (
                known.status is TransactionStatus.ONGOING
                and known.start_ms + known.timeout_ms < now_ms
                and transactional_id not in self._pending
            )

        step: TransactionStep = Step(now_ms)
        self._fence(self._slice(self._timed_out, is_due, TIMED_OUT_AT_ONCE), step)
        pause_ms = PAUSE_MS if self._timed_out else self._config.abort_timed_out_interval_ms
        self._timers.schedule(_ABORT_TIMED_OUT, now_ms + pause_ms)
        return step.ready()

    def _slice(
        self, waiting: deque[str], is_due: Callable[[str, Transaction], bool], most: int
    ) -> dict[str, Transaction]:
        """Removes and returns the next transactions of `waiting` that are still due. Looks for due transactions among
        all transactions only if `waiting` is empty."""
        if not waiting:
            waiting.extend(name for name, known in self._transactions.items() if is_due(name, known))
        due: dict[str, Transaction] = {}
        while waiting and len(due) < most:
            name = waiting.popleft()
            known = self._transactions.get(name)
            if known is not None and is_due(name, known):
                due[name] = known
        return due

    def _fence(self, due: Mapping[str, Transaction], step: TransactionStep) -> None:
        """Aborts transactions without a request from their producers, and fences these producers."""

        def written(code: ErrorCode, then: TransactionStep) -> None:
            if code is ErrorCode.NONE:
                for transactional_id in due:
                    then.send(self._markers(transactional_id))
                return
            # The producers stay fenced although the write failed. The next attempt writes the same epoch.
            self._timed_out.clear()  # the next round has these transactions again
            self._timers.schedule(_ABORT_TIMED_OUT, then.now_ms + self._config.abort_timed_out_interval_ms)

        version = self._version()
        self._fences.update((name, known.producer_epoch) for name, known in due.items())
        self._write({name: fenced(known, version, step.now_ms) for name, known in due.items()}, step, written)

    def _remove_expired(self, now_ms: int) -> TransactionReady:
        def is_due(transactional_id: str, known: Transaction) -> bool:
            return (
                known.status in IDLE
                and now_ms - known.update_ms > self._config.id_expiration_ms
                and transactional_id not in self._pending
            )

        def written(code: ErrorCode, then: TransactionStep) -> None:
            if code is not ErrorCode.NONE:
                self._expired.clear()  # the next round has these ids again
                self._timers.schedule(_REMOVE_EXPIRED, then.now_ms + self._config.remove_expired_interval_ms)

        step: TransactionStep = Step(now_ms)
        self._write(dict.fromkeys(self._slice(self._expired, is_due, EXPIRED_AT_ONCE)), step, written)
        pause_ms = PAUSE_MS if self._expired else self._config.remove_expired_interval_ms
        self._timers.schedule(_REMOVE_EXPIRED, now_ms + pause_ms)
        return step.ready()

    # The log

    def _write(
        self,
        changes: Mapping[str, Transaction | None],
        step: TransactionStep,
        continuation: TransactionContinuation | None = None,
    ) -> None:
        """Appends the next state of each id. An id cannot change again before its record is committed or the write has
        failed.

        `continuation` is called after the commit or after the failure. If the write times out, its result is unknown
        until `replay` gets the record.
        """

        def written(code: ErrorCode, then: TransactionStep) -> None:
            if code is ErrorCode.REQUEST_TIMED_OUT:
                self._overdue.update(changes)
                return
            self._pending.difference_update(changes)
            if continuation is not None:
                continuation(code, then)

        for transactional_id, after in changes.items():
            assert transactional_id not in self._pending, f"{transactional_id!r} has a change on its way"
            before = self._transactions.get(transactional_id)
            status = TransactionStatus.DEAD if after is None else after.status
            legal = (
                status is TransactionStatus.EMPTY if before is None else before.status in LEGAL_BEFORE[status]
            )
            assert legal, f"{transactional_id!r} cannot become {status.label} from {before}"
            self._pending.add(transactional_id)
            step.append(TransactionRecord(transactional_id, after))
        step.when_written(written)

    def replay(
        self, record: TransactionRecord, _log_offset: int = -1, _producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Applies a committed record."""
        transactional_id, after = record.transactional_id, record.transaction
        if after is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = after
        self._fences.pop(transactional_id, None)
        # The write has timed out, and its continuation was not called, because the result is known only now.
        if transactional_id in self._overdue:
            self._overdue.discard(transactional_id)
            self._pending.remove(transactional_id)
            self._unmarked.pop(transactional_id, None)
            if after is not None and after.status in PREPARED:
                self._timers.schedule((_CARRY_OUT, transactional_id), AT_ONCE_MS)

    def end_transaction(self, _producer_id: int, *, committed: bool) -> None:
        """Does nothing. An operator can write a marker into this partition, but the partition has no transactional
        records."""

    def start(self, now_ms: int) -> TransactionReady:
        """Begins work after the whole log was replayed: completes the transactions whose end is already decided."""
        self._timers.schedule(_ABORT_TIMED_OUT, now_ms + self._config.abort_timed_out_interval_ms)
        self._timers.schedule(_REMOVE_EXPIRED, now_ms + self._config.remove_expired_interval_ms)
        decided = [name for name, known in self._transactions.items() if known.status in PREPARED]
        return Ready(sends=tuple(self._markers(name) for name in decided))

    def resign(self, _now_ms: int) -> TransactionReady:
        """Ends the work of this shard, because another broker becomes the coordinator. This method answers no request:
        each waiting request waits for the write of its records, and the caller answers it with an error."""
        return Ready()


def _answer(token: Token[AnswerT], response: AnswerT) -> TransactionReady:
    return Ready(replies=(Answer(token, response),))


def _needs_next_id(known: Transaction, client_version: int) -> bool:
    return client_version >= TV2 and known.epoch_is_exhausted


def _end_response(code: ErrorCode, known: Transaction | None, client_version: int) -> EndTxnResponse:
    """The response to EndTxn. In TV2 it has the producer id and epoch of the next transaction."""
    if code is not ErrorCode.NONE or known is None or client_version < TV2:
        return EndTxnResponse(error_code=code)
    if known.next_producer_id != NO_PRODUCER_ID:
        return EndTxnResponse(producer_id=known.next_producer_id, producer_epoch=0)
    return EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.producer_epoch)
