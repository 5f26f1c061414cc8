"""Connect's nouns: tasks, states, and what the REST API shows of connectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

Config = Mapping[str, str | None]
"""A configuration as a user has sent it. A key with null stays as it is, if its validation passes."""

CONNECTOR = -1
"""The task number that stands for the connector itself (Java's CONNECTOR_TASK)."""


class TaskId(NamedTuple):
    """A task, by the name of its connector and its number. The number -1 stands for the connector itself."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


class State(StrEnum):
    """The state of a connector or a task. `DESTROYED` is never shown."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"
    DESTROYED = "DESTROYED"


class TargetState(StrEnum):
    """The state that a user wants for a connector and its tasks."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class ConnectorType(StrEnum):
    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a connector or a task, as the status topic has it."""

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """`GET /connectors/C`."""

    name: str
    config: Config
    tasks: Sequence[TaskId]
    type: ConnectorType


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """One item of `GET /connectors/C/tasks`."""

    id: TaskId
    config: Config


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """`GET /connectors/C/status`. The tasks are in the order of their numbers."""

    name: str
    connector: Status
    tasks: Mapping[int, Status]
    type: ConnectorType


@dataclass(frozen=True, slots=True)
class RestartRequest:
    connector: str
    only_failed: bool = False
    include_tasks: bool = False


@dataclass(frozen=True, slots=True)
class InternalSignature:
    """The signature of a request between two workers (KIP-507)."""

    algorithm: str
    signature: bytes
    body: bytes


SourceOffsets = Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
"""Pairs of a source partition and its offset. None as an offset means: no offset."""
