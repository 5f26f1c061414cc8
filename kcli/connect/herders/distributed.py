"""The herder of a worker in a group: it runs what the leader of the group assigns, and answers the REST API.

One task carries everything out, one thing after another: requests, changes of configurations, and the start of assigned
work. The membership stops revoked work with the same lock. Only the leader writes configurations. What runs a user's
code, such as the start of a connector, is done beside it, because that code may never return.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kcli.connect.decisions.config_state import ConfigState, SessionKey
from kcli.connect.decisions.restart import restart_plan
from kcli.connect.decisions.session import SessionSettings, check_signature, key_expires_ms, must_replace_key
from kcli.connect.decisions.task_configs import (
    java_ordered,
    patched,
    task_configs_changed,
    tasks_to_fence,
)
from kcli.connect.errors import AlreadyExists, BadRequest, NotFound, NotLeader, RestError
from kcli.connect.herders.auto_restarts import AutoRestarts
from kcli.connect.herders.changes import Changes, PendingChanges
from kcli.connect.herders.group import GroupAssignment, GroupMembership, Work
from kcli.connect.herders.herder import Created, Health
from kcli.connect.herders.logger_levels import LoggerLevels
from kcli.connect.herders.old_offsets import log_old_offsets
from kcli.connect.herders.rebalance_metrics import RebalanceMetrics
from kcli.connect.herders.reconfigurations import Reconfigurations
from kcli.connect.herders.reports import SETTLE_SECONDS, StatusReports
from kcli.connect.herders.stage import Stages
from kcli.connect.herders.turns import Turns
from kcli.connect.herders.validator import Validator
from kcli.connect.herders.views import Views, check_errors
from kcli.connect.model import (
    Config,
    ConnectorInfo,
    ConnectorState,
    ConnectorType,
    InternalSignature,
    RestartRequest,
    SourceOffsets,
    State,
    TargetState,
    TaskId,
)
from kcli.connect.peers.internal_requests import InternalRequests
from kcli.connect.stores.store import ConfigStore, StatusStore
from kcli.connect.workers.worker import Engine, TaskStart
from kcli.formats.connect.errors import ConnectException
from kcli.runtime.clock import Clock
from kcli.runtime.turns import in_turn, next_turn

_log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")

T = TypeVar("T")

CATCH_UP_RETRIES = 5
"""The failures to read the config topic after which a worker gives up its work (Java's BACKOFF_RETRIES)."""


ERROR_PAUSE_SECONDS = 1.0
"""The pause after an unexpected error, so that an error that stays does not fill the log."""


@dataclass(frozen=True, slots=True)
class HerderSettings:
    """Times are in milliseconds."""

    session: SessionSettings
    sync_timeout_ms: int = 3_000
    unsync_backoff_ms: int = 300_000
    rebalance_delay_max_ms: int = 300_000
    exactly_once: bool = False
    claims_config_topic: bool = False
    """Whether the leader writes in transactions: exactly.once.source.support is preparing or enabled."""


class DistributedHerder:
    """Implements `Herder` and `WorkListener`. `run` runs it until `stop`."""

    def __init__(
        self,
        settings: HerderSettings,
        *,
        kafka_cluster_id: str,
        configs: ConfigStore,
        statuses: StatusStore,
        reports: StatusReports,
        engine: Engine,
        membership: GroupMembership,
        validator: Validator,
        requests: InternalRequests,
        fence: Callable[[Sequence[str]], Awaitable[None]],
        task_transactional_id: Callable[[TaskId], str],
        clock: Clock,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.kafka_cluster_id = kafka_cluster_id
        self._settings = settings
        self._configs = configs
        self._statuses = statuses
        self._reports = reports
        self._engine = engine
        self._membership = membership
        self.validator = validator
        self._requests = requests
        self._fence = fence
        self._transactional_id = task_transactional_id
        self._clock = clock
        self._random_bytes = random_bytes
        self._stages = Stages(clock)
        self.loggers = LoggerLevels(clock, engine.set_log_level)
        self.views = Views(lambda: self._configs.state, statuses, engine)
        self._wake_up = asyncio.Event()
        self._progress = asyncio.Event()
        """Set after each step, for reads that wait for it."""
        self._turns = Turns(self._wake_up.set)
        self._changes = PendingChanges(lambda: self._state, self._wake_up.set, self.loggers.set)
        self._reconfigurations = Reconfigurations(self._reconfigure, on_end=self._progress.set)
        self._auto_restarts = AutoRestarts(
            self.views.restart_backoff, self.restart_connector, self.restart_task, clock
        )
        reports.on_reconfigure = self._reconfigurations.start
        reports.on_change = self._auto_restarts.changed
        self._rebalances = RebalanceMetrics(clock)
        self._lock = asyncio.Lock()
        self._state = ConfigState()
        self._assignment: GroupAssignment | None = None
        self._running = Work()
        self._is_resolved = False
        """Whether the work of the last assignment has been started."""
        self._is_rebalancing = True
        """Whether another assignment is to come, so that nothing else is done."""
        self._rebalance_at_ms: int | None = None
        self._catch_up_at_ms: int | None = None
        """The time at which the worker joins again, after it could not read the config topic."""
        self._is_fenced = False
        self._retries = CATCH_UP_RETRIES
        self._restarting: set[TaskId] = set()
        """Tasks that were stopped for new configurations, and start again if they are still assigned."""
        self._starting: set[asyncio.Task[bool]] = set()
        """Starts of tasks with exactly once."""
        self._fencings: dict[str, asyncio.Lock] = {}
        self._is_stopping = False
        self._has_started = asyncio.Event()

    # Life.

    async def started(self) -> None:
        """Returns when the stores are read, so that the worker joins its group."""
        await self._has_started.wait()

    async def run(self) -> None:
        """Starts, joins the group, and works until `stop`. Raises the error of a start that fails."""
        with self._stages.stage("starting its stores"):
            await self._statuses.start()
            await self._configs.start(self._changes)
        self._state = self._configs.state
        self._changes.take()
        self._has_started.set()
        _log.info("Herder started")
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._membership.run(self))
                await self._work()
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
            await self._stop_work(self._engine.connector_names(), self._engine.task_ids())
        await self._membership.leave("the consumer is being closed")
        await self._statuses.flush()
        await self._engine.close()
        await self._statuses.stop()
        await self._configs.stop()
        _log.info("Herder stopped")

    async def _work(self) -> None:
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
        if not await self._complete_rebalance() or not await self._has_write_privileges():
            return
        await self._rotate_key()
        await self._turns.take_all()
        for request in self._changes.take_restarts():
            await self._restart_here(request)
        await self._apply_changes(self._changes.take())

    def _seconds_to_wait(self) -> float | None:
        if self._is_rebalancing:
            return None  # nothing is done before the next assignment, which wakes the herder
        if self._is_fenced:
            return ERROR_PAUSE_SECONDS
        deadlines = [self._rebalance_at_ms, self._catch_up_at_ms, self._key_expires_ms()]
        if self._catch_up_at_ms is not None:
            deadlines = [self._rebalance_at_ms, self._catch_up_at_ms]  # no key is replaced before
        due = [deadline for deadline in deadlines if deadline is not None]
        return max((min(due) - self._clock.now_ms()) / 1000, 0.0) if due else None

    # Rebalances.

    async def assigned(self, assignment: GroupAssignment, generation: int) -> None:
        _log.info("Joined group at generation %d and got assignment: %s", generation, assignment)
        async with self._lock:
            is_new_leader = self._assignment is None or self._assignment.leader != assignment.leader
            self._assignment = assignment
            self._reports.generation = generation
            delay = assignment.delay_ms
            self._rebalance_at_ms = self._clock.now_ms() + delay if delay > 0 else None
            if delay > 0:
                _log.info("The work of workers that have gone is assigned to others in %g s", delay / 1000)
            self._catch_up_at_ms = None
            self._is_resolved = self._is_rebalancing = False
            self._rebalances.started()
            if self._is_leader:
                self._forget_deleted()
                if is_new_leader:
                    await self._claim()
        self._wake_up.set()

    def lease(self, end_s: float) -> None:
        self._engine.lease(end_s)

    async def revoked(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> None:
        if not connectors and not tasks:
            return
        async with self._lock:
            self._is_rebalancing = True
            with self._stages.stage(f"stopping {len(connectors)} connectors and {len(tasks)} tasks"):
                await self._stop_work(connectors, tasks)
            self._running = self._running.without(connectors, tasks)
            state = self._configs.state
            for name in {*connectors, *(task.connector for task in tasks)} - state.connectors.keys():
                self._statuses.delete_topics(name)
            with self._stages.stage("flushing updates to the status topic"):
                await self._statuses.flush()
        _log.info("Finished stopping tasks in preparation for rebalance")

    async def _stop_work(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> None:
        for name in connectors:
            self._reconfigurations.cancel(name)
        await asyncio.gather(
            *(self._engine.stop_connector(name) for name in connectors), self._engine.stop_tasks(tasks)
        )

    async def _complete_rebalance(self) -> bool:
        """Starts the work of the last assignment. Returns whether the worker is an up-to-date member of its group."""
        assignment = self._assignment
        if self._is_rebalancing or assignment is None:
            return False
        if self._rebalance_at_ms is not None and self._rebalance_at_ms <= self._clock.now_ms():
            self._rebalance_at_ms = None
            return self._rejoin("the scheduled rebalance delay is over")
        if self._is_resolved:
            return True
        if self._catch_up_at_ms is not None:
            if self._clock.now_ms() < self._catch_up_at_ms:
                return False
            self._catch_up_at_ms = None
            return self._rejoin("the worker could not read the config topic to its end")
        is_behind = self._state.offset < assignment.offset
        must_read = is_behind or (assignment.has_failed and self._is_leader)
        if must_read and not await self._refresh():
            await self._back_off()
            return False
        self._retries = CATCH_UP_RETRIES
        if assignment.has_failed:
            return self._rejoin("the assignment has failed")
        if self._state.offset != assignment.offset:
            _log.info(
                "Current config state offset %d does not match group assignment %d. Forcing rebalance.",
                self._state.offset,
                assignment.offset,
            )
            return self._rejoin("the configurations of the assignment are not the current ones")
        await self._start_work(assignment)
        self._is_resolved = True
        self._rebalances.succeeded()
        if assignment.has_revoked:
            return self._rejoin("the worker has given up work")
        return True

    def _rejoin(self, reason: str) -> bool:
        """Joins again. The next assignment wakes the herder."""
        self._is_rebalancing = True
        self._membership.rejoin(reason)
        return False

    async def _back_off(self) -> None:
        """Sets the time of the next attempt to read the config topic. At last gives up all work.

        The herder's lock is free until then, because a rebalance may revoke work meanwhile.
        """
        delay_ms = 0.0
        if self._membership.is_eager:
            delay_ms = self._settings.unsync_backoff_ms
        elif self._retries > 0:
            delay_ms = self._settings.rebalance_delay_max_ms / 10 / self._retries
            self._retries -= 1
        else:
            _log.info("Giving up the work %s because the worker cannot read the config topic", self._running)
            self._retries = CATCH_UP_RETRIES
            await self._stop_work(sorted(self._running.connectors), sorted(self._running.tasks))
            self._running = Work()
            await self._membership.give_up_work()
        self._catch_up_at_ms = self._clock.now_ms() + round(delay_ms)

    async def _refresh(self) -> bool:
        with self._stages.stage("reading to the end of the config topic"):
            try:
                async with asyncio.timeout(self._settings.sync_timeout_ms / 1000):
                    await self._configs.refresh()
            except TimeoutError:
                _log.warning("Didn't reach end of config log quickly enough")
                return False
        self._state = self._configs.state
        return True

    async def _start_work(self, assignment: GroupAssignment) -> None:
        connectors = assignment.connectors - self._running.connectors
        tasks = assignment.tasks - (self._running.tasks - self._restarting)
        self._restarting.clear()
        stage = f"starting {len(connectors) + len(tasks)} connector(s) and task(s) after a rebalance"
        with self._stages.stage(stage):
            for name in sorted(connectors):
                await next_turn()  # a worker that joins may get a thousand connectors
                self._start_connector(name)
            await asyncio.gather(*(in_turn(self._start_task, task) for task in sorted(tasks)))
        self._running = Work(assignment.connectors, assignment.tasks)

    def _forget_deleted(self) -> None:
        """Deletes the statuses of connectors and tasks that were removed before this rebalance."""
        state = self._configs.state
        for name in sorted(self._statuses.connectors()):
            if name not in state.connectors:
                self._reports.deleted(name)
                continue
            count = len(state.tasks.get(name, ()))
            for number in sorted(self._statuses.tasks(name)):
                if number >= count:
                    self._reports.changed(TaskId(name, number), State.DESTROYED)

    @property
    def _is_leader(self) -> bool:
        assignment = self._assignment
        return assignment is not None and assignment.leader == self._membership.member_id

    @property
    def _leader_url(self) -> str | None:
        return None if self._assignment is None else self._assignment.leader_url

    # Privileges of the leader.

    async def _claim(self) -> None:
        if not self._settings.claims_config_topic:
            return
        try:
            await self._configs.claim()
            self._is_fenced = False
        except Exception:
            self._is_fenced = True
            _log.exception(
                "Unable to claim write privileges for the config topic after this worker became leader"
            )

    async def _has_write_privileges(self) -> bool:
        if self._is_fenced and self._is_leader:
            with self._stages.stage("reclaiming write privileges for the config topic"):
                await self._claim()
        elif self._is_fenced:
            self._is_fenced = False  # fenced by the next leader, as it should be
        return not self._is_fenced

    async def _write(self, description: str, write: Awaitable[None]) -> None:
        """Writes to the config topic as its leader. Afterwards the herder works with the new configurations."""
        with self._stages.stage(f"{description} the config topic"):
            try:
                await write
            except RestError:
                raise
            except Exception as error:
                self._is_fenced = self._settings.claims_config_topic
                raise ConnectException(
                    "Failed to write to config topic; this may be due to a transient error and the request can be "
                    "safely retried"
                ) from error

    def _key_expires_ms(self) -> int | None:
        key = self._configs.state.session_key
        if not self._is_leader or not self._membership.is_sessioned or key is None:
            return None
        return key_expires_ms(key, self._settings.session)

    async def _rotate_key(self) -> None:
        now_ms = self._clock.now_ms()
        if not self._is_leader or not self._membership.is_sessioned:
            return
        session = self._settings.session
        if must_replace_key(self._configs.state.session_key, session, now_ms):
            key = SessionKey(self._random_bytes(session.key_size_bytes), session.key_algorithm, now_ms)
            await self._write("writing a new session key to", self._configs.put_session_key(key))

    # Changes of configurations.

    async def _apply_changes(self, changes: Changes) -> None:
        if not (
            changes.needs_rebalance
            or changes.connectors
            or changes.target_states
            or changes.connectors_of_tasks
        ):
            return
        self._state = self._configs.state
        if self._membership.is_eager and changes.needs_rebalance:
            self._rejoin("connectors or tasks have changed")
            return
        await self._restart_changed(changes.connectors)
        for name in sorted(changes.target_states & self._state.connectors.keys()):
            await self._set_target_state(name)
        await self._stop_changed_tasks(changes.connectors_of_tasks)
        if changes.needs_rebalance:
            self._rejoin("connectors or tasks have changed")

    async def _restart_changed(self, names: set[str]) -> None:
        for name in sorted(names & self._own.connectors):
            with self._stages.stage(f"stopping connector {name}"):
                await self._stop_work([name], [])
            if name in self._state.connectors:
                self._start_connector(name)

    async def _set_target_state(self, name: str) -> None:
        target = self._target(name)
        await self._engine.set_target_state(name, target)
        if target is TargetState.STARTED and name in self._engine.connector_names():
            self._reconfigurations.start(name)

    async def _stop_changed_tasks(self, names: set[str]) -> None:
        tasks = sorted(task for task in self._own.tasks if task.connector in names)
        if not tasks:
            return
        with self._stages.stage(f"stopping {len(tasks)} reconfigured tasks"):
            await self._engine.stop_tasks(tasks)
        self._restarting.update(tasks)

    @property
    def _own(self) -> Work:
        return self._running

    def _target(self, name: str) -> TargetState:
        return self._state.target_states.get(name, TargetState.STARTED)

    # Starts.

    def _start_connector(self, name: str) -> None:
        """Starts a connector beside the herder's work, and then configures its tasks."""
        config, target = self._state.connectors[name], self._target(name)

        async def start() -> bool:
            try:
                await self._engine.start_connector(name, config, target)
            except Exception as error:
                _log.error("Failed to start connector '%s': %s", name, error)
                return False
            return target is TargetState.STARTED

        self._reconfigurations.start(name, after=start)

    async def _start_task(self, task: TaskId) -> bool:
        state = self._state
        config = state.connectors.get(task.connector)
        configs = state.tasks.get(task.connector, ())
        if config is None or task.task >= len(configs):
            return False
        is_exactly_once = self._settings.exactly_once and self._engine.type_of(config) is ConnectorType.SOURCE
        generation = state.generations.get(task.connector, 0)
        start = TaskStart(
            task,
            config,
            configs[task.task],
            self._target(task.connector),
            task_count=len(configs),
            fence=(lambda: self._fence_anywhere(task.connector)) if is_exactly_once else None,
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
            if task not in self._own.tasks:
                raise ConnectException(
                    f"Cannot start source task {task} as it has already been revoked from this worker"
                )
            return True

        return await self._turns.run(check)

    # Configurations of tasks.

    async def _reconfigure(self, name: str) -> None:
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

        async def publish() -> bool:
            if self._is_leader:
                await self._write_task_configs(name, configs)
            return self._is_leader

        if not await self._turns.run(publish):
            await self._requests.put_task_configs(self._leader_url, name, configs, state.session_key)

    async def _write_task_configs(self, name: str, configs: Sequence[Config]) -> None:
        target = self._configs.state.target_states.get(name)
        if configs and target is TargetState.STOPPED:
            raise BadRequest(f"Cannot submit non-empty set of task configs for stopped connector {name}")
        await self._write(
            f"writing {len(configs)} task configs for connector {name} to",
            self._configs.put_task_configs(name, configs),
        )

    # Restarts.

    async def _restart_here(self, request: RestartRequest) -> None:
        """Restarts the part of a connector that this worker runs (KIP-745)."""
        name = request.connector
        try:
            plan = restart_plan(request, self.views.connector_state(name))
        except NotFound:
            return
        restarts_connector = plan.restarts_connector and name in self._own.connectors
        tasks = [task for task in plan.tasks if task in self._own.tasks]
        if restarts_connector:
            await self._stop_work([name], [])
            self._reports.changed(TaskId(name, -1), State.RESTARTING)
        if tasks:
            await self._engine.stop_tasks(tasks)
            for task in tasks:
                self._reports.changed(task, State.RESTARTING)
        if restarts_connector:
            self._start_connector(name)
        await asyncio.gather(*(in_turn(self._start_task, task) for task in tasks))

    async def restart_connector(self, name: str) -> None:
        async def act() -> None:
            self._known(name)
            if name in self._own.connectors:
                await self._stop_work([name], [])
                self._state = self._configs.state
                self._start_connector(name)
            else:
                raise NotLeader(self._owner_url(TaskId(name, -1)))

        await self._turns.run(act)

    async def restart_task(self, task: TaskId) -> None:
        async def act() -> None:
            self._known(task.connector)
            state = self._configs.state
            if not 0 <= task.task < len(state.tasks.get(task.connector, ())):
                # A stopped connector has old tasks only in its statuses. Java still knows their configurations.
                if state.target_states.get(task.connector) is TargetState.STOPPED:
                    raise NotLeader(None)
                raise NotFound(f"Unknown task: {task}")
            if task not in self._own.tasks:
                raise NotLeader(self._owner_url(task))
            await self._engine.stop_tasks([task])
            self._state = state
            if not await self._start_task(task):
                raise ConnectException(f"Failed to start task: {task}")

        await self._turns.run(act)

    def _owner_url(self, id: TaskId) -> str | None:
        return self._membership.owner_url(id) if self._is_leader else self._leader_url

    def _known(self, name: str) -> Config:
        config = self._configs.state.connectors.get(name)
        if config is None:
            raise NotFound(f"Unknown connector: {name}")
        return config

    async def restart(self, request: RestartRequest) -> ConnectorState:
        async def act() -> ConnectorState:
            self._known(request.connector)
            self._check_leader()
            await self._configs.put_restart_request(request)
            plan = restart_plan(request, self.views.connector_state(request.connector))
            return plan.state

        return await self._turns.run(act)

    # Reads of the REST API.

    def health(self) -> Health:
        return Health(self._has_started.is_set(), self._stages.text)

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
            await self._reports.caught_up(self._engine, connector, self._target(connector), seconds)

    def _is_starting(self, connector: str | None) -> bool:
        if connector is None:
            return self._reconfigurations.are_starting
        return self._reconfigurations.is_busy(connector)

    @property
    def _is_settled(self) -> bool:
        is_working = self._lock.locked() or self._changes.are_pending
        return self._is_resolved and not self._is_rebalancing and not is_working

    @property
    def rebalance_delay_ms(self) -> int:
        return 0 if self._rebalance_at_ms is None else max(self._rebalance_at_ms - self._clock.now_ms(), 0)

    def beans(self) -> Mapping[str, Mapping[str, float | str]]:
        """The metrics of rebalances, by the name of an MBean."""
        return self._rebalances.beans(
            protocol="eager" if self._membership.is_eager else self._membership.protocol,
            leader="" if self._assignment is None else self._assignment.leader,
            generation=self._reports.generation,
            connectors=len(self._running.connectors),
            tasks=len(self._running.tasks),
        )

    async def ping(self) -> None:
        async def act() -> None:
            return

        await self._turns.run(act)

    async def reset_active_topics(self, name: str) -> None:
        self._statuses.delete_topics(name)
        await self._statuses.flush()

    async def set_logger_level(self, name: str, level: str) -> None:
        await self._configs.put_logger_level(name, level)

    # Writes of the REST API.

    def _check_leader(self) -> None:
        if not self._is_leader:
            raise NotLeader(self._leader_url)

    async def put_config(
        self, name: str, config: Config, target: TargetState | None, *, may_replace: bool
    ) -> Created:
        check_errors(await self.validator.validate(config))
        if self._is_leader and name not in self._configs.state.connectors:
            await log_old_offsets(self._engine, name, config)
        return await self._turns.run(lambda: self._put(name, config, target, may_replace=may_replace))

    async def _put(
        self, name: str, config: Config, target: TargetState | None, *, may_replace: bool
    ) -> Created:
        self._check_leader()
        state = self._configs.state
        is_new = name not in state.connectors
        if not is_new and not may_replace:
            raise AlreadyExists(f"Connector {name} already exists")
        info = self.views.info(name, config)
        await self._write(
            f"writing a config for connector {name} to", self._configs.put_connector(name, config, target)
        )
        return Created(is_new, info)

    async def patch_config(self, name: str, patch: Config) -> ConnectorInfo:
        async def read() -> Config:
            self._check_leader()
            return self.views.config(name)

        config = patched(await self._turns.run(read), patch)
        return (await self.put_config(name, config, None, may_replace=True)).info

    async def delete(self, name: str) -> None:
        async def act() -> None:
            self._check_leader()
            self.views.config(name)
            await self._write(
                f"removing the config for connector {name} from", self._configs.remove_connector(name)
            )

        await self._turns.run(act)

    async def pause(self, name: str) -> None:
        await self._put_target(name, TargetState.PAUSED)

    async def resume(self, name: str) -> None:
        await self._put_target(name, TargetState.STARTED)

    async def _put_target(self, name: str, target: TargetState) -> None:
        """Any worker may write it."""
        if name not in self._configs.state.connectors:
            raise NotFound(f"Unknown connector {name}")
        await self._configs.put_target_state(name, target)

    async def stop_connector(self, name: str) -> None:
        async def act() -> None:
            if name not in self._configs.state.connectors:
                raise NotFound(f"Unknown connector {name}")
            self._check_leader()
            await self._write_task_configs(name, [])
            await self._configs.put_target_state(name, TargetState.STOPPED)

        await self._turns.run(act)

    async def put_task_configs(
        self, name: str, configs: Sequence[Config], signature: InternalSignature | None
    ) -> None:
        self._check_signature(signature)

        async def act() -> None:
            self._check_leader()
            self.views.config(name)
            await self._write_task_configs(name, configs)

        await self._turns.run(act)

    def _check_signature(self, signature: InternalSignature | None) -> None:
        if self._membership.is_sessioned:
            check_signature(signature, self._configs.state.session_key, self._settings.session)

    # Offsets.

    async def offsets(self, name: str) -> SourceOffsets:
        return await self._engine.offsets(name, self.views.config(name))

    async def alter_offsets(self, name: str, offsets: SourceOffsets | None) -> str:
        async def check() -> Config:
            self._check_leader()
            if not await self._refresh():
                raise ConnectException(
                    "Failed to read to end of config topic before modifying connector offsets"
                )
            return self.views.stopped_connector(name)

        config = await self._turns.run(check)
        if self._settings.exactly_once and self._engine.type_of(config) is ConnectorType.SOURCE:
            await self._fence_as_leader(name)
            config = await self._turns.run(check)
        # The connector's own code is called beside the herder's work, because it may never return.
        return await self._engine.alter_offsets(name, config, offsets)

    # Fencing of zombies.

    async def fence_zombies(self, name: str, signature: InternalSignature | None) -> None:
        self._check_signature(signature)
        await self._fence_as_leader(name)

    async def _fence_anywhere(self, name: str) -> None:
        """Fences the last generation of tasks, at the leader."""
        try:
            await self._fence_as_leader(name)
        except NotLeader as error:
            await self._requests.fence(error.url, name, self._configs.state.session_key)

    async def _fence_as_leader(self, name: str) -> None:
        async def plan() -> tuple[Sequence[str], int]:
            """The transactional ids to fence, and the generation of the tasks."""
            self._check_leader()
            config = self.views.config(name)
            if self._engine.type_of(config) is not ConnectorType.SOURCE:
                raise BadRequest(f"Connector {name} is not a source connector")
            await self._configs.refresh()
            state = self._configs.state
            fenced = tasks_to_fence(state, name)
            return [self._transactional_id(task) for task in fenced], state.generations.get(name, 0)

        # All tasks of a connector ask at the same time. The first one fences, and the others find that it is done.
        async with self._fencings.setdefault(name, asyncio.Lock()):
            ids, generation = await self._turns.run(plan)
            if ids:
                await self._fence(ids)

            async def record() -> None:
                self._check_leader()
                state = self._configs.state
                if state.generations.get(name, 0) != generation:
                    raise RestError(
                        "Failed to complete zombie fencing because a new set of task configs was generated",
                        409,
                    )
                if name in state.pending_fencing:
                    count = len(state.tasks.get(name, ()))
                    await self._write(
                        f"writing a task count record for connector {name} to",
                        self._configs.put_task_count_record(name, count),
                    )

            await self._turns.run(record)
