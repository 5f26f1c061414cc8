"""The findings about connectors: those that failed, that no worker runs, or that have no tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcli.client.diagnosis.connect.hints import Failure, hint
from kcli.client.diagnosis.connect.state import (
    FAILED,
    PAUSED,
    RUNNING,
    STOPPED,
    UNASSIGNED,
    ConnectorState,
    Part,
)
from kcli.client.diagnosis.finding import Finding, ok, warning, wrong

CONNECTOR, TASK = "connector", "task"

_NUMBERS_SHOWN = 10
"""The most tasks that a finding names."""

_WAIT = (
    "a worker has left, and the others wait for it: scheduled.rebalance.max.delay.ms, 5 minutes by default. If it "
    "lasts longer, look at the log of the leader"
)


def judge_connectors(
    connectors: Sequence[ConnectorState], plugins: Sequence[str], url: str
) -> Iterable[Finding]:
    """Yields the findings of all connectors, and one finding for the connectors that run."""
    running, tasks = 0, 0
    for connector in connectors:
        findings = list(_judge(connector, plugins, url))
        yield from findings
        if not findings:
            running += 1
            tasks += len(connector.tasks)
    if not connectors:
        yield ok(CONNECTOR, url, "there are no connectors")
    elif running:
        yield ok(CONNECTOR, url, f"{_count(running, 'connector')} with {_count(tasks, 'task')} run")


def _judge(connector: ConnectorState, plugins: Sequence[str], url: str) -> Iterable[Finding]:
    state, name = connector.connector.state, connector.name
    if state == FAILED:
        failure = Failure(connector, connector.connector.trace, plugins, url)
        at = connector.connector.worker
        yield wrong(CONNECTOR, name, f"FAILED on {at}: {failure.text}", hint(failure))
    elif state == UNASSIGNED:
        yield warning(CONNECTOR, name, "UNASSIGNED: no worker runs the connector", _WAIT)
    elif state in (PAUSED, STOPPED):
        yield ok(CONNECTOR, name, f"{state}, because a user asked for it")
    elif state != RUNNING:
        yield ok(CONNECTOR, name, state)
    elif not connector.tasks:
        yield warning(
            CONNECTOR,
            name,
            "RUNNING without tasks: the connector found no work",
            "if it began more than a minute ago, look for its name in the log of the worker "
            f"{connector.connector.worker}",
        )
    yield from _judge_tasks(connector, plugins, url)


def _judge_tasks(connector: ConnectorState, plugins: Sequence[str], url: str) -> Iterable[Finding]:
    """Yields one finding for all tasks that failed with the same error."""
    failed: dict[str, list[Part]] = {}
    for task in connector.tasks:
        if task.state == FAILED:
            failed.setdefault(Failure(connector, task.trace, plugins, url).text, []).append(task)
    for text, parts in failed.items():
        failure = Failure(connector, parts[0].trace, plugins, url)
        workers = ", ".join(dict.fromkeys(part.worker for part in parts))
        yield wrong(TASK, _subject(connector, parts), f"FAILED on {workers}: {text}", hint(failure))
    unassigned = [task for task in connector.tasks if task.state == UNASSIGNED]
    if unassigned and connector.connector.state != UNASSIGNED:
        text = f"UNASSIGNED: no worker runs {'it' if len(unassigned) == 1 else 'them'}"
        yield warning(TASK, _subject(connector, unassigned), text, _WAIT)


def _subject(connector: ConnectorState, tasks: Sequence[Part]) -> str:
    numbers = [str(task.task) for task in tasks]
    more = len(numbers) - _NUMBERS_SHOWN
    shown = ", ".join(numbers[:_NUMBERS_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{connector.name} {'task' if len(numbers) == 1 else 'tasks'} {shown}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
