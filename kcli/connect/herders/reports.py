"""Writes the states that the engine reports to the status store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from kcli.connect.model import State, Status, TargetState, TaskId
from kcli.connect.stores.store import StatusStore
from kcli.connect.workers.worker import Engine

SETTLE_SECONDS = 1.0
"""The longest wait of a read for changes that are on their way. Java's reads wait for a whole rebalance."""

_SAFE = (State.FAILED, State.UNASSIGNED)
"""States that must not replace a newer state, because another worker may run the task already."""


class StatusReports:
    """Implements StatusListener. A herder sets `generation` after each rebalance, and the functions that it wants."""

    def __init__(self, statuses: StatusStore, worker_id: str, *, tracks_topics: bool) -> None:
        self.generation = 0
        """The generation of the worker in its group, and 0 without a group."""
        self.on_reconfigure: Callable[[str], None] | None = None
        self.on_change: Callable[[TaskId, State], None] | None = None
        self._statuses = statuses
        self._worker_id = worker_id
        self._tracks_topics = tracks_topics
        self._news = asyncio.Event()
        """Set by each report, for reads that wait for one."""

    def changed(
        self, id: TaskId, state: State, *, trace: str | None = None, version: str | None = None
    ) -> None:
        status = Status(state, self._worker_id, self.generation, trace, version)
        self._statuses.put(id, status, safely=state in _SAFE)
        self._news.set()
        if self.on_change is not None:
            self.on_change(id, state)

    async def caught_up(self, engine: Engine, connector: str, target: TargetState, seconds: float) -> None:
        """Waits a moment until the tasks of a connector that run here have reported the state that a user wants."""
        wanted = {State.FAILED, State.PAUSED if target is TargetState.PAUSED else State.RUNNING}

        def is_late() -> bool:
            states = engine.task_states().items()
            return any(id.connector == connector and state not in wanted for id, state in states)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                while is_late():
                    self._news.clear()
                    await self._news.wait()
                await self._statuses.flush()

    def deleted(self, connector: str) -> None:
        """Forgets the statuses and the topics of a connector that is deleted."""
        for number in sorted(self._statuses.tasks(connector)):
            self.changed(TaskId(connector, number), State.DESTROYED)
        self.changed(TaskId(connector, -1), State.DESTROYED)

    def used_topic(self, task: TaskId, topic: str) -> None:
        if self._tracks_topics and topic not in self._statuses.topics(task.connector):
            self._statuses.put_topic(task, topic)

    def reconfigure(self, connector: str) -> None:
        if self.on_reconfigure is not None:
            self.on_reconfigure(connector)
