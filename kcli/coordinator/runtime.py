"""The contract between a coordinator shard and its shell, and the deadlines that a shard keeps.

A shard is a deterministic state machine that owns one partition of an internal topic. A call returns a `Ready`: records
for the shell to append and replies to send once those records are committed. The order is a contract: append, wait for
the high watermark, `replay` each record, call `written`, send the replies. If the append fails, `written` gets the
error and the requests in `replies` get that error instead. A `Ready` without records is sent at once. `sends` is work
outside the shard that is due with the replies: the shell does it and reports to the shard.

The records of a `Ready` that names a `producer` belong to that producer's transaction: they are pending until its
marker is in the log, which ends the transaction by `end_transaction`.

A reply names the request it answers by the token that came with it. So a parked request (a JoinGroup waiting for the
other members) is answered out of a later call, or out of a timer. The type of a token is that of its answer.

Type parameters: `RecordT` is what a shard writes, `SendT` the work that it asks of the shell.
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
    """A request that waits for its answer: a future of the shell. A shard only keeps it and hands it back."""

    def done(self) -> bool: ...
    def set_result(self, result: AnswerT_contra, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class Reply(Protocol):
    """An answer together with the request that it is for; the shell decides whether the request gets it."""

    def deliver(self) -> None: ...
    def refuse(self, error: KafkaError) -> None: ...


class Answer(NamedTuple, Generic[AnswerT]):
    """The one kind of `Reply`. Does nothing to a request that is not waiting: its connection may be closed."""

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
    """The producer in whose transaction records are written."""

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
        """Tells the shard that the records are committed, or why not; returns what the shard does next."""
        if not self.continuations:
            return Ready()
        step: Step[RecordT, SendT] = Step(now_ms)
        for continuation in self.continuations:
            continuation(code, step)
        return step.ready()


class Step(Generic[RecordT, SendT]):
    """A `Ready` in the making: one call of the shard, at one moment."""

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
        """Adds a call for when the records of the step are committed or have failed. Each part of a shard may add one.
        They are called in the order of addition."""
        self._continuations.append(continuation)

    def fail(self, code: ErrorCode) -> None:
        """Undoes the step: its records will not be written, and its replies not sent."""
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
"""Gets the fate of a write, and a new step to go on with."""


class Timers(Generic[KeyT]):
    """Deadlines by key, where moving a deadline further away is the common case (every heartbeat does it).

    Moving one back costs a dictionary write: the heap still holds the earlier moment, and when that comes the key is
    put back with its real deadline. Invariant: a key with a deadline has a heap entry at or before it.
    """

    __slots__ = ("_deadlines", "_heap", "_queued", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[KeyT, int] = {}
        self._queued: dict[KeyT, int] = {}
        self._heap: list[tuple[int, int, KeyT]] = []
        self._sequence = 0  # equal deadlines fire in the order they were set, and keys are never compared

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
        """The next moment at which `pop_expired` may find something; may be early, never late."""
        return self._heap[0][0] if self._heap else None

    def pop_expired(self, now_ms: int) -> KeyT | None:
        """Removes and returns the key whose deadline passed first, or None."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != queued_ms:
                continue  # an earlier entry took this one's place
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
