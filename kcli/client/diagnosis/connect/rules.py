"""The findings about connectors that failed, that no worker runs, or that have no tasks, and about lost workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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

WORKER, CONNECTOR, TASK = "worker", "connector", "task"

_NUMBERS_SHOWN = 10
"""The most tasks that a finding names."""


def judge_connectors(
    connectors: Sequence[ConnectorState], plugins: Sequence[str], url: str, delay_ms: int | None
) -> Iterable[Finding]:
    """Yields the findings of all connectors, and one finding for the connectors that run.

    `delay_ms` is the time until the workers take over the work of a lost worker. None means that the worker does not
    report it.
    """
    running, tasks = 0, 0
    for connector in connectors:
        findings = [*_judge(connector, plugins, url), *_unassigned(connector, delay_ms)]
        yield from findings
        if not findings:
            running += 1
            tasks += len(connector.tasks)
    if not connectors:
        yield ok(CONNECTOR, url, "there are no connectors")
    elif running:
        yield ok(CONNECTOR, url, f"{_count(running, 'connector')} with {_count(tasks, 'task')} run")


def judge_workers(
    connectors: Sequence[ConnectorState], silent: Mapping[str, str], delay_ms: int | None
) -> Iterable[Finding]:
    """Yields a finding for each worker that does not answer, although states name it.

    `silent` has the error of each such worker. A worker that is killed cannot write that its tasks no longer run, so
    their states stay RUNNING until another worker takes them over.
    """
    for worker, error in silent.items():
        parts = [part for connector in connectors for part in (connector.connector, *connector.tasks)]
        named = sum(part.worker == worker for part in parts)
        text = f"no answer: {error}. {_count(named, 'connector or task', 'connectors or tasks')} may not run on it now"
        yield warning(WORKER, worker, text, _wait(delay_ms))


def _judge(connector: ConnectorState, plugins: Sequence[str], url: str) -> Iterable[Finding]:
    state, name = connector.connector.state, connector.name
    if state == FAILED:
        failure = Failure(connector, connector.connector.trace, plugins, url)
        at = connector.connector.worker
        yield wrong(CONNECTOR, name, f"FAILED on {at}: {failure.text}", hint(failure))
    elif state in (PAUSED, STOPPED):
        yield ok(CONNECTOR, name, f"{state}, because a user asked for it")
    elif state not in (RUNNING, UNASSIGNED):
        yield ok(CONNECTOR, name, state)
    elif state == RUNNING and not connector.tasks:
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


def _unassigned(connector: ConnectorState, delay_ms: int | None) -> Iterable[Finding]:
    """Yields a finding if no worker runs the connector, or some of its tasks."""
    tasks = [task for task in connector.tasks if task.state == UNASSIGNED]
    if connector.connector.state == UNASSIGNED:
        yield warning(CONNECTOR, connector.name, "UNASSIGNED: no worker runs the connector", _wait(delay_ms))
    elif tasks:
        text = f"UNASSIGNED: no worker runs {'it' if len(tasks) == 1 else 'them'}"
        yield warning(TASK, _subject(connector, tasks), text, _wait(delay_ms))


def _wait(delay_ms: int | None) -> str:
    if delay_ms is None:
        when = "after scheduled.rebalance.max.delay.ms, 5 minutes by default"
    elif delay_ms:
        when = f"in {delay_ms / 1000:.0f} s, because of scheduled.rebalance.max.delay.ms"
    else:
        when = "with the next rebalance"
    return f"a worker has left: the others take over its work {when}. If it lasts longer, look at the leader's log"


def _subject(connector: ConnectorState, tasks: Sequence[Part]) -> str:
    numbers = [str(task.task) for task in tasks]
    more = len(numbers) - _NUMBERS_SHOWN
    shown = ", ".join(numbers[:_NUMBERS_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{connector.name} {'task' if len(numbers) == 1 else 'tasks'} {shown}"


def _count(number: int, noun: str, nouns: str = "") -> str:
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"
