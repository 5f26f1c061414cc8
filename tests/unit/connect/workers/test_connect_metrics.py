"""The metrics of connectors and tasks under Kafka's MBean names."""

from __future__ import annotations

from kcli.connect.config.plugin import Plugin, PluginType
from kcli.connect.model import CONNECTOR, ConnectorType, State, TaskId
from kcli.connect.workers.metrics import EngineMetrics, quoted
from rigs.connect_tasks import source_spec

PLUGIN = Plugin("gold.CounterSource", "m:C", PluginType.SOURCE, "1.0", ())


def test_names_of_connectors_are_quoted_as_in_java() -> None:
    assert [quoted(name) for name in ("a-b_c.1", "a/b", 'a"*', "")] == ["a-b_c.1", '"a/b"', '"a\\"\\*"', '""']


def test_a_worker_counts_its_tasks_by_state() -> None:
    metrics = EngineMetrics()
    metrics.add_connector("c", PLUGIN, ConnectorType.SOURCE)
    metrics.set_state(TaskId("c", CONNECTOR), State.RUNNING)
    tasks = [TaskId("c", number) for number in range(3)]
    metrics.add_task(tasks[0], source_spec(), "1.0")
    for task, state in zip(tasks, (State.RUNNING, State.FAILED, State.RUNNING), strict=True):
        metrics.set_state(task, state)
    metrics.task_starts.attempts, metrics.task_starts.failures = 4, 1
    beans = dict(metrics.beans(["c"], tasks))
    counts = beans["kafka.connect:type=connect-worker-metrics,connector=c"]
    assert counts["connector-total-task-count"] == 3
    assert (counts["connector-running-task-count"], counts["connector-failed-task-count"]) == (2, 1)
    worker = beans["kafka.connect:type=connect-worker-metrics"]
    assert (worker["task-count"], worker["task-startup-success-percentage"]) == (3, 0.75)
    assert beans["kafka.connect:type=connector-metrics,connector=c"]["status"] == "running"
    bean = beans["kafka.connect:type=connector-task-metrics,connector=c,task=0"]
    assert (bean["connector-type"], bean["status"]) == ("source", "running")


def test_a_report_of_a_damaged_process_is_read_with_care() -> None:
    metrics = EngineMetrics()
    task = TaskId("c", 0)
    for body in (
        None,
        [1],
        {"source-task-metrics": 5},
        {"other": {"a": 1}},
        {"task-error-metrics": {"a": "b"}},
    ):
        metrics.merge_report(task, body)
    metrics.merge_report(task, {"source-task-metrics": {"source-record-write-total": 3}})
    name = "kafka.connect:type=source-task-metrics,connector=c,task=0"
    assert dict(metrics.beans([], []))[name] == {"source-record-write-total": 3}
    metrics.remove_task(task)
    assert name not in dict(metrics.beans([], []))
