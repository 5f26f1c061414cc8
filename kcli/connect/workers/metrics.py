"""The metrics of connectors and tasks under Kafka's MBean names, as one mapping."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from kcli.connect.model import TaskId

DOMAIN = "kafka.connect"
GROUPS = ("connector-task-metrics", "source-task-metrics", "sink-task-metrics", "task-error-metrics")
"""The groups of metrics that a task reports."""

Attributes = Mapping[str, float | str]
Beans = MutableMapping[str, dict[str, float | str]]
"""By the name of an MBean, the values of its attributes."""


def connector_bean(connector: str) -> str:
    return f"{DOMAIN}:type=connector-metrics,connector={quoted(connector)}"


def task_bean(group: str, id: TaskId) -> str:
    return f"{DOMAIN}:type={group},connector={quoted(id.connector)},task={id.task}"


def quoted(name: str) -> str:
    """A name as a value in an MBean name: in quotation marks if it has other characters than Kafka permits."""
    if name and all(character.isalnum() or character in "-_%. \t" for character in name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("*", "\\*").replace("?", "\\?")
    return '"' + escaped.replace("\n", "\\n") + '"'


def merge_report(beans: Beans, id: TaskId, body: object) -> None:
    """Takes the report of a task, which may come from a process that a user's code has damaged."""
    if not isinstance(body, dict):
        return
    for group in GROUPS:
        report = body.get(group)
        if isinstance(report, dict):
            values = {str(name): value for name, value in report.items() if isinstance(value, (int, float))}
            beans.setdefault(task_bean(group, id), {}).update(values)


def remove_task(beans: Beans, id: TaskId) -> None:
    for group in GROUPS:
        beans.pop(task_bean(group, id), None)


class StartUps:
    """Counts the starts of connectors or tasks, for connect-worker-metrics."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.attempts = 0
        self.failures = 0

    def attributes(self) -> dict[str, float]:
        successes = self.attempts - self.failures
        total = max(self.attempts, 1)
        return {
            f"{self._kind}-startup-attempts-total": self.attempts,
            f"{self._kind}-startup-success-total": successes,
            f"{self._kind}-startup-failure-total": self.failures,
            f"{self._kind}-startup-success-percentage": successes / total,
            f"{self._kind}-startup-failure-percentage": self.failures / total,
        }
