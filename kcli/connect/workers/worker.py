"""The interface of a worker's engine: it runs connectors and tasks in processes, and reports their states.

The herders decide what runs where, and call it. Every call may take as long as a user's code takes, up to the time-outs
of the worker's configuration.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kcli.connect.model import Config, ConnectorType, SourceOffsets, State, TargetState, TaskId


class StatusListener(Protocol):
    """Receives states from the engine. `id` is a connector (task -1) or a task."""

    def changed(self, id: TaskId, state: State, *, trace: str | None, version: str | None) -> None: ...

    def used_topic(self, task: TaskId, topic: str) -> None:
        """A task has read from or written to a topic for the first time (KIP-558)."""
        ...

    def reconfigure(self, connector: str) -> None:
        """A connector has asked that its tasks be configured again."""
        ...


@dataclass(frozen=True, slots=True)
class TaskStart:
    """Everything that a task needs. Placeholders in both configurations are not resolved."""

    id: TaskId
    connector_config: Config
    task_config: Config
    target: TargetState
    task_count: int = 0
    """The number of tasks of the connector, which is checked against tasks.max. 0 skips the check."""
    fence: Callable[[], Awaitable[None]] | None = None
    """With exactly once: fences the last generation of tasks. Called before the task starts (KIP-618)."""
    may_start: Callable[[], Awaitable[bool]] | None = None
    """With exactly once: whether the task is still current. Called after its producer is initialised."""


class Engine(Protocol):
    async def start_connector(self, name: str, config: Config, target: TargetState) -> None:
        """Starts a connector. An error becomes its FAILED status, and is raised too."""
        ...

    async def stop_connector(self, name: str) -> None: ...

    async def task_configs(self, name: str) -> Sequence[Config]:
        """The configurations of tasks, with `task.class` and the topics of a sink, and placeholders put back.

        Raises ConnectException if the connector does not run, or fails.
        """
        ...

    async def start_task(self, start: TaskStart) -> bool:
        """Starts a task. Returns whether it could be started. An error becomes its FAILED status."""
        ...

    async def stop_tasks(self, tasks: Sequence[TaskId]) -> None:
        """Stops tasks: waits task.shutdown.graceful.timeout.ms for them, and then ends their processes."""
        ...

    def lease(self, end_s: float) -> None:
        """Tasks end themselves at this time of the event loop, unless another call prolongs the lease."""
        ...

    async def set_target_state(self, connector: str, target: TargetState) -> None:
        """Pauses, resumes or stops a connector and its tasks that run here."""
        ...

    def connector_names(self) -> Sequence[str]: ...

    def task_ids(self) -> Sequence[TaskId]: ...

    def task_states(self) -> Mapping[TaskId, State]:
        """The last reported state of each task that runs here, or UNASSIGNED before its first report."""
        ...

    def type_of(self, config: Config) -> ConnectorType: ...

    async def offsets(self, name: str, config: Config) -> SourceOffsets: ...

    async def alter_offsets(self, name: str, config: Config, offsets: SourceOffsets | None) -> str:
        """Changes the offsets of a stopped connector. None resets all of them. Returns the message for the user."""
        ...

    def set_log_level(self, logger: str, level: int) -> None:
        """Sets the level of a logger in all processes. The name of the root logger is "root"."""
        ...

    async def close(self) -> None: ...
