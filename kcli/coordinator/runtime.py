"""The contract between a coordinator's shard and its caller, the server code that runs the shard. This module also has
the timers of a shard.

A shard is a deterministic state machine that owns one partition of an internal topic. A call of the shard returns a
`Ready`. The `Ready` has records, which the caller must append, and replies, which the caller sends when these records
are committed. The caller does five things, in this order:

1. append the records;
2. wait until the high watermark has passed the records;
3. call `replay` with each record;
4. call `written`;
5. send the replies.

If the append fails, the caller calls `written` with the error, and sends the error in place of the replies. If a
`Ready` has no records, its replies are sent immediately. The field `sends` of a `Ready` lists work outside the shard,
such as writing markers. The caller begins this work when it sends the replies, and reports the result of the work to
the shard.

If a `Ready` names a `producer`, its records belong to that producer's transaction. The records are pending until the
marker of the transaction is in the log. The caller then calls `end_transaction`.

Each request comes with a token: a future of the caller, which gets the answer. A reply contains the token of its
request. So a later call or a timer can answer a request that waits, such as a JoinGroup that waits for other members.

Type parameters: `RecordT` is the type of records, `SendT` the type of work in `sends`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from kcli.errors import ErrorCode, KafkaError

RecordT = TypeVar("RecordT")
SendT = TypeVar("SendT")
KeyT = TypeVar("KeyT", bound=Hashable)
AnswerT = TypeVar("AnswerT")
AnswerT_contra = TypeVar("AnswerT_contra", contravariant=True)


class Token(Protocol[AnswerT_contra]):
    """A future of the caller, which gets the answer to a request. A shard only stores the token and puts it into the
    reply."""

    def done(self) -> bool: ...
    def set_result(self, result: AnswerT_contra, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class Reply(Protocol):
    """An answer and the token of its request. The caller sends the answer, or an error if the write failed."""

    def deliver(self) -> None: ...
    def refuse(self, error: KafkaError) -> None: ...


class Answer(NamedTuple, Generic[AnswerT]):
    """The only implementation of `Reply`. If the request no longer waits, for example because its connection is closed,
    the answer is dropped."""

    token: Token[AnswerT]
    response: AnswerT

    def deliver(self) -> None:
        if not self.token.done():
            self.token.set_result(self.response)

    def refuse(self, error: KafkaError) -> None:
        if not self.token.done():
            self.token.set_exception(error)


@dataclass(frozen=True, slots=True)
class Producer:
    """The transactional producer of the records in a `Ready`. The records belong to its open transaction."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Ready(Generic[RecordT, SendT]):
    records: tuple[RecordT, ...] = ()
    replies: tuple[Reply, ...] = ()
    sends: tuple[SendT, ...] = ()
    producer: Producer | None = None
    continuations: tuple[Continuation[RecordT, SendT], ...] = ()

    def written(self, code: ErrorCode, now_ms: int) -> Ready[RecordT, SendT]:
        """Reports the result of a write to the shard: NONE if the records are committed, or the error if the write
        failed. Returns the shard's next `Ready`."""
        if not self.continuations:
            return Ready()
        step: Step[RecordT, SendT] = Step(now_ms)
        for continuation in self.continuations:
            continuation(code, step)
        return step.ready()


class Step(Generic[RecordT, SendT]):
    """Collects the content of the `Ready` that one call of the shard returns. `now_ms` is the time of the call."""

    __slots__ = ("_continuations", "_producer", "_replies", "_sends", "now_ms", "records")

    def __init__(self, now_ms: int, producer: Producer | None = None) -> None:
        self.now_ms = now_ms
        self.records: list[RecordT] = []
        self._producer = producer
        self._replies: list[Reply] = []
        self._sends: list[SendT] = []
        self._continuations: list[Continuation[RecordT, SendT]] = []

    def append(self, record: RecordT) -> None:
        self.records.append(record)

    def reply(self, token: Token[AnswerT], response: AnswerT) -> None:
        self._replies.append(Answer(token, response))

    def send(self, work: SendT) -> None:
        self._sends.append(work)

    def when_written(self, continuation: Continuation[RecordT, SendT]) -> None:
        """Adds a function that is called when the records of the step are committed or their write has failed. Several
        parts of a shard can add a function. The functions are called in the order in which they were added."""
        self._continuations.append(continuation)

    def fail(self, code: ErrorCode) -> None:
        """Undoes the step. Its records will not be written, and its replies will not be sent."""
        for continuation in self._continuations:
            continuation(code, Step(self.now_ms))

    def ready(self) -> Ready[RecordT, SendT]:
        return Ready(
            tuple(self.records),
            tuple(self._replies),
            tuple(self._sends),
            self._producer,
            tuple(self._continuations),
        )


Continuation = Callable[[ErrorCode, Step[RecordT, SendT]], None]
"""A function in a `Ready`. It is called with a new `Step` when the records of the `Ready` are committed, or with an
error when their write has failed."""


class Timers(Generic[KeyT]):
    """Deadlines by key. Moving a deadline to a later time must be cheap, because every heartbeat does this.

    A move to a later time only writes to a dictionary. The heap still has the entry with the earlier time. At the
    earlier time, the key is put into the heap again with its real deadline. Invariant: a key with a deadline has a heap
    entry at or before that deadline.
    """

    __slots__ = ("_deadlines", "_heap", "_queued", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[KeyT, int] = {}
        self._queued: dict[KeyT, int] = {}
        self._heap: list[tuple[int, int, KeyT]] = []
        # Equal deadlines fire in the order in which they were set. Keys are never compared.
        self._sequence = 0

    def schedule(self, key: KeyT, deadline_ms: int) -> None:
        self._deadlines[key] = deadline_ms
        queued = self._queued.get(key)
        if queued is None or queued > deadline_ms:
            self._push(key, deadline_ms)

    def is_scheduled(self, key: KeyT) -> bool:
        return key in self._deadlines

    def cancel(self, key: KeyT) -> None:
        self._deadlines.pop(key, None)

    @property
    def next_deadline_ms(self) -> int | None:
        """The time at which the caller must call `pop_expired` next. This time may be before the first deadline. In
        this case, `pop_expired` returns None."""
        return self._heap[0][0] if self._heap else None

    def pop_expired(self, now_ms: int) -> KeyT | None:
        """Removes and returns the key with the earliest deadline. None if no deadline has passed."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != queued_ms:
                continue  # an entry with an earlier time replaced this one
            del self._queued[key]
            deadline_ms = self._deadlines.get(key)
            if deadline_ms is None:
                continue
            if deadline_ms > queued_ms:
                self._push(key, deadline_ms)
                continue
            del self._deadlines[key]
            return key
        return None

    def _push(self, key: KeyT, deadline_ms: int) -> None:
        self._queued[key] = deadline_ms
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))
