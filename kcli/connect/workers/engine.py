"""The engine of a worker: it starts, stops, pauses and watches connectors and tasks (Worker in Java).

Each task has a process of its own, forked from the nursery. A connector has a process while one of its methods is
called, or as long as it runs if its class `monitors`. One event loop serves all channels, without threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kcli.connect.config.connector_keys import TASKS_MAX
from kcli.connect.config.plugin import Plugin, Plugins
from kcli.connect.config.worker import WorkerConfig
from kcli.connect.model import CONNECTOR, Config, ConnectorType, SourceOffsets, State, TargetState, TaskId
from kcli.connect.tasks.traces import java_trace
from kcli.connect.workers.child import log_context
from kcli.connect.workers.connector_offsets import ConnectorOffsets, OffsetsOf
from kcli.connect.workers.connector_run import CallError, ConnectorProcess
from kcli.connect.workers.metrics import EngineMetrics, NamedBean
from kcli.connect.workers.nursery import Nursery
from kcli.connect.workers.plans import Plans, Resolve, Texts
from kcli.connect.workers.task_run import TaskRun
from kcli.connect.workers.worker import StatusListener, TaskStart
from kcli.connectors.interface import Connector
from kcli.formats.connect.errors import ConnectException
from kcli.runtime.log_text import name as log_name

LOG = logging.getLogger("org.apache.kafka.connect.runtime.Worker")
_CONNECTORS = logging.getLogger("org.apache.kafka.connect.runtime.WorkerConnector")

CONNECTOR_CALL_S = 60.0
"""The longest time of one call of a connector's method. Java waits 90 s for a REST request."""


class TooManyTasksException(ConnectException):
    """A connector has returned more task configurations than tasks.max."""

    java_class = "org.apache.kafka.connect.runtime.TooManyTasksException"


@dataclass(slots=True)
class RunningConnector:
    """A connector that this worker has. `state` is PAUSED or STOPPED if its Connector object does not run."""

    name: str
    config: Config
    plugin: Plugin
    process: ConnectorProcess
    state: State = State.UNASSIGNED


@dataclass(slots=True)
class WorkerEngine:
    """Implements `Engine`."""

    worker: WorkerConfig
    plugins: Plugins
    offsets_of: OffsetsOf
    listener: StatusListener
    resolve: Resolve = dict
    preloaded: Sequence[str] = ()
    """Modules of plugins that the nursery imports, so that tasks start faster and share their memory."""
    _plans: Plans = field(init=False)
    _nursery: Nursery = field(init=False)
    _connectors: dict[str, RunningConnector] = field(init=False, default_factory=dict)
    _tasks: dict[TaskId, TaskRun] = field(init=False, default_factory=dict)
    lease_end_s: float | None = field(init=False, default=None)
    """The time at which tasks end themselves, or None for a worker without a group."""
    _levels: dict[str, int] = field(init=False, default_factory=lambda: {"root": logging.INFO})
    _metrics: EngineMetrics = field(init=False, default_factory=EngineMetrics)
    _offsets: ConnectorOffsets = field(init=False)

    def __post_init__(self) -> None:
        self._plans = Plans(self.worker, self.plugins, self.resolve)
        self._nursery = Nursery(self.preloaded)
        self._offsets = ConnectorOffsets(self._plans, self.offsets_of, self._call_once)

    async def start(self) -> None:
        """Starts the process from which tasks are forked, so that the first task need not wait for it."""
        await self._nursery.start()

    async def close(self) -> None:
        """Stops everything that runs."""
        await self.stop_tasks(list(self._tasks))
        await asyncio.gather(*(self.stop_connector(name) for name in list(self._connectors)))
        await self._nursery.close()

    # Connectors

    async def start_connector(self, name: str, config: Config, target: TargetState) -> None:
        if name in self._connectors:
            raise ConnectException(f"Connector with name {name} already exists")
        self._metrics.connector_starts.attempts += 1
        try:
            connector = self._new_connector(name, config)
            self._connectors[name] = connector
            self._metrics.add_connector(name, connector.plugin, self.type_of(config))
            await self._set_connector_target(connector, target)
        except Exception as error:
            self._metrics.connector_starts.failures += 1
            self._connector_failed(name, error)
            raise

    def _new_connector(self, name: str, config: Config) -> RunningConnector:
        spec = self._plans.connector(name, config)
        plugin = self._plans.connector_plugin(spec.plugin.config)
        loaded = plugin.load()
        process = ConnectorProcess(
            spec,
            self,
            self._nursery,
            call_timeout_s=CONNECTOR_CALL_S,
            monitors=isinstance(loaded, type) and issubclass(loaded, Connector) and loaded.monitors,
            store=lambda: self.offsets_of(config),
        )
        return RunningConnector(name, config, plugin, process)

    async def _set_connector_target(self, connector: RunningConnector, target: TargetState) -> None:
        """Starts or closes the Connector object, and reports its new state."""
        state = _STATES[target]
        if connector.state is state:
            return
        if state is State.RUNNING:
            await connector.process.call("start", started=False)
        else:
            await connector.process.close(self._graceful_s)
        self.connector_state(connector.name, state)

    async def stop_connector(self, name: str) -> None:
        connector = self._connectors.pop(name, None)
        if connector is None:
            LOG.warning("Ignoring stop request for unowned connector %s", name)
            return
        await connector.process.close(self._graceful_s)
        self._metrics.remove_connector(name)
        if connector.state is not State.FAILED:
            self.listener.changed(
                TaskId(name, CONNECTOR), State.UNASSIGNED, trace=None, version=connector.plugin.version
            )

    async def task_configs(self, name: str) -> Sequence[Config]:
        connector = self._running(name)
        try:
            return await self._task_configs(connector)
        except Exception as error:
            _CONNECTORS.error(
                "%sWorkerConnector{id=%s} Connector has failed",
                log_context(name),
                log_name(name),
                exc_info=error,
            )
            self._connector_failed(name, error)
            raise

    def _running(self, name: str) -> RunningConnector:
        connector = self._connectors.get(name)
        if connector is None:
            raise ConnectException(f"Connector {name} not found in this worker.")
        if connector.state is not State.RUNNING:
            raise ConnectException(f"Connector {name} is not running")
        return connector

    async def _task_configs(self, connector: RunningConnector) -> Sequence[Config]:
        config = connector.config
        resolved = self._plans.resolved(config)
        tasks_max = self._plans.values(connector.name, resolved).integer(TASKS_MAX)
        configs = await connector.process.call("task_configs", [tasks_max])
        assert isinstance(configs, list)
        self._check_tasks_max(log_context(connector.name), connector.name, resolved, len(configs))
        loaded = connector.plugin.load()
        assert isinstance(loaded, type) and issubclass(loaded, Connector)
        extra = {"task.class": _class_name(loaded.task_class)}
        if self.type_of(config) is ConnectorType.SINK:
            extra |= {key: resolved[key] for key in ("topics", "topics.regex") if resolved.get(key)}
        # The stored configurations of tasks must not contain secrets, so the placeholders of their keys are put back.
        raw = {key: value for key, value in config.items() if value is not None and resolved[key] != value}
        return [{key: raw.get(key, value) for key, value in {**task, **extra}.items()} for task in configs]

    def _check_tasks_max(self, context: str, name: str, config: Texts, count: int) -> None:
        values = self._plans.values(name, config)
        tasks_max = values.integer(TASKS_MAX)
        if count <= tasks_max:
            return
        text = (
            f"The connector {name} has generated {count} tasks, which is greater than {tasks_max}, "
            "the maximum number of tasks it is configured to create. "
        )
        if values.boolean("tasks.max.enforce"):
            raise TooManyTasksException(
                f"{text}This behaviour should be considered a bug and is disallowed. If necessary, it can be "
                "permitted by reconfiguring the connector with 'tasks.max.enforce' set to false; however, this "
                "option will be removed in a future release of Kafka Connect."
            )
        LOG.warning(
            "%s%sThis behavior should be considered a bug and will be disallowed in future releases of Kafka Connect. "
            "Please report this to the maintainers of the connector and request that they adjust their connector's "
            "taskConfigs() method to respect the maxTasks parameter.",
            context,
            text,
        )

    async def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        """Calls `validate` of the connector of a configuration, in a process. Raises ConnectException."""
        result = await self._call_once("", config, "validate")
        assert isinstance(result, dict)
        return result

    async def exactly_once_support(self, config: Config) -> tuple[bool | None, bool]:
        """What a source connector says about exactly once, and about transactions that its tasks end themselves."""
        result = await self._call_once("", config, "exactly_once")
        assert isinstance(result, list)
        return result[0], result[1]

    async def _call_once(self, name: str, config: Config, method: str, body: object = None) -> object:
        """Calls a method of a connector that does not run."""
        process = self._new_connector(name, config).process
        try:
            return await process.call(method, body, started=False)
        finally:
            await process.close(self._graceful_s)

    def _connector_failed(self, name: str, error: Exception) -> None:
        trace = error.trace if isinstance(error, CallError) else java_trace(error)
        self.connector_state(name, State.FAILED, trace)

    def connector_state(self, name: str, state: State, trace: str | None = None) -> None:
        """Reports the state of a connector. Called by its process, too."""
        connector = self._connectors.get(name)
        if connector is not None:
            connector.state = state
            self._metrics.set_state(TaskId(name, CONNECTOR), state)
        version = None if connector is None else connector.plugin.version
        self.listener.changed(TaskId(name, CONNECTOR), state, trace=trace, version=version)

    def reconfigure(self, name: str) -> None:
        self.listener.reconfigure(name)

    # Tasks

    async def start_task(self, start: TaskStart) -> bool:
        if start.id in self._tasks:
            raise ConnectException(f"Task already exists in this worker: {start.id}")
        LOG.info("%sCreating task %s", log_context(*start.id), log_name(start.id))
        self._metrics.task_starts.attempts += 1
        run = self._new_run(start)
        # A stop must reach the task at every await below.
        self._tasks[start.id] = run
        try:
            if start.fence is not None:
                await run.unless_stopped(start.fence())
            config = self._plans.resolved(start.connector_config)
            self._check_tasks_max(run.context, start.id.connector, config, start.task_count)
            await run.unless_stopped(self._open_stores(run, config))
            spec = self._plans.task(start.id, start.connector_config, start.task_config, run.target)
            self._metrics.add_task(start.id, spec, run.version)
            is_built = await run.start(self._nursery, spec)
        except Exception as error:
            if run.is_stopping:
                LOG.info("%sTask %s was stopped before it has started", run.context, start.id)
            else:
                LOG.error("%sFailed to start task %s", run.context, start.id, exc_info=error)
            run.failed(java_trace(error))
            is_built = False
        if not is_built:
            self._metrics.task_starts.failures += 1
        return is_built

    def _new_run(self, start: TaskStart) -> TaskRun:
        version, admin = None, {}
        try:
            config = self._plans.resolved(start.connector_config)
            version = self._plans.connector_plugin(config).version
            admin = self._plans.admin(start.id, config)
        except Exception as error:
            # `start_task` meets the same error, and reports it.
            LOG.debug("Task %s: %s", start.id, error)
        return TaskRun(
            start.id,
            self,
            version,
            target=start.target,
            admin_properties=admin,
            may_start=start.may_start,
        )

    async def _open_stores(self, run: TaskRun, config: Texts) -> None:
        """Gives a source task the stores of its offsets. Their topic may have to be created and read."""
        if self.type_of(config) is ConnectorType.SOURCE:
            run.store = await self.offsets_of(config)
            if config.get("offsets.storage.topic") and self.worker.is_exactly_once:
                run.worker_store = await self.offsets_of({})

    async def stop_tasks(self, tasks: Sequence[TaskId]) -> None:
        runs = [self._tasks[id] for id in tasks if id in self._tasks]
        await asyncio.gather(*(run.stop(self._graceful_s) for run in runs))
        for run in runs:
            if self._tasks.get(run.id) is run:
                del self._tasks[run.id]
                self._metrics.remove_task(run.id)

    def lease(self, end_s: float) -> None:
        self.lease_end_s = end_s
        for run in self._tasks.values():
            run.note("lease", end_s)

    @property
    def _graceful_s(self) -> float:
        return self.worker.task_shutdown_graceful_timeout_ms / 1000

    async def set_target_state(self, connector: str, target: TargetState) -> None:
        running = self._connectors.get(connector)
        if running is not None and running.state is not State.FAILED:
            try:
                await self._set_connector_target(running, target)
            except Exception as error:
                self._connector_failed(connector, error)
        for id, run in self._tasks.items():
            if id.connector == connector:
                run.set_target(target)

    def task_state(self, run: TaskRun, state: State, trace: str | None = None) -> None:
        """Reports the state of a task. Called by `TaskRun`."""
        run.state = state
        self._metrics.set_state(run.id, state)
        self.listener.changed(run.id, state, trace=trace, version=run.version)

    def task_used_topic(self, run: TaskRun, topic: str) -> None:
        if self.worker.topic_tracking_enable:
            self.listener.used_topic(run.id, topic)

    def task_metrics(self, run: TaskRun, body: object) -> None:
        self._metrics.merge_report(run.id, body)

    # What runs here

    def connector_names(self) -> Sequence[str]:
        return list(self._connectors)

    def task_ids(self) -> Sequence[TaskId]:
        return list(self._tasks)

    def task_states(self) -> Mapping[TaskId, State]:
        return {id: run.state for id, run in self._tasks.items()}

    def type_of(self, config: Config) -> ConnectorType:
        return self._plans.type_of(self.resolve(config))

    def metrics(self) -> Iterator[NamedBean]:
        """The metrics of the worker, its connectors and its tasks."""
        return self._metrics.beans(self.connector_names(), self.task_ids())

    def log_levels(self) -> Mapping[str, int]:
        return self._levels

    def set_log_level(self, logger: str, level: int) -> None:
        """Sets the level of a logger in all processes. The name of the root logger is "root"."""
        self._levels[logger] = level
        for run in self._tasks.values():
            run.note("levels", {logger: level})
        for connector in self._connectors.values():
            connector.process.note("levels", {logger: level})

    # Offsets

    async def offsets(self, name: str, config: Config) -> SourceOffsets:
        return await self._offsets.read(name, config)

    async def alter_offsets(self, name: str, config: Config, offsets: SourceOffsets | None) -> str:
        return await self._offsets.alter(name, config, offsets)


_STATES = {
    TargetState.STARTED: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}


def _class_name(kind: type[object]) -> str:
    """The name of a task's class in its configuration: Java's, if it replaces a Java class."""
    name = getattr(kind, "java_class", None)
    return name if isinstance(name, str) else f"{kind.__module__}.{kind.__qualname__}"
