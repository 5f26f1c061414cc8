"""What every coordinator shard gives its shell, and the deadlines it keeps.

A shard is a deterministic state machine that owns one partition of an internal topic. A call returns a `Ready`: records
for the shell to append and replies to send once those records are committed. The order is a contract: append, wait for
the high watermark, `replay` each record, call `on_written`, send the replies. If the append fails, `on_written` learns
the error and the callers in `replies` get that error instead. A `Ready` without records is sent at once. `sends` is
work outside the shard that is due with the replies: the shell does it and reports to the shard.

The records of a `Ready` that names a `producer` belong to that producer's transaction: they are pending until its
marker is in the log, which ends the transaction by `end_transaction`.

A reply names the request it answers by the token that came with it, so a parked request (a JoinGroup waiting for the
other members) is answered out of a later call, or out of a timer.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kcli.errors import ErrorCode

RecordT = TypeVar("RecordT")

Token = object
"""Whatever the shell uses to tell its parked requests apart; a shard only hands it back."""


@dataclass(frozen=True, slots=True)
class Producer:
    """In whose transaction records are written. `guard` is what the verification of the transaction gave."""

    producer_id: int
    producer_epoch: int
    guard: object = None


@dataclass(frozen=True, slots=True)
class Ready(Generic[RecordT]):
    records: tuple[RecordT, ...] = ()
    replies: tuple[tuple[Token, object], ...] = ()
    on_written: Callable[[ErrorCode, int], Ready[RecordT]] | None = None
    producer: Producer | None = None
    sends: tuple[object, ...] = ()


class Step(Generic[RecordT]):
    """A `Ready` in the making: one call of the shard, at one moment."""

    __slots__ = ("now_ms", "on_written", "producer", "records", "replies", "sends")

    def __init__(self, now_ms: int, producer: Producer | None = None) -> None:
        self.now_ms = now_ms
        self.producer = producer
        self.sends: list[object] = []
        self.records: list[RecordT] = []
        self.replies: list[tuple[Token, object]] = []
        self.on_written: Callable[[ErrorCode, int], Ready[RecordT]] | None = None

    def append(
        self, record: RecordT, on_written: Callable[[ErrorCode, int], Ready[RecordT]] | None = None
    ) -> None:
        self.records.append(record)
        if on_written is not None:
            assert self.on_written is None, "one step, one continuation"
            self.on_written = on_written

    def reply(self, token: Token, response: object) -> None:
        self.replies.append((token, response))

    def ready(self) -> Ready[RecordT]:
        return Ready(
            tuple(self.records), tuple(self.replies), self.on_written, self.producer, tuple(self.sends)
        )


class Timers:
    """Deadlines by key, where moving a deadline further away is the common case (every heartbeat does it).

    Moving one back costs a dictionary write: the heap still holds the earlier moment, and when that comes the key is
    put back with its real deadline. Invariant: a key with a deadline has a heap entry at or before it.
    """

    __slots__ = ("_deadlines", "_heap", "_queued", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[Hashable, int] = {}
        self._queued: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._sequence = 0  # equal deadlines fire in the order they were set, and keys are never compared

    def schedule(self, key: Hashable, deadline_ms: int) -> None:
        self._deadlines[key] = deadline_ms
        queued = self._queued.get(key)
        if queued is None or queued > deadline_ms:
            self._push(key, deadline_ms)

    def is_scheduled(self, key: Hashable) -> bool:
        return key in self._deadlines

    def cancel(self, key: Hashable) -> None:
        self._deadlines.pop(key, None)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `pop_expired` is next worth calling; may be early, never late."""
        return self._heap[0][0] if self._heap else None

    def pop_expired(self, now_ms: int) -> Hashable | None:
        """The key whose deadline passed first, or None. It is forgotten: to run again it must be scheduled again."""
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

    def _push(self, key: Hashable, deadline_ms: int) -> None:
        self._queued[key] = deadline_ms
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, key))
