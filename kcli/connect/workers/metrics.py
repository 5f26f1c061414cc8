"""The metrics of connectors and tasks under Kafka's MBean names, as one mapping."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kcli.connect.config.plugin import Plugin
from kcli.connect.model import CONNECTOR, ConnectorType, State, TaskId
from kcli.connect.tasks.spec import TaskSpec

DOMAIN = "kafka.connect"
GROUPS = ("connector-task-metrics", "source-task-metrics", "sink-task-metrics", "task-error-metrics")
"""The groups of metrics that a task reports."""

_PLAIN = re.compile(r"[\w\-%. \t]+", re.ASCII)
"""The names that Java's Sanitizer leaves as they are."""

Attributes = Mapping[str, float | str]
Beans = dict[str, dict[str, float | str]]
"""By the name of an MBean, the values of its attributes."""
NamedBean = tuple[str, Attributes]


def connector_bean(connector: str) -> str:
    return f"{DOMAIN}:type=connector-metrics,connector={quoted(connector)}"


def task_bean(group: str, id: TaskId) -> str:
    return f"{DOMAIN}:type={group},connector={quoted(id.connector)},task={id.task}"


def quoted(name: str) -> str:
    """A name as a value in an MBean name: in quotation marks if it has other characters than Kafka permits."""
    if _PLAIN.fullmatch(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("*", "\\*").replace("?", "\\?")
    return '"' + escaped.replace("\n", "\\n") + '"'


class StartUps:
    """Counts the starts of connectors or tasks."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.attempts = 0
        self.failures = 0

    def attributes(self) -> dict[str, float | str]:
        successes = self.attempts - self.failures
        total = max(self.attempts, 1)
        return {
            f"{self._kind}-startup-attempts-total": self.attempts,
            f"{self._kind}-startup-success-total": successes,
            f"{self._kind}-startup-failure-total": self.failures,
            f"{self._kind}-startup-success-percentage": successes / total,
            f"{self._kind}-startup-failure-percentage": self.failures / total,
        }


class EngineMetrics:
    """The metrics of a worker's connectors and tasks, as their processes report them."""

    def __init__(self) -> None:
        self._beans: Beans = {}
        self.connector_starts = StartUps("connector")
        self.task_starts = StartUps("task")

    def add_connector(self, name: str, plugin: Plugin, kind: ConnectorType) -> None:
        self._beans[connector_bean(name)] = {
            "connector-class": plugin.class_name,
            "connector-type": str(kind),
            "connector-version": plugin.version,
            "status": State.UNASSIGNED.lower(),
        }

    def add_task(self, id: TaskId, spec: TaskSpec, version: str | None) -> None:
        """Adds the classes of a task. Its numbers come with its reports."""
        self._beans.setdefault(task_bean("connector-task-metrics", id), {}).update(
            {
                "connector-class": spec.plugin.class_name,
                "connector-type": str(
                    ConnectorType.SOURCE if spec.source is not None else ConnectorType.SINK
                ),
                "connector-version": version or "",
                "key-converter-class": spec.key_converter.class_name,
                "value-converter-class": spec.value_converter.class_name,
                "header-converter-class": spec.header_converter.class_name,
            }
        )

    def set_state(self, id: TaskId, state: State) -> None:
        """Takes the state of a task, or of a connector (task -1)."""
        is_connector = id.task == CONNECTOR
        name = connector_bean(id.connector) if is_connector else task_bean("connector-task-metrics", id)
        self._beans.setdefault(name, {})["status"] = state.lower()

    def merge_report(self, id: TaskId, body: object) -> None:
        """Takes the report of a task, which may come from a process that a user's code has damaged."""
        if not isinstance(body, dict):
            return
        for group in GROUPS:
            report = body.get(group)
            if isinstance(report, dict):
                values = {str(key): value for key, value in report.items() if isinstance(value, int | float)}
                self._beans.setdefault(task_bean(group, id), {}).update(values)

    def remove_connector(self, name: str) -> None:
        self._beans.pop(connector_bean(name), None)

    def remove_task(self, id: TaskId) -> None:
        for group in GROUPS:
            self._beans.pop(task_bean(group, id), None)

    def beans(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> Iterator[NamedBean]:
        """All metrics. The caller may do other work between two beans."""
        worker: dict[str, float | str] = {
            "connector-count": len(connectors),
            "task-count": len(tasks),
            **self.connector_starts.attributes(),
            **self.task_starts.attributes(),
        }
        yield f"{DOMAIN}:type=connect-worker-metrics", worker
        by_connector: dict[str, list[TaskId]] = {name: [] for name in connectors}
        for id in tasks:
            by_connector.get(id.connector, []).append(id)
        for name, ids in by_connector.items():
            yield f"{DOMAIN}:type=connect-worker-metrics,connector={quoted(name)}", self._task_counts(ids)
        yield from list(self._beans.items())

    def _task_counts(self, tasks: Sequence[TaskId]) -> Attributes:
        states = [self._beans.get(task_bean("connector-task-metrics", id), {}).get("status") for id in tasks]
        kinds = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
        return {
            "connector-total-task-count": len(tasks),
            **{f"connector-{kind}-task-count": states.count(kind) for kind in kinds},
        }
