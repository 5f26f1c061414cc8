"""The herder of a worker in a group: it runs what the leader of the group assigns, and answers the REST API.

One task carries everything out, one thing after another: requests, changes of configurations, and the start of assigned
work. The membership stops revoked work with the same lock. Only the leader writes configurations. The code of a user,
such as the start of a connector, runs beside it, because that code may never return.

Each part below uses only parts above it:

    Leadership        which worker is the leader; the writes that only the leader may do
    Fencing           ends the producers of old tasks, for exactly once
    TaskPublisher     brings the configurations of tasks from a connector to the config topic
    AssignedWork      starts and stops connectors and tasks
    Restarts          restarts that users ask for
    Rebalances        assignments and revocations
    DistributedHerder the order of all steps, and the REST API
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence

from kcli.connect.decisions.task_configs import patched
from kcli.connect.errors import AlreadyExists, NotFound
from kcli.connect.herders.assigned_work import AssignedWork
from kcli.connect.herders.auto_restarts import AutoRestarts
from kcli.connect.herders.changes import Changes, PendingChanges
from kcli.connect.herders.fencing import Fencing
from kcli.connect.herders.herder import Created, Health
from kcli.connect.herders.leadership import Leadership
from kcli.connect.herders.logger_levels import LoggerLevels
from kcli.connect.herders.old_offsets import log_old_offsets
from kcli.connect.herders.rebalances import Rebalances
from kcli.connect.herders.reconfigurations import Reconfigurations
from kcli.connect.herders.reports import SETTLE_SECONDS
from kcli.connect.herders.restarts import Restarts
from kcli.connect.herders.settings import HerderParts, HerderSettings
from kcli.connect.herders.stage import Stages
from kcli.connect.herders.task_publisher import TaskPublisher
from kcli.connect.herders.turns import Turns
from kcli.connect.herders.views import Views, check_errors
from kcli.connect.model import (
    Config,
    ConnectorInfo,
    ConnectorState,
    InternalSignature,
    RestartRequest,
    SourceOffsets,
    TargetState,
    TaskId,
)
from kcli.formats.connect.errors import ConnectException

_log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")

ERROR_PAUSE_SECONDS = 1.0
"""The pause after an unexpected error, so that an error that stays does not fill the log."""


class DistributedHerder:
    """Implements `Herder`. `run` runs it until `stop`."""

    def __init__(self, settings: HerderSettings, parts: HerderParts, kafka_cluster_id: str) -> None:
        self.kafka_cluster_id = kafka_cluster_id
        self.validator = parts.validator
        self.loggers = LoggerLevels(parts.clock, parts.engine.set_log_level)
        self.views = Views(lambda: parts.configs.state, parts.statuses, parts.engine)
        self._parts = parts
        self._configs = parts.configs
        self._statuses = parts.statuses
        self._engine = parts.engine
        self._lock = asyncio.Lock()
        self._wake_up = asyncio.Event()
        self._progress = asyncio.Event()
        """Set after each step, for reads that wait for it."""
        self._has_started = asyncio.Event()
        self._is_stopping = False
        self._stages = stages = Stages(parts.clock)
        self._turns = turns = Turns(self._wake_up.set)
        self._leadership = leadership = Leadership(settings, parts, stages)
        self._fencing = fencing = Fencing(settings, parts, leadership, self.views, turns)
        self._publisher = TaskPublisher(settings, parts, leadership, turns)
        self._reconfigurations = Reconfigurations(self._publisher.publish, on_end=self._progress.set)
        self._work = work = AssignedWork(parts, fencing, self._reconfigurations, turns, stages)
        self._changes = PendingChanges(lambda: work.state, self._wake_up.set, self.loggers.set)
        self._restarts = restarts = Restarts(parts, leadership, work, self.views, turns)
        self._auto_restarts = AutoRestarts(
            self.views.restart_backoff, restarts.restart_connector, restarts.restart_task, parts.clock
        )
        parts.reports.on_reconfigure = self._reconfigurations.start
        parts.reports.on_change = self._auto_restarts.changed
        self.on_lead: Callable[[], None] = lambda: None
        """Called each time when this worker has become the leader and has started its work."""
        self._rebalances = Rebalances(
            settings,
            parts,
            leadership,
            work,
            stages,
            self._lock,
            wake=self._wake_up.set,
            on_lead=lambda: self.on_lead(),
        )

    # Life.

    async def started(self) -> None:
        """Returns when the stores are read, so that the worker joins its group."""
        await self._has_started.wait()

    async def run(self) -> None:
        """Starts, joins the group, and works until `stop`. Raises the error of a start that fails."""
        with self._stages.stage("starting its stores"):
            await self._statuses.start()
            await self._configs.start(self._changes)
        self._work.state = self._configs.state
        self._changes.take()
        self._has_started.set()
        _log.info("Herder started")
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._parts.membership.run(self._rebalances))
                await self._take_steps()
                await self._stop_everything()
        finally:
            await self._auto_restarts.close()
            await self._reconfigurations.close()

    def stop(self) -> None:
        """Ends `run`: stops the work, leaves the group, and closes the stores."""
        self._is_stopping = True
        self._wake_up.set()

    async def _stop_everything(self) -> None:
        _log.info("Herder stopping")
        await self._auto_restarts.close()
        self._turns.refuse_all(ConnectException("Worker is shutting down"))
        await self._reconfigurations.close()
        async with self._lock:
            await self._work.stop(self._engine.connector_names(), self._engine.task_ids())
        await self._parts.membership.leave("the consumer is being closed")
        await self._statuses.flush()
        await self._engine.close()
        await self._statuses.stop()
        await self._configs.stop()
        _log.info("Herder stopped")

    async def _take_steps(self) -> None:
        while not self._is_stopping:
            self._wake_up.clear()
            try:
                async with self._lock:
                    await self._step()
            except Exception:
                _log.exception("Unexpected error in the herder; it continues")
                await asyncio.sleep(ERROR_PAUSE_SECONDS)
            self._progress.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds_to_wait()):
                    await self._wake_up.wait()

    async def _step(self) -> None:
        """Does everything that is due, in Java's order."""
        if not await self._rebalances.complete() or not await self._leadership.has_write_privileges():
            return
        await self._leadership.rotate_key()
        await self._turns.take_all()
        for request in self._changes.take_restarts():
            await self._restarts.restart_here(request)
        await self._apply(self._changes.take())

    async def _apply(self, changes: Changes) -> None:
        if not changes.concern_work:
            return
        self._work.state = self._configs.state
        if not (
            changes.needs_rebalance and self._parts.membership.is_eager
        ):  # eager: a rebalance stops all work
            await self._work.restart_changed(changes.connectors)
            for name in sorted(changes.target_states & self._work.state.connectors.keys()):
                await self._work.set_target_state(name)
            await self._work.stop_changed_tasks(changes.connectors_of_tasks)
        if changes.needs_rebalance:
            self._rebalances.rejoin("connectors or tasks have changed")

    def _seconds_to_wait(self) -> float | None:
        if self._rebalances.is_waiting:
            return None  # nothing is done before the next assignment, which wakes the herder
        if self._leadership.is_fenced:
            return ERROR_PAUSE_SECONDS
        due_ms = list(self._rebalances.due_ms)
        key_expires_ms = self._leadership.key_expires_ms
        if key_expires_ms is not None and not self._rebalances.is_behind:  # a worker behind replaces no key
            due_ms.append(key_expires_ms)
        return max((min(due_ms) - self._parts.clock.now_ms()) / 1000, 0.0) if due_ms else None

    # Reads of the REST API.

    def health(self) -> Health:
        return Health(self._has_started.is_set(), self._stages.text)

    async def ping(self) -> None:
        async def act() -> None:
            return

        await self._turns.run(act)

    async def settled(self, connector: str | None = None) -> None:
        deadline = asyncio.get_running_loop().time() + SETTLE_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while not self._is_settled or self._is_starting(connector):
                    self._progress.clear()
                    await self._progress.wait()
                await self._statuses.flush()
        if connector is not None:
            seconds = deadline - asyncio.get_running_loop().time()
            target = self._work.target(connector)
            await self._parts.reports.caught_up(self._engine, connector, target, seconds)

    def _is_starting(self, connector: str | None) -> bool:
        if connector is None:
            return self._reconfigurations.are_starting
        return self._reconfigurations.is_busy(connector)

    @property
    def _is_settled(self) -> bool:
        is_working = self._lock.locked() or self._changes.are_pending
        return self._rebalances.is_settled and not is_working

    @property
    def rebalance_delay_ms(self) -> int:
        return self._rebalances.delay_ms

    def beans(self) -> Mapping[str, Mapping[str, float | str]]:
        """The metrics of rebalances, by the name of an MBean."""
        return self._rebalances.beans()

    # Configurations of connectors.

    async def put_config(
        self, name: str, config: Config, target: TargetState | None, *, may_replace: bool
    ) -> Created:
        check_errors(await self.validator.validate(config))
        if self._leadership.is_leader and name not in self._configs.state.connectors:
            await log_old_offsets(self._engine, name, config)

        async def write() -> Created:
            self._leadership.check()
            is_new = name not in self._configs.state.connectors
            if not is_new and not may_replace:
                raise AlreadyExists(f"Connector {name} already exists")
            info = self.views.info(name, config)
            await self._leadership.write(
                f"writing a config for connector {name} to", self._configs.put_connector(name, config, target)
            )
            return Created(is_new, info)

        return await self._turns.run(write)

    async def patch_config(self, name: str, patch: Config) -> ConnectorInfo:
        async def read() -> Config:
            self._leadership.check()
            return self.views.config(name)

        config = patched(await self._turns.run(read), patch)
        return (await self.put_config(name, config, None, may_replace=True)).info

    async def delete(self, name: str) -> None:
        async def write() -> None:
            self._leadership.check()
            self.views.config(name)
            await self._leadership.write(
                f"removing the config for connector {name} from", self._configs.remove_connector(name)
            )

        await self._turns.run(write)

    async def pause(self, name: str) -> None:
        await self._put_target(name, TargetState.PAUSED)

    async def resume(self, name: str) -> None:
        await self._put_target(name, TargetState.STARTED)

    async def _put_target(self, name: str, target: TargetState) -> None:
        """Any worker may write it."""
        self._check_known(name)
        await self._configs.put_target_state(name, target)

    async def stop_connector(self, name: str) -> None:
        async def write() -> None:
            self._check_known(name)
            self._leadership.check()
            await self._publisher.write(name, [])
            await self._configs.put_target_state(name, TargetState.STOPPED)

        await self._turns.run(write)

    def _check_known(self, name: str) -> None:
        if name not in self._configs.state.connectors:
            raise NotFound(f"Unknown connector {name}")

    async def put_task_configs(
        self, name: str, configs: Sequence[Config], signature: InternalSignature | None
    ) -> None:
        self._leadership.check_signature(signature)

        async def write() -> None:
            self._leadership.check()
            self.views.config(name)
            await self._publisher.write(name, configs)

        await self._turns.run(write)

    # Restarts, fencing and offsets.

    async def restart_connector(self, name: str) -> None:
        await self._restarts.restart_connector(name)

    async def restart_task(self, task: TaskId) -> None:
        await self._restarts.restart_task(task)

    async def restart(self, request: RestartRequest) -> ConnectorState:
        return await self._restarts.restart(request)

    async def fence_zombies(self, name: str, signature: InternalSignature | None) -> None:
        self._leadership.check_signature(signature)
        await self._fencing.as_leader(name)

    async def offsets(self, name: str) -> SourceOffsets:
        return await self._engine.offsets(name, self.views.config(name))

    async def alter_offsets(self, name: str, offsets: SourceOffsets | None) -> str:
        async def check() -> Config:
            self._leadership.check()
            if not await self._rebalances.catch_up():
                raise ConnectException(
                    "Failed to read to end of config topic before modifying connector offsets"
                )
            return self.views.stopped_connector(name)

        config = await self._turns.run(check)
        if self._fencing.is_needed(config):
            await self._fencing.as_leader(name)
            config = await self._turns.run(check)
        # The connector's own code is called beside the herder's work, because it may never return.
        return await self._engine.alter_offsets(name, config, offsets)

    # Topics and loggers.

    async def reset_active_topics(self, name: str) -> None:
        self._statuses.delete_topics(name)
        await self._statuses.flush()

    async def set_logger_level(self, name: str, level: str) -> None:
        await self._configs.put_logger_level(name, level)
