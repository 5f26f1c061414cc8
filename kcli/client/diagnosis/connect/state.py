"""The connectors of a group of workers, read from the answer to GET /connectors?expand=status&expand=info."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

RUNNING, FAILED, UNASSIGNED = "RUNNING", "FAILED", "UNASSIGNED"
PAUSED, STOPPED, RESTARTING = "PAUSED", "STOPPED", "RESTARTING"


@dataclass(frozen=True, slots=True)
class Part:
    """A connector or one of its tasks. `task` is None for the connector."""

    task: int | None
    state: str
    worker: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """A connector with its tasks and its configuration. `type` is source, sink or unknown."""

    name: str
    type: str
    connector: Part
    tasks: Sequence[Part] = ()
    config: Mapping[str, str] = field(default_factory=dict)


def connector_states(answer: object) -> list[ConnectorState] | None:
    """Returns the connectors by name. Returns None if the answer has another form, as of a worker before Kafka 2.3.

    A connector that vanished while the worker made the answer is left out.
    """
    if not isinstance(answer, dict):
        return None
    states = (_connector(str(name), item) for name, item in sorted(answer.items()))
    return [state for state in states if state is not None]


def _connector(name: str, item: object) -> ConnectorState | None:
    status, info = _object(_object(item).get("status")), _object(_object(item).get("info"))
    if "connector" not in status:
        return None
    tasks = status.get("tasks")
    parts = [_part(task) for task in tasks] if isinstance(tasks, list) else []
    return ConnectorState(
        name,
        str(status.get("type", "unknown")),
        _part(status["connector"]),
        parts,
        {str(key): str(value) for key, value in _object(info.get("config")).items() if value is not None},
    )


def _part(item: object) -> Part:
    fields = _object(item)
    task = fields.get("id")
    return Part(
        task if isinstance(task, int) else None,
        str(fields.get("state", "")),
        str(fields.get("worker_id", "")),
        str(fields.get("trace") or ""),
    )


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
