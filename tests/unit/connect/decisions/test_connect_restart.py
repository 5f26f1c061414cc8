"""The plan of a restart (KIP-745)."""

from __future__ import annotations

import pytest

from kcli.connect.decisions.restart import greater_request, restart_plan
from kcli.connect.model import ConnectorState, ConnectorType, RestartRequest, State, Status, TaskId


def status(state: State) -> Status:
    return Status(state, "w", 1, trace="boom" if state is State.FAILED else None)


STATE = ConnectorState(
    "a",
    status(State.RUNNING),
    {0: status(State.RUNNING), 1: status(State.FAILED)},
    ConnectorType.SOURCE,
)


@pytest.mark.parametrize(
    ("only_failed", "include_tasks", "connector", "tasks"),
    [
        (False, False, True, []),
        (False, True, True, [0, 1]),
        (True, False, False, []),
        (True, True, False, [1]),
    ],
)
def test_a_request_restarts_what_it_names(
    only_failed: bool, include_tasks: bool, connector: bool, tasks: list[int]
) -> None:
    request = RestartRequest("a", only_failed=only_failed, include_tasks=include_tasks)
    plan = restart_plan(request, STATE)
    assert plan.restarts_connector is connector
    assert plan.tasks == tuple(TaskId("a", number) for number in tasks)
    assert (plan.state.connector.state is State.RESTARTING) is connector


def test_the_shown_state_keeps_the_trace_of_what_restarts() -> None:
    plan = restart_plan(RestartRequest("a", only_failed=True, include_tasks=True), STATE)
    assert plan.state.tasks[1] == Status(State.RESTARTING, "w", 1, trace="boom")
    assert str(plan) == (
        "plan to restart 1 of 2 tasks for "
        "restart request for {connectorName='a', onlyFailed=true, includeTasks=true}"
    )


def test_of_two_requests_the_one_that_restarts_more_counts() -> None:
    requests = [
        RestartRequest("a", only_failed=True),
        RestartRequest("a", only_failed=True, include_tasks=True),
        RestartRequest("a"),
        RestartRequest("a", include_tasks=True),
    ]
    for number, less in enumerate(requests):
        for more in requests[number:]:
            assert greater_request(less, more) == greater_request(more, less) == more
