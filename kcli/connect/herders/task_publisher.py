"""The way of a connector's task configurations to the config topic."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.connect.decisions.task_configs import java_ordered, task_configs_changed
from kcli.connect.errors import BadRequest
from kcli.connect.herders.leadership import Leadership
from kcli.connect.herders.settings import HerderParts, HerderSettings
from kcli.connect.herders.turns import Turns
from kcli.connect.model import Config, TargetState


class TaskPublisher:
    """Publishes the configurations of tasks. The leader writes them, and another worker sends them to the leader.

    Workers without REST servers cannot send them, so each worker writes those of its own connectors.
    """

    def __init__(
        self, settings: HerderSettings, parts: HerderParts, leadership: Leadership, turns: Turns
    ) -> None:
        self._any_worker_writes = settings.any_worker_writes_tasks
        self._configs = parts.configs
        self._engine = parts.engine
        self._requests = parts.requests
        self._leadership = leadership
        self._turns = turns

    async def publish(self, name: str) -> None:
        """Asks a connector for the configurations of its tasks, and publishes them if they have changed."""
        state = self._configs.state
        target = state.target_states.get(name, TargetState.STARTED)
        if name not in self._engine.connector_names() or target is not TargetState.STARTED:
            return
        config = state.connectors.get(name)
        configs = [java_ordered(task) for task in await self._engine.task_configs(name)]
        state = self._configs.state
        if config is None or not task_configs_changed(state, name, configs):
            return

        async def write_here() -> bool:
            may_write = self._leadership.is_leader or self._any_worker_writes
            if may_write:
                await self.write(name, configs)
            return may_write

        if not await self._turns.run(write_here):
            await self._requests.put_task_configs(self._leadership.url, name, configs, state.session_key)

    async def write(self, name: str, configs: Sequence[Config]) -> None:
        """Writes the configurations to the config topic, in a turn of the herder."""
        target = self._configs.state.target_states.get(name)
        if configs and target is TargetState.STOPPED:
            raise BadRequest(f"Cannot submit non-empty set of task configs for stopped connector {name}")
        await self._leadership.write(
            f"writing {len(configs)} task configs for connector {name} to",
            self._configs.put_task_configs(name, configs),
        )
