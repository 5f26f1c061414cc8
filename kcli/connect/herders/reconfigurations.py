"""Work of connectors beside a herder: their start, and the configurations of their tasks.

A user's code may take any time for it. A failure is tried again, with longer and longer waits, as in Java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from kcli.connect.errors import TooManyTasks

_log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")

BACKOFF_FIRST_SECONDS = 0.25
BACKOFF_MAX_SECONDS = 60.0
"""Java's RECONFIGURE_CONNECTOR_TASKS_BACKOFF_INITIAL_MS and …_MAX_MS."""


class Reconfigurations:
    """At most one piece of work for each connector. `reconfigure` is called until it raises no error."""

    def __init__(
        self, reconfigure: Callable[[str], Awaitable[None]], *, on_end: Callable[[], None] = lambda: None
    ) -> None:
        """`on_end` is called after each start, and after each piece of work."""
        self._reconfigure = reconfigure
        self._on_end = on_end
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._starting: set[str] = set()
        """Connectors whose start is going on."""

    def start(self, name: str, *, after: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Configures the tasks of a connector, if `after` returns True. Work that is going on starts again."""
        before = self._tasks.get(name)
        if before is not None and after is None and before.get_name() == _STARTING:
            return  # a start ends with a configuration of the tasks
        self.cancel(name)
        task = asyncio.create_task(self._run(name, after), name=_STARTING if after is not None else _ASKING)
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._forget(name, task))

    def is_busy(self, name: str) -> bool:
        """Whether a connector starts, or is asked for the configurations of its tasks."""
        return name in self._tasks

    @property
    def are_starting(self) -> bool:
        """Whether a connector starts."""
        return bool(self._starting)

    def cancel(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        self._on_end()

    async def _run(self, name: str, after: Callable[[], Awaitable[bool]] | None) -> None:
        if after is not None and not await self._started(name, after):
            return
        seconds = BACKOFF_FIRST_SECONDS
        while True:
            try:
                await self._reconfigure(name)
                return
            except TooManyTasks as error:
                _log.error("Connector %s: %s", name, error)
                return
            except Exception as error:
                _log.error(
                    "Failed to reconfigure connector's tasks (%s), retrying after backoff: %s", name, error
                )
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, BACKOFF_MAX_SECONDS)

    async def _started(self, name: str, after: Callable[[], Awaitable[bool]]) -> bool:
        self._starting.add(name)
        try:
            return await after()
        finally:
            self._starting.discard(name)
            self._on_end()


_STARTING = "start of a connector"
_ASKING = "configuration of tasks"
