"""Restarts that a user asks for: of a connector, of a task, or of both together (KIP-745)."""

from __future__ import annotations

from kcli.connect.decisions.restart import restart_plan
from kcli.connect.errors import NotFound, NotLeader
from kcli.connect.herders.assigned_work import AssignedWork
from kcli.connect.herders.leadership import Leadership
from kcli.connect.herders.settings import HerderParts
from kcli.connect.herders.turns import Turns
from kcli.connect.herders.views import Views
from kcli.connect.model import CONNECTOR, ConnectorState, RestartRequest, State, TargetState, TaskId
from kcli.formats.connect.errors import ConnectException


class Restarts:
    """Restarts the work of this worker. For the work of other workers, it raises NotLeader or uses the config topic."""

    def __init__(
        self,
        parts: HerderParts,
        leadership: Leadership,
        work: AssignedWork,
        views: Views,
        turns: Turns,
    ) -> None:
        self._configs = parts.configs
        self._engine = parts.engine
        self._reports = parts.reports
        self._leadership = leadership
        self._work = work
        self._views = views
        self._turns = turns

    async def restart(self, request: RestartRequest) -> ConnectorState:
        """Asks all workers for the restart of a connector and its tasks, through the config topic."""

        async def act() -> ConnectorState:
            self._check_known(request.connector)
            self._leadership.check()
            await self._configs.put_restart_request(request)
            return restart_plan(request, self._views.connector_state(request.connector)).state

        return await self._turns.run(act)

    async def restart_here(self, request: RestartRequest) -> None:
        """Restarts the part of a connector that this worker runs. Called in a turn of the herder."""
        name, work = request.connector, self._work
        try:
            plan = restart_plan(request, self._views.connector_state(name))
        except NotFound:
            return
        restarts_connector = plan.restarts_connector and name in work.running.connectors
        tasks = [task for task in plan.tasks if task in work.running.tasks]
        if restarts_connector:
            await work.stop([name], [])
            self._reports.changed(TaskId(name, CONNECTOR), State.RESTARTING)
        if tasks:
            await self._engine.stop_tasks(tasks)
            for task in tasks:
                self._reports.changed(task, State.RESTARTING)
        if restarts_connector:
            work.start_connector(name)
        await work.start_tasks(tasks)

    async def restart_connector(self, name: str) -> None:
        async def act() -> None:
            self._check_known(name)
            if name not in self._work.running.connectors:
                raise NotLeader(self._leadership.owner_url(TaskId(name, CONNECTOR)))
            await self._work.stop([name], [])
            self._work.state = self._configs.state
            self._work.start_connector(name)

        await self._turns.run(act)

    async def restart_task(self, task: TaskId) -> None:
        async def act() -> None:
            self._check_known(task.connector)
            state = self._configs.state
            if not 0 <= task.task < len(state.tasks.get(task.connector, ())):
                # A stopped connector has old tasks only in its statuses. Java still knows their configurations.
                if state.target_states.get(task.connector) is TargetState.STOPPED:
                    raise NotLeader(None)
                raise NotFound(f"Unknown task: {task}")
            if task not in self._work.running.tasks:
                raise NotLeader(self._leadership.owner_url(task))
            await self._engine.stop_tasks([task])
            self._work.state = state
            if not await self._work.start_task(task):
                raise ConnectException(f"Failed to start task: {task}")

        await self._turns.run(act)

    def _check_known(self, name: str) -> None:
        if name not in self._configs.state.connectors:
            raise NotFound(f"Unknown connector: {name}")
