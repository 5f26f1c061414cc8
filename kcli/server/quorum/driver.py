"""Runs the raft node on the metadata log. A task passes one message after another to the raft node, and carries out the
decisions that the raft node returns (a `Ready`).

Messages come from other nodes, from the answers of the peers, from the flushes, and from the timer of the node. The
decisions in a `Ready` are carried out in the order of its fields. So no vote is sent before the vote is durable.

The appends of the active controller do not wait for this task. The event loop makes these appends immediately, so that
offsets are in the order of decisions. A thread flushes the log later. A flush includes all records that were appended
before the flush began.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, assert_never

from kcli.errors import (
    BrokerNotAvailableException,
    NotControllerException,
    OffsetOutOfRangeException,
    ShortageError,
    StorageError,
)
from kcli.model.ids import NO_LEADER, LeaderEpoch, Offset
from kcli.raft.election_state import ElectionState
from kcli.raft.messages import (
    Append,
    Batch,
    ControlBatch,
    DataBatch,
    Flushed,
    Message,
    Outgoing,
    Ready,
    Received,
    Reply,
    SnapshotChunk,
    SnapshotInstalled,
    Start,
    Tick,
    UpgradeKRaftVersion,
)
from kcli.raft.node import RaftNode
from kcli.raft.requests import QuorumResponse, RaftRequest, ReceivedBatch
from kcli.raft.states.candidate import Candidate
from kcli.raft.states.prospective import Prospective
from kcli.raft.states.table import State
from kcli.runtime.clock import Clock
from kcli.runtime.descriptors import SHORTAGE_PAUSE_S
from kcli.runtime.threads import DEFAULT_THREADS, QuorumThreads, run_in
from kcli.server.quorum.committed import CommittedMetadata
from kcli.server.quorum.counts import RaftCounts, RaftTimes
from kcli.server.quorum.metadata_log import MetadataLog

T = TypeVar("T")

_logger = logging.getLogger("kcli.server.RaftManager")

MAX_WAITING_REQUESTS = 1000
"""The most requests of other nodes that may wait for the raft node. A quorum has a few peers, and each peer and each
broker has one request in flight. A larger number means that a client floods the node."""

UNCOMMITTED_MAX = 10_000
"""The most appended batches for which the time until the commit is measured. There is a limit, because without a
majority no batch is ever committed."""


def _is_electing(state: State) -> bool:
    return isinstance(state, Candidate | Prospective)


@dataclass(frozen=True, slots=True)
class Appended:
    """A batch that is appended to the log but not yet committed."""

    base_offset: Offset
    last_offset: Offset
    epoch: LeaderEpoch
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class RaftAnswer:
    """The response to a request of another node. `records`: the bytes that a FetchResponse contains."""

    response: QuorumResponse
    records: bytes = b""


@dataclass(frozen=True, slots=True)
class _Waiting:
    future: asyncio.Future[RaftAnswer]
    max_bytes: int


class Sender(Protocol):
    """Sends requests to other servers. The driver gets the result as a message."""

    def send(self, outgoing: Outgoing) -> None: ...


class RaftDriver:
    """Runs the raft node from `start` to `stop`."""

    def __init__(
        self,
        node: RaftNode,
        log: MetadataLog,
        committed: CommittedMetadata,
        clock: Clock,
        *,
        on_step: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
        threads: QuorumThreads = DEFAULT_THREADS,
    ) -> None:
        """`on_step` is called when the raft node has processed a message, before the decisions of the node are carried
        out. `on_fatal` is called once, if a disk fails or kcli has a bug.
        """
        self.sender: Sender | None = None
        self._node = node
        self._log = log
        self._committed = committed
        self._clock = clock
        self._on_step = on_step
        self._on_fatal = on_fatal
        self._threads = threads
        self._inbox: deque[Message] = deque()
        # The decisions whose batches are not in the log yet, because the process has too few descriptors. Before they
        # are carried out, the node gets no message. The number is the time of the batches.
        self._unfinished: tuple[Ready, int] | None = None
        self._wake = asyncio.Event()
        self._flush = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._armed: float | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._token = 0
        self._has_ended = False
        self.counts = RaftCounts()
        self.times = RaftTimes()
        self._uncommitted: deque[tuple[Offset, float]] = deque(maxlen=UNCOMMITTED_MAX)
        self._leaderless_since: float | None = None
        self._last_leader: tuple[int, int] | None = None

    def start(self, start: Start) -> None:
        """Starts the node, which then begins to look for a leader or elects itself.

        First the raft node gets its stored state. Then it handles the requests of other nodes, including requests that
        came before this method was called. Without the stored state, the node could vote twice in one epoch.
        """
        self._inbox.appendleft(start)
        self._wake.set()
        self._tasks = [
            asyncio.create_task(self._run(), name="raft"),
            asyncio.create_task(self._flush_loop(), name="raft-flush"),
        ]

    async def stop(self) -> None:
        """Ends the tasks. Requests of other nodes that wait get BROKER_NOT_AVAILABLE."""
        self._end()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Messages.

    def post(self, message: Message) -> None:
        """Gives the node a message. Each source has one message at a time, so the queue stays short."""
        self._inbox.append(message)
        self._wake.set()

    def ask(self, request: RaftRequest, max_bytes: int = 0) -> asyncio.Future[RaftAnswer]:
        """Gives the node a request of another node. Raises BrokerNotAvailableException if too many requests wait.

        `max_bytes` limits the records of a response to Fetch.
        """
        token, future = self._new_token(max_bytes)
        self.post(Received(token, request))
        return future

    def upgrade(self, level: int) -> asyncio.Future[RaftAnswer]:
        """Gives the node a new level of kraft.version."""
        token, future = self._new_token(0)
        self.post(UpgradeKRaftVersion(token, level))
        return future

    def _new_token(self, max_bytes: int) -> tuple[int, asyncio.Future[RaftAnswer]]:
        if self._has_ended or len(self._waiting) >= MAX_WAITING_REQUESTS:
            raise BrokerNotAvailableException
        self._token += 1
        future: asyncio.Future[RaftAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[self._token] = _Waiting(future, max_bytes)
        return self._token, future

    def append(self, values: Sequence[bytes]) -> Appended:
        """Appends one batch of records. Raises StorageError if the disk fails, and NotControllerException if this node
        does not lead.

        If the process has too few descriptors, the batch is written later, and is committed only then. Until the write,
        every further append raises NotControllerException, because offsets must be in the order of decisions.
        """
        if self._unfinished is not None:
            raise NotControllerException
        ready = self._step(Append(tuple(values)))
        assert not ready.persist and ready.truncate is None, "an append changes no vote"
        now_ms, base_offset = self._clock.now_ms(), self._log.end_offset
        last_offset = Offset(base_offset + len(values) - 1)
        appended = Appended(base_offset, last_offset, ready.append[0].epoch, now_ms)
        try:
            self._finish(ready, now_ms)
        except ShortageError:  # the log directory has logged the error
            self._wake.set()
        except StorageError as error:
            self._fail(error)
            raise
        return appended

    # The tasks.

    async def _run(self) -> None:
        try:
            while True:
                while self._inbox or self._unfinished:
                    await self._finish_rest()
                    if self._inbox:
                        await self._execute(self._step(self._inbox.popleft()))
                self._wake.clear()
                began = self._clock.monotonic()
                await self._wake.wait()
                self.counts.idle_ns += int((self._clock.monotonic() - began) * 1_000_000_000)
        except Exception as error:
            # A disk has failed, or kcli has a bug. Without this call, no waiting request would get an answer.
            self._fail(error)

    async def _flush_loop(self) -> None:
        try:
            while True:
                await self._flush.wait()
                self._flush.clear()
                truncations = self._log.log.local.truncations
                try:
                    end_offset = await run_in(self._threads.flushes, self._log.flush)
                except ShortageError:  # the log directory has logged the error
                    await asyncio.sleep(SHORTAGE_PAUSE_S)
                    self._flush.set()
                    continue
                if truncations == self._log.log.local.truncations:
                    self.post(Flushed(end_offset))
                else:
                    # The flush may have covered records that other records have replaced.
                    self._flush.set()
        except Exception as error:
            self._fail(error)

    def _step(self, message: Message) -> Ready:
        now = self._clock.monotonic()
        ready = self._node.step(message, now)
        self._note_election(now)
        self._arm(self._node.deadline)
        self._on_step()
        return ready

    def _note_election(self, now: float) -> None:
        """Counts a new leader. Measures the time from the first candidacy of this node to the next leader."""
        leader = self._node.leader_id, self._node.epoch
        if leader[0] != NO_LEADER and leader != self._last_leader:
            self._last_leader = leader
            self.counts.new_leaders += 1
        if self._leaderless_since is not None:
            if self._node.leader_id != NO_LEADER and not _is_electing(self._node.state):
                self.times.election_ms.add((now - self._leaderless_since) * 1000)
                self._leaderless_since = None
        elif _is_electing(self._node.state):
            self._leaderless_since = now

    def _arm(self, deadline: float | None) -> None:
        if deadline == self._armed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed = deadline
        self._timer = None
        if deadline is not None:
            delay = max(0.0, deadline - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        self._armed = None
        self.post(Tick())

    # The duties.

    async def _execute(self, ready: Ready) -> None:
        for state in ready.persist:
            await self._persist(state)
        if ready.truncate is not None:
            self._committed.drop_ahead(NotControllerException())
            self._uncommitted.clear()
            await self._patiently(lambda: self._truncate(ready))
        if ready.write_snapshot is not None:
            await self._write_snapshot(ready.write_snapshot)
        self._unfinished = ready, self._clock.now_ms()
        await self._finish_rest()

    async def _truncate(self, ready: Ready) -> None:
        assert ready.truncate is not None
        self._log.truncate(ready.truncate)

    async def _persist(self, state: ElectionState) -> None:
        """Writes the vote of this node. The vote must be durable before the node sends it."""
        await self._patiently(lambda: run_in(self._threads.flushes, self._log.write_election_state, state))

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """Repeats the work while the process has too few descriptors. A ShortageError shows that nothing has
        changed."""
        while True:
            try:
                return await work()
            except ShortageError:  # the log directory has logged the error
                await asyncio.sleep(SHORTAGE_PAUSE_S)

    async def _finish_rest(self) -> None:
        async def finish() -> None:
            if self._unfinished is not None:
                self._finish(*self._unfinished)

        await self._patiently(finish)

    def _finish(self, ready: Ready, now_ms: int) -> None:
        """Carries out the decisions that need no wait. A ShortageError comes before a batch is written. Then the rest
        stays in `_unfinished`."""
        while ready.append:
            self._unfinished = ready, now_ms
            self._append(ready.append[0], now_ms)
            ready = replace(ready, append=ready.append[1:])
        self._unfinished = None
        if ready.flush:
            self._flush.set()
        for outgoing in ready.send:
            assert self.sender is not None
            self.sender.send(outgoing)
        for reply in ready.replies:
            self._reply(reply)
        if ready.apply is not None:
            self._log.log.set_high_watermark(ready.apply)
            self._note_commit(ready.apply)
            self._committed.commit(ready.apply)
        for shrunk in ready.shrunk:
            _logger.warning(
                "Voter %s now fetches the metadata log from offset %d, although it already had all records before "
                "offset %d. If its disk was replaced, committed metadata may be lost when another voter fails. Remove "
                "a voter from the quorum before its disk is replaced, and add it again afterwards",
                shrunk.voter.id,
                shrunk.end_offset,
                shrunk.former_end,
            )

    def _note_commit(self, high_watermark: Offset) -> None:
        now = self._clock.monotonic()
        while self._uncommitted and self._uncommitted[0][0] < high_watermark:
            _, appended = self._uncommitted.popleft()
            self.times.commit_ms.add((now - appended) * 1000)

    def _append(self, batch: Batch, now_ms: int) -> None:
        base_offset = self._log.end_offset
        match batch:
            case ControlBatch(epoch=epoch, records=records):
                last_offset = self._log.append_controls(records, epoch, now_ms)
            case DataBatch(epoch=epoch, values=values):
                last_offset = self._log.append_records(values, epoch, now_ms)
            case ReceivedBatch(epoch=epoch):
                self._log.append_received(batch.content, epoch)
                last_offset = Offset(batch.next_offset - 1)
            case _ as unreachable:
                assert_never(unreachable)
        if isinstance(batch, ReceivedBatch):
            self.counts.fetched_records += last_offset - base_offset + 1
        else:
            self.counts.appended_records += last_offset - base_offset + 1
            self._uncommitted.append((last_offset, self._clock.monotonic()))
        assert self._log.end_offset == last_offset + 1, "the node and the log count the same records"

    async def _write_snapshot(self, chunk: SnapshotChunk) -> None:
        """Writes a part of the leader's snapshot. After the last part the snapshot replaces the log."""
        snapshots, files, snapshot_id = self._log.snapshots, self._threads.files, chunk.snapshot_id
        await self._patiently(
            lambda: run_in(files, snapshots.download, snapshot_id, chunk.position, chunk.content)
        )
        if not chunk.is_last:
            return
        snapshot = await self._patiently(lambda: run_in(files, snapshots.finish_download))
        point = await run_in(files, self._committed.point_of, snapshot_id, snapshot)
        # The log is read before the snapshot replaces it. If the node is killed before its logs of these topics are
        # deleted, they stay as strays.
        removed = await self._patiently(lambda: run_in(files, self._log.removed_topics, self._log.end_offset))
        removed.add_missing(self._committed.point.image.topics, point.image.topics)
        self._log.removed_by_snapshots = removed
        self._committed.install(snapshot_id, point)

        async def install() -> SnapshotInstalled:
            return self._log.install(snapshot_id, snapshot)

        self._inbox.appendleft(await self._patiently(install))

    def _reply(self, reply: Reply) -> None:
        waiting = self._waiting.pop(reply.token, None)
        if waiting is None or waiting.future.done():
            return  # the client has gone, or the node stops
        records = b""
        if reply.read_from is not None:
            records = self._read(reply.read_from, waiting.max_bytes)
        waiting.future.set_result(RaftAnswer(reply.response, records))

    def _read(self, offset: Offset, max_bytes: int) -> bytes:
        """The records of a FetchResponse. Empty if the records were deleted after the raft node decided to send them.
        The replica then fetches again, and gets the id of a snapshot. Empty too if the process has too few descriptors.
        """
        try:
            return self._log.log.read(offset, max_bytes, end_offset=self._log.end_offset).read()
        except (OffsetOutOfRangeException, ShortageError):
            return b""

    # Failures.

    def _fail(self, error: BaseException) -> None:
        """Stops the raft node, because after a failed write or flush, no record may be reported as durable."""
        if not self._has_ended:
            self._end()
            self._on_fatal(error)

    def _end(self) -> None:
        self._has_ended = True
        for task in self._tasks:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, {}
        for request in waiting.values():
            if not request.future.done():
                request.future.set_exception(BrokerNotAvailableException())
