"""Which parts of a connector a request restarts (KIP-745)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from kcli.connect.model import ConnectorState, RestartRequest, State, Status, TaskId


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """`state` is the state to show, in which everything that restarts is RESTARTING."""

    request: RestartRequest
    state: ConnectorState

    @property
    def restarts_connector(self) -> bool:
        return self.state.connector.state is State.RESTARTING

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        return tuple(
            TaskId(self.request.connector, number)
            for number, status in self.state.tasks.items()
            if status.state is State.RESTARTING
        )

    def __str__(self) -> str:
        connector = "connector and " if self.restarts_connector else ""
        counts = f"{len(self.tasks)} of {len(self.state.tasks)} tasks"
        return f"plan to restart {connector}{counts} for {describe(self.request)}"


def restart_plan(request: RestartRequest, state: ConnectorState) -> RestartPlan:
    """Plans a restart. `state` is the present state of the connector."""
    connector = _restarting(state.connector) if _is_meant(request, state.connector) else state.connector
    tasks = {
        number: _restarting(status) if request.include_tasks and _is_meant(request, status) else status
        for number, status in state.tasks.items()
    }
    return RestartPlan(request, dataclasses.replace(state, connector=connector, tasks=tasks))


def greater_request(first: RestartRequest, second: RestartRequest) -> RestartRequest:
    """The one of two requests for the same connector that restarts more. If both restart the same, the first one."""
    return second if _impact(second) > _impact(first) else first


def describe(request: RestartRequest) -> str:
    only_failed, include_tasks = str(request.only_failed).lower(), str(request.include_tasks).lower()
    return (
        f"restart request for {{connectorName='{request.connector}', "
        f"onlyFailed={only_failed}, includeTasks={include_tasks}}}"
    )


def _is_meant(request: RestartRequest, status: Status) -> bool:
    return not request.only_failed or status.state is State.FAILED


def _restarting(status: Status) -> Status:
    return dataclasses.replace(status, state=State.RESTARTING)


def _impact(request: RestartRequest) -> tuple[bool, bool]:
    return not request.only_failed, request.include_tasks
