"""The connectors and tasks that a worker of a group runs: their start and their stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from kcli.connect.decisions.config_state import ConfigState
from kcli.connect.herders.fencing import Fencing
from kcli.connect.herders.group import GroupAssignment, Work
from kcli.connect.herders.reconfigurations import Reconfigurations
from kcli.connect.herders.settings import HerderParts
from kcli.connect.herders.stage import Stages
from kcli.connect.herders.turns import Turns
from kcli.connect.model import TargetState, TaskId
from kcli.connect.workers.worker import TaskStart
from kcli.formats.connect.errors import ConnectException
from kcli.runtime.turns import in_turn, next_turn

_log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")


class AssignedWork:
    """Starts and stops what the leader has assigned to this worker. Called in turns of the herder."""

    def __init__(
        self,
        parts: HerderParts,
        fencing: Fencing,
        reconfigurations: Reconfigurations,
        turns: Turns,
        stages: Stages,
    ) -> None:
        self._configs = parts.configs
        self._engine = parts.engine
        self._fencing = fencing
        self._reconfigurations = reconfigurations
        self._turns = turns
        self._stages = stages
        self.state = ConfigState()
        """The configurations with which work starts. They may be older than those of the store."""
        self.running = Work()
        self._restarting: set[TaskId] = set()
        """Tasks that were stopped for new configurations, and start again if they are still assigned."""
        self._starting: set[asyncio.Task[bool]] = set()
        """Starts of tasks with exactly once."""

    def target(self, name: str) -> TargetState:
        """The state that a user wants for a connector."""
        return self.state.target_states.get(name, TargetState.STARTED)

    # Starts.

    async def start(self, assignment: GroupAssignment) -> None:
        """Starts the work of an assignment that does not run yet."""
        connectors = assignment.connectors - self.running.connectors
        tasks = assignment.tasks - (self.running.tasks - self._restarting)
        self._restarting.clear()
        stage = f"starting {len(connectors) + len(tasks)} connector(s) and task(s) after a rebalance"
        with self._stages.stage(stage):
            for name in sorted(connectors):
                await next_turn()  # a worker that joins may get a thousand connectors
                self.start_connector(name)
            await self.start_tasks(sorted(tasks))
        self.running = Work(assignment.connectors, assignment.tasks)

    def start_connector(self, name: str) -> None:
        """Starts a connector beside the herder's work, and then configures its tasks."""
        config, target = self.state.connectors[name], self.target(name)

        async def start() -> bool:
            try:
                await self._engine.start_connector(name, config, target)
            except Exception as error:
                _log.error("Failed to start connector '%s': %s", name, error)
                return False
            return target is TargetState.STARTED

        self._reconfigurations.start(name, after=start)

    async def start_tasks(self, tasks: Sequence[TaskId]) -> None:
        await asyncio.gather(*(in_turn(self.start_task, task) for task in tasks))

    async def start_task(self, task: TaskId) -> bool:
        """Returns whether the task could be started. With exactly once, the herder does not wait for the start."""
        state = self.state
        config, configs = state.connectors[task.connector], state.tasks[task.connector]
        is_exactly_once = self._fencing.is_needed(config)
        generation = state.generations.get(task.connector, 0)
        start = TaskStart(
            task,
            config,
            configs[task.task],
            self.target(task.connector),
            task_count=len(configs),
            fence=(lambda: self._fencing.anywhere(task.connector)) if is_exactly_once else None,
            may_start=(lambda: self._check_task(task, generation)) if is_exactly_once else None,
        )
        if not is_exactly_once:
            return await self._engine.start_task(start)
        # Its fencing and its checks are requests to this herder, so the herder must not wait for them.
        starting = asyncio.create_task(self._engine.start_task(start))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        return True

    async def _check_task(self, task: TaskId, generation: int) -> bool:
        """Whether a task with exactly once is still current. Raises ConnectException with Java's reason."""
        await self._configs.refresh()

        async def check() -> bool:
            if self._configs.state.generations.get(task.connector, 0) != generation:
                raise ConnectException(
                    f"Cannot start source task {task} with exactly-once support as the connector has already "
                    "generated a new set of task configs"
                )
            if task not in self.running.tasks:
                raise ConnectException(
                    f"Cannot start source task {task} as it has already been revoked from this worker"
                )
            return True

        return await self._turns.run(check)

    # Stops.

    async def stop(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> None:
        """Stops work that may start again here."""
        for name in connectors:
            self._reconfigurations.cancel(name)
        await asyncio.gather(
            *(self._engine.stop_connector(name) for name in connectors), self._engine.stop_tasks(tasks)
        )

    async def give_up(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> None:
        """Stops work that another worker may start."""
        await self.stop(connectors, tasks)
        self.running = self.running.without(connectors, tasks)

    # Changes of configurations.

    async def restart_changed(self, names: set[str]) -> None:
        """Restarts connectors with their new configurations, and stops those that were deleted."""
        for name in sorted(names & self.running.connectors):
            with self._stages.stage(f"stopping connector {name}"):
                await self.stop([name], [])
            if name in self.state.connectors:
                self.start_connector(name)

    async def set_target_state(self, name: str) -> None:
        target = self.target(name)
        await self._engine.set_target_state(name, target)
        if target is TargetState.STARTED and name in self._engine.connector_names():
            self._reconfigurations.start(name)

    async def stop_changed_tasks(self, names: set[str]) -> None:
        """Stops the tasks of connectors that have new task configurations. The next rebalance starts them."""
        tasks = sorted(task for task in self.running.tasks if task.connector in names)
        if not tasks:
            return
        with self._stages.stage(f"stopping {len(tasks)} reconfigured tasks"):
            await self._engine.stop_tasks(tasks)
        self._restarting.update(tasks)
