"""One task of this worker: its process, its state, and its requests."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

from kcli.connect.model import State, TargetState, TaskId
from kcli.connect.stores.store import OffsetStore
from kcli.connect.tasks.spec import TaskSpec, packed
from kcli.connect.workers import admin, offsets
from kcli.connect.workers.child import Child, log_context
from kcli.connect.workers.nursery import Nursery
from kcli.formats.connect.errors import ConnectException

LOG = logging.getLogger("org.apache.kafka.connect.runtime.Worker")

T = TypeVar("T")

BUILD_TIMEOUT_S = 60.0
"""The longest time for the constructors and `configure` of a task's plugins."""


class TaskOwner(Protocol):
    """Learns what happens to a task."""

    def task_state(self, run: TaskRun, state: State, trace: str | None = None) -> None: ...
    def task_used_topic(self, run: TaskRun, topic: str) -> None: ...
    def task_metrics(self, run: TaskRun, body: object) -> None: ...
    def log_levels(self) -> Mapping[str, int]: ...

    @property
    def lease_end_s(self) -> float | None: ...


class TaskRun:
    """A task from its start to the end of its process. A failed task stays here until it is stopped."""

    def __init__(
        self,
        id: TaskId,
        owner: TaskOwner,
        version: str | None,
        *,
        target: TargetState,
        admin_properties: Mapping[str, str],
        may_start: Callable[[], Awaitable[bool]] | None,
    ) -> None:
        self.id = id
        self.version = version
        self.target = target
        self._owner = owner
        self._admin = admin_properties
        self._may_start = may_start
        self.store: OffsetStore | None = None
        """The offsets of a source task. Set before `start`."""
        self.worker_store: OffsetStore | None = None
        """With exactly once and an offsets topic of the connector: the store of the worker, which gets a copy."""
        self.state = State.UNASSIGNED
        """The last state that was reported."""
        self._child: Child | None = None
        self._built: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._stopping = asyncio.Event()
        self._has_ended = False
        self._killed_for = ""
        self._copies: set[asyncio.Task[None]] = set()
        self._copying = asyncio.Lock()
        self.ended = asyncio.Event()
        """Set when no process runs, and none will."""

    @property
    def context(self) -> str:
        return log_context(*self.id)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    async def start(self, nursery: Nursery, spec: TaskSpec) -> bool:
        """Starts the process. Returns whether the task and its plugins could be made."""
        if self._stopping.is_set():
            self._end(State.UNASSIGNED)
            self.ended.set()
            return False
        child = Child(self, self.context)
        content = packed(spec)
        await child.start(nursery)
        child.run(content, self._owner.log_levels())
        self._child = child
        if self._owner.lease_end_s is not None:
            child.note("lease", self._owner.lease_end_s)
        child.status.add_done_callback(self._process_ended)
        if spec.is_paused is (self.target is TargetState.STARTED):
            self.set_target(self.target)  # it has changed during the fork
        if self._has_ended:
            child.kill()  # its stop has timed out during the fork
        elif self._stopping.is_set():
            child.note("stop")
        try:
            async with asyncio.timeout(BUILD_TIMEOUT_S):
                return await asyncio.shield(self._built)
        except TimeoutError:
            self._killed_for = f"its plugins were not ready after {BUILD_TIMEOUT_S:.0f} s"
            child.kill()
            return await self._built

    def failed(self, trace: str) -> None:
        """The task failed, or was stopped, before it had a process."""
        if self._stopping.is_set():
            self._end(State.UNASSIGNED)
        else:
            self._end(State.FAILED, trace)
        self.ended.set()

    async def unless_stopped(self, work: Awaitable[T]) -> T:
        """Waits for a request to the herder. Raises ConnectException if the task is stopped meanwhile.

        A herder that stops the task holds its lock, and answers no requests until the task has stopped.
        """
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ConnectException(f"Task {self.id} was stopped before it has started")
            return working.result()
        finally:
            working.cancel()
            stopping.cancel()

    def note(self, method: str, body: object = None) -> None:
        if self._child is not None and not self.ended.is_set():
            self._child.note(method, body)

    def set_target(self, target: TargetState) -> None:
        """Pauses or resumes the task, or decides how it starts if it has no process yet."""
        self.target = target
        self.note("resume" if target is TargetState.STARTED else "pause")

    async def stop(self, timeout_s: float) -> None:
        """Asks the task to stop, and ends its process after the time-out."""
        self._stopping.set()
        # Without a process yet, `start` ends the task before the fork, or passes the order on after it.
        self.note("stop")
        try:
            async with asyncio.timeout(timeout_s):
                await self.ended.wait()
        except TimeoutError:
            LOG.error("Graceful stop of task %s failed.", self.id)
            # What the task still sends is ignored, because another worker may run it from now on.
            self._end(State.UNASSIGNED)
            if self._child is not None:
                self._child.kill()
                await self.ended.wait()

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    def _end(self, state: State, trace: str | None = None) -> None:
        """Reports the last state, once."""
        if self._has_ended:
            return
        self._has_ended = True
        self._owner.task_state(self, state, trace)

    def _process_ended(self, status: asyncio.Future[int]) -> None:
        if not self._has_ended:
            if self._stopping.is_set() or self._is_lease_over():
                # After the end of a lease, the worker stops all its work, and joins its group again.
                self._end(State.UNASSIGNED)
            else:
                self._end(State.FAILED, self._trace_of(status.result()))
        if not self._built.done():
            self._built.set_result(False)
        self.ended.set()

    def _is_lease_over(self) -> bool:
        end_s = self._owner.lease_end_s
        return end_s is not None and end_s <= asyncio.get_running_loop().time()

    def _trace_of(self, status: int) -> str:
        """The trace of a process that ended without a report."""
        reason = self._killed_for
        if not reason:
            reason = f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
        text = f"The process of task {self.id} has ended unexpectedly: {reason}"
        LOG.error("%s%s", self.context, text)
        return f"{ConnectException.java_class}: {text}\n"

    # The process calls these two methods.

    def noted(self, method: str, body: object) -> None:
        if self._has_ended:
            return
        match method, body:
            case "built", _:
                if not self._built.done():
                    self._built.set_result(True)
            case (("started" | "resumed"), _):
                self._owner.task_state(self, State.RUNNING)
            case "paused", _:
                self._owner.task_state(self, State.PAUSED)
            case "stopped", _:
                self._end(State.UNASSIGNED)
            case "failed", {"trace": str(trace)}:
                self._end(State.UNASSIGNED if self._stopping.is_set() else State.FAILED, trace)
            case "used_topic", {"topic": str(topic)}:
                self._owner.task_used_topic(self, topic)
            case "metrics", _:
                self._owner.task_metrics(self, body)
            case "offsets_committed", list():
                self._copy_offsets(body)

    async def answer(self, method: str, body: object) -> object:
        if self._has_ended:
            raise ConnectException(f"Task {self.id} has been cancelled")
        match method:
            case "get_offsets":
                return await offsets.get_offsets(self._stored, body)
            case "put_offsets":
                await offsets.put_offsets(self._stored, body)
                return None
            case "refresh_offsets":
                await self._stored.refresh()
                return None
            case "may_start":
                return self._may_start is None or await self.unless_stopped(self._may_start())
            case "topic_exists":
                return await admin.topic_exists(self._admin, body)
            case "create_topic":
                await admin.create_topic(self._admin, body)
                return None
        raise ConnectException(f"no such request: {method}")

    @property
    def _stored(self) -> OffsetStore:
        if self.store is None:
            raise ConnectException(f"Task {self.id} is not a source task")
        return self.store

    def _copy_offsets(self, body: object) -> None:
        """With exactly once, a connector's own offsets topic has the offsets. The worker's topic gets a copy."""
        if self.worker_store is not None:
            task = asyncio.get_running_loop().create_task(self._copy(self.worker_store, body))
            self._copies.add(task)
            task.add_done_callback(self._copied)

    async def _copy(self, store: OffsetStore, body: object) -> None:
        async with self._copying:  # so that an older offset is not written after a newer one
            await offsets.put_offsets(store, body)

    def _copied(self, task: asyncio.Task[None]) -> None:
        self._copies.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.warning("%sThe offsets could not be copied to the worker's topic: %s", self.context, error)
