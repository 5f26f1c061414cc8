"""Runs one coordinator shard: appends its records, waits for the commit, sends its replies, and sets its timer.

The rules between a runner and its shard are in `coordinator.runtime`. Writes are collected for
`group.coordinator.append.linger.ms` and appended as one batch. When the high watermark is past this batch, the runner
replays its records and answers the waiting requests. On a single node, a batch is committed as soon as it is appended.
All calls to the shard come from the event loop, so the shard needs no lock. If the runner must wait for other replicas,
one task waits for all writes.

The server uses the shard through `call`, `run` and `ask`. Metrics use `look`. Only the time of the first three methods
is counted as the shard's work. Every call may change the shard's next deadline, so the timer is set after each call.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from kcli.coordinator.runtime import Answer, AnswerT, Ready, RecordT, SendT, Token
from kcli.coordinator.write_errors import write_error
from kcli.errors import ErrorCode, KafkaError, NotCoordinatorException, error_for
from kcli.model.ids import NO_PRODUCER_ID, Offset
from kcli.protocol.batches.batch import Record
from kcli.runtime.turns import TURN_COST_MAX, Turn, run_in_background
from kcli.server.coordinators.alarm import Alarm
from kcli.server.coordinators.shard_log import ControlMarker, RunnerSettings, ShardLog, Write, estimated_bytes
from kcli.server.coordinators.shard_times import ShardTimes
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.storage.log.producer_state import Verification

_log = logging.getLogger("kcli.server.CoordinatorRuntime")

T = TypeVar("T")
ShardRecordT = TypeVar("ShardRecordT")
ShardSendT = TypeVar("ShardSendT")

UNLIMITED_LINGER = -1
"""The linger time of -1, as in Kafka: there is no fixed linger time. Writes are then collected until the end of the
present iteration of the event loop."""

REPLY_COST = 20
"""The cost to send a reply. One step of a shard may have many replies: at the end of a join phase, every member of the
group gets one. Each reply is encoded and sent by the task of its request, which takes about 50 µs."""
REPLIES_AT_ONCE = TURN_COST_MAX // REPLY_COST


class Shard(Protocol[ShardRecordT, ShardSendT]):
    """The state machine that a runner calls."""

    @property
    def next_deadline_ms(self) -> int | None: ...
    def tick(self, now_ms: int) -> Ready[ShardRecordT, ShardSendT] | None:
        """Handles the earliest passed deadline. Returns None if no deadline has passed."""
        ...

    def replay(self, record: ShardRecordT, log_offset: int, producer_id: int, /) -> None: ...
    def end_transaction(self, producer_id: int, *, committed: bool) -> None: ...
    def start(self, now_ms: int) -> Ready[ShardRecordT, ShardSendT]: ...
    def resign(self, now_ms: int) -> Ready[ShardRecordT, ShardSendT]: ...


# A bound cannot contain other type variables. So mypy does not check that a runner and its shard have the same type
# parameters.
ShardT = TypeVar("ShardT", bound=Shard[Any, Any])


class ShardRunner(Generic[RecordT, SendT, ShardT]):
    """Runs one shard. The shard returns its results as `Ready`. `send` begins one of the pieces of work that a `Ready`
    lists in its field `sends`.
    """

    def __init__(
        self,
        shard: ShardT,
        partition: LeaderPartition,
        settings: RunnerSettings,
        *,
        encode: Callable[[RecordT], tuple[bytes, bytes | None]],
        now_ms: Callable[[], int],
        send: Callable[[SendT], None],
        broken: Callable[[], None],
        times: ShardTimes | None = None,
    ) -> None:
        """Makes the runner of a loaded shard. The runner calls `broken` if the shard cannot apply a record of its log.
        The owner must then stop the runner and load the shard again.
        """
        self._times = times or ShardTimes()
        self._send = send
        self._broken = broken
        self._shard = shard
        self.partition = partition
        self._settings = settings
        self._log = ShardLog(partition, settings, now_ms)
        self._encode = encode
        self._now_ms = now_ms
        self._loop = asyncio.get_running_loop()
        self._gathered: list[Write[RecordT, SendT]] = []
        self._gathered_bytes = 0
        self._flush_handle: asyncio.Handle | None = None
        self._in_flight: deque[tuple[Offset, list[Write[RecordT, SendT]]]] = deque()
        self._committer: asyncio.Task[None] | None = None
        self._alarm = Alarm(now_ms, self._tick)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    # --- ways to the shard

    def ask(self, question: Callable[[ShardT, int], T]) -> T:
        """Calls a function with the shard and the time (in ms), and returns the function's result."""
        began = self._loop.time()
        try:
            return self.look(question)
        finally:
            self._times.processing_ms.add((self._loop.time() - began) * 1000)

    def look(self, question: Callable[[ShardT, int], T]) -> T:
        """Does the same as `ask`, for metrics. Does not add the duration of the call to the coordinator's processing
        times.
        """
        try:
            return question(self._shard, self._now_ms())
        finally:
            self._wake_in_time()

    def run(self, step: Callable[[ShardT, int], Ready[RecordT, SendT]]) -> None:
        """Calls a function of the shard for which no request waits. Does nothing if another broker has the shard."""
        if not self._stopped:
            self._accept(self.ask(step))

    def call(
        self,
        step: Callable[[ShardT, Token[AnswerT], int], Ready[RecordT, SendT]],
        *,
        verification: Verification | None = None,
        shows_writes: bool = False,
    ) -> asyncio.Future[AnswerT]:
        """Calls a function of the shard for a request. Returns a future of the answer, which may be done already.

        If the records belong to a transaction, `verification` shows that the producer may write them. If `shows_writes`
        is True, the answer may depend on earlier writes that are not committed yet. The answer is then sent only after
        the commit of these writes. Raises NotCoordinatorException if another broker has the shard.
        """
        self._check_not_stopped()
        token: asyncio.Future[AnswerT] = self._loop.create_future()
        ready = self.ask(lambda shard, now_ms: step(shard, token, now_ms))
        if shows_writes and not ready.records:
            self._deliver_after_writes(ready)
        else:
            self._accept(ready, verification)
        return token

    def _accept(self, ready: Ready[RecordT, SendT], verification: Verification | None = None) -> None:
        """Carries out a `Ready`: writes its records, and sends its replies when the records are committed. If there are
        no records, the replies are sent immediately.
        """
        if not ready.records:
            self._deliver(ready)
            return
        now_ms = self._now_ms()
        records = [Record(-1, now_ms, *self._encode(record)) for record in ready.records]
        size_bytes = sum(map(estimated_bytes, records))
        self._gather(Write(ready, records, size_bytes, verification=verification))

    def end_transaction(self, marker: ControlMarker) -> asyncio.Future[None]:
        """Appends a marker after the collected writes. The future is done when the marker is committed and replayed.

        Raises NotCoordinatorException if another broker has the shard.
        """
        self._check_not_stopped()
        token: asyncio.Future[None] = self._loop.create_future()
        self._gather(Write(Ready(replies=(Answer(token, None),)), [], len(marker.batch), marker=marker))
        return token

    def _gather(self, write: Write[RecordT, SendT]) -> None:
        too_large = self._gathered_bytes + write.size_bytes > self._settings.max_batch_bytes
        if self._gathered and (write.is_alone or too_large):
            self._flush()
        self._gathered.append(write)
        self._gathered_bytes += write.size_bytes
        if write.is_alone:
            self._flush()
        elif self._flush_handle is None:
            self._schedule_flush()

    def _check_not_stopped(self) -> None:
        if self._stopped:
            raise NotCoordinatorException

    def spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """Runs work of the shard in a task. The task is cancelled when the runner stops."""
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def when_written(self) -> asyncio.Future[None] | None:
        """Returns None if all writes are committed. Otherwise returns a future that is done when the present writes are
        committed. The future raises KafkaError if a write fails.
        """
        if not self._gathered and not self._in_flight:
            return None
        token: asyncio.Future[None] = self._loop.create_future()
        self._deliver_after_writes(Ready(replies=(Answer(token, None),)))
        return token

    def _deliver_after_writes(self, ready: Ready[RecordT, SendT]) -> None:
        """Sends the replies of a `Ready` without records when the present writes are committed. If a write fails, sends
        an error.
        """
        write: Write[RecordT, SendT] = Write(ready, [], 0)
        if self._gathered:
            self._gathered.append(write)
        elif self._in_flight:
            _, writes = self._in_flight[-1]
            writes.append(write)
        else:
            self._deliver(ready)

    # --- the log

    def _schedule_flush(self) -> None:
        linger_ms = self._settings.linger_ms
        if linger_ms == 0:
            self._flush()
        elif linger_ms == UNLIMITED_LINGER:
            self._flush_handle = self._loop.call_soon(self._flush)
        else:
            self._flush_handle = self._loop.call_later(linger_ms / 1000, self._flush)

    def _flush(self) -> None:
        if self._flush_handle is not None:
            self._flush_handle.cancel()
            self._flush_handle = None
        writes, self._gathered = self._gathered, []
        self._gathered_bytes = 0
        if not writes:
            return
        began = self._loop.time()
        try:
            end_offset = self._log.append(writes)
            self._times.flush_ms.add((self._loop.time() - began) * 1000)
        except KafkaError as error:
            _log.warning("Writing to %s failed: %s", self.partition, error.message)
            self._finish(writes, error.code)
            return
        if not self._in_flight and self.partition.log.high_watermark >= end_offset:
            self._times.purgatory_ms.add((self._loop.time() - began) * 1000)
            self._finish(writes, ErrorCode.NONE)
            return
        writes[0].appended_at = began
        self._in_flight.append((end_offset, writes))
        if self._committer is None:
            self._committer = self._loop.create_task(
                self._await_commits(), name=f"commits of {self.partition}"
            )

    async def _await_commits(self) -> None:
        """Waits for the commits, and completes the appended writes in the order of the log. If a commit takes longer
        than the time limit, the requests get an error. Their records stay in the log, and are replayed if they are
        committed later.
        """
        while self._in_flight:
            end_offset, writes = self._in_flight[0]
            try:
                await self.partition.wait_committed(end_offset, self._settings.commit_timeout_ms / 1000)
            except KafkaError as error:
                if self._stopped or error.code is not ErrorCode.REQUEST_TIMED_OUT:
                    break  # the leadership has ended, and `stop` answers the callers
                for write in writes:
                    self._fail(write, error.code)
                continue
            self._in_flight.popleft()
            self._times.purgatory_ms.add((self._loop.time() - writes[0].appended_at) * 1000)
            self._finish(writes, ErrorCode.NONE)
        self._committer = None

    def _finish(self, writes: list[Write[RecordT, SendT]], code: ErrorCode) -> None:
        for number, write in enumerate(writes):
            if code is not ErrorCode.NONE:
                self._fail(write, code)
                continue
            try:
                next_ready = self.ask(partial(_replay, write))
            except Exception:
                # The state of the shard is not the state of its log any more, so the shard must be loaded again.
                _log.exception("Records of %s could not be applied", self.partition)
                self._in_flight.appendleft((Offset(0), writes[number:]))
                self._broken()
                return
            self._accept(next_ready)
            if write.failure is ErrorCode.NONE:
                self._deliver(write.ready)

    def _deliver(self, ready: Ready[RecordT, SendT]) -> None:
        if len(ready.replies) <= REPLIES_AT_ONCE:
            _answer(ready)
        else:
            # The replies are sent even if the runner is stopped meanwhile.
            run_in_background(_answer_in_slices(ready))
        for work in ready.sends:
            self._send(work)

    def _fail(self, write: Write[RecordT, SendT], code: ErrorCode) -> None:
        if write.failure is not ErrorCode.NONE:
            return
        write.failure = code
        self.run(lambda _, now_ms: write.ready.written(code, now_ms))
        self._answer_error(write.ready, write_error(code))

    def _answer_error(self, ready: Ready[RecordT, SendT], code: ErrorCode) -> None:
        for reply in ready.replies:
            reply.refuse(error_for(code))

    # --- time

    def _wake_in_time(self) -> None:
        deadline_ms = self._shard.next_deadline_ms
        if deadline_ms is not None and not self._stopped:
            self._alarm.set(deadline_ms)

    def _tick(self) -> None:
        # The time is read only once. A shard that works in slices sets the deadline of its next slice about a
        # millisecond later. So the loop ends before that slice, and other work can run.
        now_ms = self._now_ms()
        # Each deadline is a separate step, so that an error at one deadline does not affect the others.
        while (ready := self.ask(lambda shard, _: shard.tick(now_ms))) is not None:
            self._accept(ready)

    # --- the end

    def cancel_tasks(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    async def drain(self, timeout_s: float) -> None:
        """Writes the collected records before a clean stop. Raises KafkaError, or TimeoutError if the records are not
        committed in time.
        """
        self._flush()
        barrier = self.when_written()
        if barrier is not None:
            await asyncio.wait_for(barrier, timeout_s)

    def stop(self) -> None:
        """Stops the shard, after another broker has become its coordinator. Waiting requests are answered with
        NOT_COORDINATOR.
        """
        self._stopped = True
        self._alarm.cancel()
        self.cancel_tasks()
        for handle in (self._flush_handle, self._committer):
            if handle is not None:
                handle.cancel()
        self._committer = self._flush_handle = None
        writes = [write for _, batch in self._in_flight for write in batch] + self._gathered
        self._in_flight.clear()
        self._gathered = []
        for write in writes:
            if write.failure is ErrorCode.NONE:
                self._answer_error(write.ready, write_error(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        _answer(self._shard.resign(self._now_ms()))


def _answer(ready: Ready[RecordT, SendT]) -> None:
    for reply in ready.replies:
        reply.deliver()


async def _answer_in_slices(ready: Ready[RecordT, SendT]) -> None:
    pace = Turn()
    for reply in ready.replies:
        await pace(REPLY_COST)
        reply.deliver()


def _replay(write: Write[RecordT, SendT], shard: Shard[RecordT, SendT], now_ms: int) -> Ready[RecordT, SendT]:
    """Replays a committed write, and reports the commit to the shard. If the write has timed out, the shard has already
    got an error, and the commit is not reported. Returns the shard's next `Ready`.
    """
    if write.marker is not None:
        shard.end_transaction(write.marker.producer_id, committed=write.marker.committed)
    else:
        producer = write.ready.producer
        producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
        for record, offset in zip(write.ready.records, write.offsets, strict=True):
            shard.replay(record, offset, producer_id)
    return write.ready.written(ErrorCode.NONE, now_ms) if write.failure is ErrorCode.NONE else Ready()
