"""Restarts failed connectors and tasks whose configuration asks for it. Java's Connect leaves them failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kcli.connect.config.connector_keys import RestartBackoff
from kcli.connect.model import CONNECTOR, State, TaskId
from kcli.runtime.clock import Clock

_log = logging.getLogger("kcli.connect.restarts")


class AutoRestarts:
    """Hears of every state of this worker's connectors and tasks.

    `backoff_of` returns None for a connector that is not restarted. The times between restarts double until the work
    has run for the longest of them.
    """

    def __init__(
        self,
        backoff_of: Callable[[str], RestartBackoff | None],
        restart_connector: Callable[[str], Awaitable[None]],
        restart_task: Callable[[TaskId], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._backoff_of = backoff_of
        self._restart_connector = restart_connector
        self._restart_task = restart_task
        self._clock = clock
        self._failed: set[TaskId] = set()
        self._waiting: dict[TaskId, asyncio.Task[None]] = {}
        """One restart of each connector or task, before its time."""
        self._restarts: dict[TaskId, tuple[int, float]] = {}
        """The restarts in a row, and the monotonic time of the last one in seconds."""

    def changed(self, id: TaskId, state: State) -> None:
        if state is not State.FAILED:
            self._failed.discard(id)
            return
        self._failed.add(id)
        backoff = self._backoff_of(id.connector)
        if backoff is not None and id not in self._waiting:
            self._waiting[id] = asyncio.create_task(self._restart_after(id, backoff))

    async def close(self) -> None:
        waiting = list(self._waiting.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _restart_after(self, id: TaskId, backoff: RestartBackoff) -> None:
        count, last_s = self._restarts.get(id, (0, 0.0))
        if self._clock.monotonic() - last_s >= backoff.max_ms / 1000:
            count = 0
        seconds = min(backoff.first_ms << min(count, MOST_DOUBLINGS), backoff.max_ms) / 1000
        kind = "worker" if id.task == CONNECTOR else f"task-{id.task}"
        context = f"[{id.connector}|{kind}]"
        what = "connector" if id.task == CONNECTOR else "task"
        _log.info("%s The failed %s is restarted in %g s", context, what, seconds)
        try:
            await asyncio.sleep(seconds)
        finally:
            del self._waiting[id]
        if id not in self._failed:
            self._restarts.pop(id, None)
            return  # a user was faster, or another worker has it
        self._failed.discard(id)
        self._restarts[id] = (count + 1, self._clock.monotonic())
        try:
            if id.task == CONNECTOR:
                await self._restart_connector(id.connector)
            else:
                await self._restart_task(id)
        except Exception as error:
            _log.warning("%s The failed %s was not restarted: %s", context, what, error)


MOST_DOUBLINGS = 40
"""The doublings after which every time is the longest one."""
