"""One connector of this worker: its Connector object in a process, and its state."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from kcli.connect.model import State
from kcli.connect.stores.store import OffsetStore
from kcli.connect.tasks.spec import ConnectorSpec, packed
from kcli.connect.workers import offsets
from kcli.connect.workers.child import Child, log_context
from kcli.connect.workers.nursery import Nursery
from kcli.formats.connect.errors import ConnectException

LOG = logging.getLogger("org.apache.kafka.connect.runtime.Worker")

IDLE_S = 1.0
"""The time that the process of a connector waits for the next call, because calls come in groups. A connector that
works between calls (`monitors`) keeps its process."""


class CallError(ConnectException):
    """A method of a connector raised an exception, whose class is `java_class` and whose trace is `trace`."""

    def __init__(self, java_class: str, message: str, trace: str) -> None:
        super().__init__(message)
        self.java_class = java_class  # type: ignore[misc]  # of the instance
        self.trace = trace


class ConnectorOwner(Protocol):
    """Learns what happens to a connector."""

    def connector_state(self, name: str, state: State, trace: str | None = None) -> None: ...
    def reconfigure(self, name: str) -> None: ...
    def log_levels(self) -> Mapping[str, int]: ...


class ConnectorProcess:
    """Calls the methods of a Connector object. Its process starts at the first call, and again after it has ended."""

    def __init__(
        self,
        spec: ConnectorSpec,
        owner: ConnectorOwner,
        nursery: Nursery,
        *,
        call_timeout_s: float,
        monitors: bool,
        store: Callable[[], Awaitable[OffsetStore]],
    ) -> None:
        self._spec = spec
        self._owner = owner
        self._nursery = nursery
        self._timeout_s = call_timeout_s
        self._monitors = monitors
        self._store = store
        self._child: Child | None = None
        self._result: asyncio.Future[object] | None = None
        self._calling = asyncio.Lock()
        self._is_overdue = False
        """Whether `close` no longer waits for the call, whose process may not have been forked yet."""
        self._idle: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def call(self, method: str, body: object = None, *, started: bool = True) -> object:
        """Calls a method. `started`: `start` must have been called before in this process.

        Raises CallError, or ConnectException if the process ends or takes too long.
        """
        await self._calling.acquire()
        # An answer has no number, so the next call may only begin when this one has its answer, even if its caller is
        # cancelled.
        exchange = asyncio.get_running_loop().create_task(self._call(method, body, is_started=started))
        exchange.add_done_callback(lambda _: self._calling.release())
        return await asyncio.shield(exchange)

    async def _call(self, method: str, body: object, *, is_started: bool) -> object:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._child is None:
            self._child = await self._new_child()
            if self._is_overdue:
                self._child.kill()
            if is_started and method != "start":
                await self._exchange("start", None)
        try:
            return await self._exchange(method, body)
        finally:
            if not self._monitors and self._child is not None:
                self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._end_idle)

    async def _new_child(self) -> Child:
        child = Child(self, log_context(self._spec.connector))
        content = packed(self._spec)
        await child.start(self._nursery)
        child.run(content, self._owner.log_levels())
        child.status.add_done_callback(lambda status: self._process_ended(child, status.result()))
        return child

    async def _exchange(self, method: str, body: object) -> object:
        child = self._child
        if child is None:
            raise ConnectException(f"The process of connector {self._spec.connector} has ended")
        self._result = asyncio.get_running_loop().create_future()
        child.note(method, body)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._result
        except TimeoutError:
            self._child = None
            child.kill()
            raise ConnectException(
                f"The connector {self._spec.connector} did not return from '{method}' in {self._timeout_s:.0f} s"
            ) from None
        finally:
            self._result = None

    async def close(self, timeout_s: float) -> None:
        """Stops the Connector object, and ends its process. A call that takes longer than the time-out fails."""
        if self._calling.locked():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s), self._calling:
                    pass
            if self._calling.locked():
                LOG.error("Graceful stop of connector %s failed; its process is ended.", self._spec.connector)
                self._is_overdue = True
                if self._child is not None:
                    self._child.kill()
        async with self._calling:
            self._is_overdue = False
            if self._idle is not None:
                self._idle.cancel()
                self._idle = None
            child, self._child = self._child, None
        if child is not None:
            await _ended(child, timeout_s)

    def note(self, method: str, body: object) -> None:
        if self._child is not None:
            self._child.note(method, body)

    def _end_idle(self) -> None:
        self._idle = None
        child, self._child = self._child, None
        if child is not None:
            task = asyncio.get_running_loop().create_task(_ended(child, self._timeout_s))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _process_ended(self, child: Child, status: int) -> None:
        if child is not self._child:
            return
        self._child = None
        text = f"The process of connector {self._spec.connector} has ended unexpectedly with status {status}"
        if self._result is not None and not self._result.done():
            self._result.set_exception(ConnectException(text))
        elif self._monitors:
            trace = f"{ConnectException.java_class}: {text}\n"
            self._owner.connector_state(self._spec.connector, State.FAILED, trace)

    # The process calls these two methods.

    def noted(self, method: str, body: object) -> None:
        match method, body:
            case "result", {"value": value}:
                if self._result is not None and not self._result.done():
                    self._result.set_result(value)
            case "result", {"error": {"class": str(name), "message": str(message), "trace": str(trace)}}:
                if self._result is not None and not self._result.done():
                    self._result.set_exception(CallError(name, message, trace))
            case "reconfigure", _:
                self._owner.reconfigure(self._spec.connector)
            case "failed", {"trace": str(trace)}:
                self._owner.connector_state(self._spec.connector, State.FAILED, trace)

    async def answer(self, method: str, body: object) -> object:
        if method == "get_offsets":
            return await offsets.get_offsets(await self._store(), body)
        raise ConnectException(f"no such request: {method}")


async def _ended(child: Child, timeout_s: float) -> None:
    """Asks a process to stop, and ends it after the time-out."""
    child.note("stop")
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.shield(child.status)
    except TimeoutError:
        LOG.error("Graceful stop of connector failed; its process is ended.")
        child.kill()
        await asyncio.shield(child.status)
