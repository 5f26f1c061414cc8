"""The herder of a single worker: it runs all connectors, and keeps their configurations and states in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from kcli.connect.decisions.config_state import ConfigState, SessionKey
from kcli.connect.decisions.restart import restart_plan
from kcli.connect.decisions.task_configs import java_ordered, patched, task_configs_changed
from kcli.connect.errors import AlreadyExists, NotFound, RestError
from kcli.connect.herders.auto_restarts import AutoRestarts
from kcli.connect.herders.herder import Created, Health
from kcli.connect.herders.logger_levels import LoggerLevels
from kcli.connect.herders.old_offsets import log_old_offsets
from kcli.connect.herders.reconfigurations import Reconfigurations
from kcli.connect.herders.reports import SETTLE_SECONDS, StatusReports
from kcli.connect.herders.stage import Stages
from kcli.connect.herders.validator import Validator
from kcli.connect.herders.views import Views, check_errors
from kcli.connect.model import (
    Config,
    ConnectorInfo,
    ConnectorState,
    InternalSignature,
    RestartRequest,
    SourceOffsets,
    State,
    TargetState,
    TaskId,
)
from kcli.connect.stores.store import ConfigStore, StatusStore
from kcli.connect.workers.worker import Engine, TaskStart
from kcli.runtime.clock import Clock
from kcli.runtime.turns import in_turn

_log = logging.getLogger("org.apache.kafka.connect.runtime.standalone.StandaloneHerder")


class StandaloneHerder:
    """Implements `Herder`. One operation of a connector comes after another."""

    def __init__(
        self,
        *,
        kafka_cluster_id: str,
        configs: ConfigStore,
        statuses: StatusStore,
        reports: StatusReports,
        engine: Engine,
        validator: Validator,
        clock: Clock,
    ) -> None:
        self.kafka_cluster_id = kafka_cluster_id
        self.validator = validator
        self.loggers = LoggerLevels(clock, engine.set_log_level)
        self.views = Views(lambda: configs.state, statuses, engine)
        self._configs = configs
        self._statuses = statuses
        self._engine = engine
        self._stages = Stages(clock)
        self._reconfigurations = Reconfigurations(self._configure_tasks)
        self._reports = reports
        self._auto_restarts = AutoRestarts(
            self.views.restart_backoff, self.restart_connector, self.restart_task, clock
        )
        reports.on_reconfigure = self._reconfigurations.start
        reports.on_change = self._auto_restarts.changed
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        await self._statuses.start()
        await self._configs.start(_NoListener())
        _log.info("Herder started")

    async def stop(self) -> None:
        _log.info("Herder stopping")
        await self._auto_restarts.close()
        await self._reconfigurations.close()
        names, tasks = self._engine.connector_names(), self._engine.task_ids()
        await asyncio.gather(self._engine.stop_tasks(tasks), *map(self._engine.stop_connector, names))
        await self._engine.close()
        await self._statuses.stop()
        await self._configs.stop()
        _log.info("Herder stopped")

    def health(self) -> Health:
        return Health(is_ready=True, stage=self._stages.text)

    @property
    def rebalance_delay_ms(self) -> int:
        return 0

    async def ping(self) -> None:
        async with self._lock:
            return

    async def settled(self, connector: str | None = None) -> None:
        if connector is not None:
            await self._reports.caught_up(self._engine, connector, self._target(connector), SETTLE_SECONDS)

    # Configurations.

    async def put_config(
        self, name: str, config: Config, target: TargetState | None, *, may_replace: bool
    ) -> Created:
        """Starts the connector and its tasks. Raises the error of a connector that cannot start."""
        check_errors(await self.validator.validate(config))
        async with self._lock:
            is_new = name not in self._state.connectors
            if not is_new and not may_replace:
                raise AlreadyExists(f"Connector {name} already exists")
            if is_new:
                await log_old_offsets(self._engine, name, config)
            else:
                await self._stop_connector(name)
            await self._configs.put_connector(name, config, target)
            await self._start_connector(name)
            await self._configure_tasks_now(name)
            return Created(is_new, self.views.info(name))

    async def patch_config(self, name: str, patch: Config) -> ConnectorInfo:
        config = patched(self.views.config(name), patch)
        return (await self.put_config(name, config, None, may_replace=True)).info

    async def delete(self, name: str) -> None:
        async with self._lock:
            self.views.config(name)
            await self._remove_tasks(name)
            await self._stop_connector(name)
            await self._configs.remove_connector(name)
            self._reports.deleted(name)
            self._statuses.delete_topics(name)

    @property
    def _state(self) -> ConfigState:
        return self._configs.state

    def _target(self, name: str) -> TargetState:
        return self._state.target_states.get(name, TargetState.STARTED)

    async def _start_connector(self, name: str) -> None:
        config = self._state.connectors[name]
        with self._stages.stage(f"starting connector {name}"):
            await self._engine.start_connector(name, config, self._target(name))

    async def _stop_connector(self, name: str) -> None:
        self._reconfigurations.cancel(name)
        await self._engine.stop_connector(name)

    # Tasks.

    async def _configure_tasks(self, name: str) -> None:
        async with self._lock:
            await self._configure_tasks_now(name)

    async def _configure_tasks_now(self, name: str) -> None:
        state = self._state
        if name not in self._engine.connector_names() or self._target(name) is not TargetState.STARTED:
            return
        configs = [java_ordered(task) for task in await self._engine.task_configs(name)]
        if not task_configs_changed(state, name, configs):
            return
        await self._remove_tasks(name)
        await self._configs.put_task_configs(name, configs)
        await self._start_tasks(self.views.task_ids(name))

    async def _start_tasks(self, tasks: Sequence[TaskId]) -> None:
        await asyncio.gather(*(in_turn(self._start_task, task) for task in tasks))

    async def _start_task(self, task: TaskId) -> bool:
        state, name = self._state, task.connector
        configs = state.tasks[name]
        start = TaskStart(
            task,
            state.connectors[name],
            configs[task.task],
            self._target(name),
            task_count=len(configs),
        )
        return await self._engine.start_task(start)

    async def _remove_tasks(self, name: str) -> None:
        tasks = self.views.task_ids(name)
        if not tasks:
            return
        with self._stages.stage(f"stopping {len(tasks)} tasks of connector {name}"):
            await self._engine.stop_tasks(tasks)
        await self._configs.put_task_configs(name, [])
        for task in tasks:
            self._reports.changed(task, State.DESTROYED)

    # States.

    async def pause(self, name: str) -> None:
        await self._set_target(name, TargetState.PAUSED)

    async def resume(self, name: str) -> None:
        await self._set_target(name, TargetState.STARTED)

    async def _set_target(self, name: str, target: TargetState) -> None:
        if name not in self._state.connectors:
            raise NotFound(f"Unknown connector {name}")
        async with self._lock:
            await self._put_target(name, target)

    async def _put_target(self, name: str, target: TargetState) -> None:
        await self._configs.put_target_state(name, target)
        await self._engine.set_target_state(name, target)
        if target is TargetState.STARTED:
            self._reconfigurations.start(name)

    async def stop_connector(self, name: str) -> None:
        async with self._lock:
            if name not in self._state.connectors:
                raise RestError(f"No connector `{name}` configured")
            await self._remove_tasks(name)
            await self._put_target(name, TargetState.STOPPED)

    async def restart_connector(self, name: str) -> None:
        async with self._lock:
            self._known(name)
            await self._stop_connector(name)
            await self._start_connector(name)
        self._reconfigurations.start(name)

    def _known(self, name: str) -> None:
        """Java does not look whether the connector exists, and answers with status 500."""
        if name not in self._state.connectors:
            raise RestError(f"Connector {name} not found")

    async def restart_task(self, task: TaskId) -> None:
        async with self._lock:
            self._known(task.connector)
            if task not in self.views.task_ids(task.connector):
                raise NotFound(f"Task {task} not found")
            await self._engine.stop_tasks([task])
            if not await self._start_task(task):
                raise RestError(f"Failed to start task: {task}")

    async def restart(self, request: RestartRequest) -> ConnectorState:
        name = request.connector
        async with self._lock:
            if name not in self._state.connectors:
                raise NotFound(f"Unknown connector: {name}")
            plan = restart_plan(request, self.views.connector_state(name))
            if plan.restarts_connector:
                await self._stop_connector(name)
                self._reports.changed(TaskId(name, -1), State.RESTARTING)
            if plan.tasks:
                await self._engine.stop_tasks(plan.tasks)
                for task in plan.tasks:
                    self._reports.changed(task, State.RESTARTING)
            if plan.restarts_connector:
                await self._start_connector(name)
            await self._start_tasks(plan.tasks)
            return plan.state

    # The rest.

    async def reset_active_topics(self, name: str) -> None:
        self._statuses.delete_topics(name)

    async def offsets(self, name: str) -> SourceOffsets:
        return await self._engine.offsets(name, self.views.config(name))

    async def alter_offsets(self, name: str, offsets: SourceOffsets | None) -> str:
        async with self._lock:
            return await self._engine.alter_offsets(name, self.views.stopped_connector(name), offsets)

    async def put_task_configs(
        self, name: str, configs: Sequence[Config], signature: InternalSignature | None
    ) -> None:
        raise RestError(
            "Kafka Connect in standalone mode does not support externally setting task configurations."
        )

    async def fence_zombies(self, name: str, signature: InternalSignature | None) -> None:
        raise RestError("Kafka Connect in standalone mode does not support exactly-once source connectors.")

    async def set_logger_level(self, name: str, level: str) -> None:
        self.loggers.set(name, level)


class _NoListener:
    """A single worker carries its own changes out, so it needs no news of them."""

    def connector_config_changed(self, connector: str) -> None: ...

    def connector_config_removed(self, connector: str) -> None: ...

    def task_configs_changed(self, tasks: Sequence[TaskId]) -> None: ...

    def target_state_changed(self, connector: str) -> None: ...

    def session_key_changed(self, key: SessionKey) -> None: ...

    def restart_requested(self, request: RestartRequest) -> None: ...

    def logger_level_changed(self, logger: str, level: str) -> None: ...
