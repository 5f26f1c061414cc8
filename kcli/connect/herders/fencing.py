"""Fencing of zombies (KIP-618): no task of an old generation writes beside the tasks of the current one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kcli.connect.decisions.task_configs import tasks_to_fence
from kcli.connect.errors import BadRequest, NotLeader, RestError
from kcli.connect.herders.leadership import Leadership
from kcli.connect.herders.settings import HerderParts, HerderSettings
from kcli.connect.herders.turns import Turns
from kcli.connect.herders.views import Views
from kcli.connect.model import Config, ConnectorType, TaskId


class Fencing:
    """Fences the producers of the last generation of a connector's tasks. Only the leader does it."""

    def __init__(
        self,
        settings: HerderSettings,
        parts: HerderParts,
        leadership: Leadership,
        views: Views,
        turns: Turns,
    ) -> None:
        self._exactly_once = settings.exactly_once
        self._configs = parts.configs
        self._engine = parts.engine
        self._requests = parts.requests
        self._fence = parts.fence
        self._leadership = leadership
        self._views = views
        self._turns = turns
        self._locks: dict[str, asyncio.Lock] = {}

    def is_needed(self, config: Config) -> bool:
        """Whether the tasks of a connector write with exactly once, so that only one generation may write."""
        return self._exactly_once and self._engine.type_of(config) is ConnectorType.SOURCE

    async def anywhere(self, name: str) -> None:
        """Fences the last generation of tasks, at the leader."""
        try:
            await self.as_leader(name)
        except NotLeader as error:
            await self._requests.fence(error.url, name, self._configs.state.session_key)

    async def as_leader(self, name: str) -> None:
        """Raises NotLeader if another worker is the leader."""
        # All tasks of a connector ask at the same time. The first one fences, and the others find that it is done.
        async with self._locks.setdefault(name, asyncio.Lock()):
            tasks, generation = await self._turns.run(lambda: self._plan(name))
            if tasks:
                await self._fence(tasks)
            await self._turns.run(lambda: self._record(name, generation))

    async def _plan(self, name: str) -> tuple[Sequence[TaskId], int]:
        """The tasks whose producers must be fenced, and the generation that comes after them."""
        self._leadership.check()
        if self._engine.type_of(self._views.config(name)) is not ConnectorType.SOURCE:
            raise BadRequest(f"Connector {name} is not a source connector")
        await self._configs.refresh()
        state = self._configs.state
        return tasks_to_fence(state, name), state.generations.get(name, 0)

    async def _record(self, name: str, generation: int) -> None:
        """Writes that the tasks of a generation may start."""
        self._leadership.check()
        state = self._configs.state
        if state.generations.get(name, 0) != generation:
            raise RestError(
                "Failed to complete zombie fencing because a new set of task configs was generated", 409
            )
        if name in state.pending_fencing:
            count = len(state.tasks.get(name, ()))
            await self._leadership.write(
                f"writing a task count record for connector {name} to",
                self._configs.put_task_count_record(name, count),
            )
