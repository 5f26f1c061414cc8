"""Connectors of Kafka Connect: the list, one connector, and the actions on its state and its offsets."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from kcli.client.diagnosis.connect.hints import Failure, hint
from kcli.client.diagnosis.connect.state import FAILED, RUNNING, ConnectorState, Part, connector_states
from kcli.console.answers import Outcome, Rows
from kcli.console.calls import Action, Call
from kcli.console.cluster_rights import check_rights
from kcli.console.connect.workers import read, send, worker_of
from kcli.console.failures import ConsoleError
from kcli.console.routes import Change, Read
from kcli.http.connect_rest import ConnectRest, connector_path
from kcli.model.acl import AclOperation

_SEE, _CHANGE = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker that an option names. If the worker does not answer, `version` is None and `problem` has the reason."""

    worker: str
    version: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorRow:
    """A connector. `worker` is the worker of the options, and `runs_on` the worker that runs the connector."""

    worker: str
    name: str
    type: str
    state: str
    runs_on: str
    tasks: int
    running: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRow:
    """A connector or one of its tasks. `hint` is the advice for the error in the trace."""

    task: int | None
    state: str
    runs_on: str
    trace: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorDetails:
    name: str
    type: str
    connector_class: str
    connector: PartRow
    tasks: list[PartRow]
    topics: list[str]


async def list_workers(call: Call) -> dict[str, object]:
    """GET /connect: the workers that the options name."""
    await check_rights(call, _SEE)
    workers = call.rules.settings.connect
    answer = await call.cached(("connect-workers",), lambda: asyncio.gather(*map(_worker, workers)))
    return {"workers": answer.value}


async def list_connectors(call: Call) -> Rows:
    """GET /connect/connectors: the connectors of all workers that answer, or those with a `state`."""
    await check_rights(call, _SEE)
    workers = call.rules.settings.connect

    async def load() -> list[ConnectorRow]:
        return [row for rows in await asyncio.gather(*map(_rows, workers)) for row in rows]

    state = call.query("state")
    answer = await call.cached(("connect-connectors",), load)
    return call.listing().rows(
        [row for row in answer.value if state in ("", row.state)],
        text=lambda row: f"{row.name} {row.type} {row.state} {row.runs_on} {row.worker}",
        columns={
            "name": lambda row: row.name,
            "state": lambda row: row.state,
            "type": lambda row: row.type,
            "failed": lambda row: row.failed,
            "runs_on": lambda row: row.runs_on,
            "worker": lambda row: row.worker,
        },
    )


async def show_connector(call: Call) -> ConnectorDetails:
    """GET /connect/{worker}/connectors/{connector}: its state, its tasks with their traces, and its topics."""
    await check_rights(call, _SEE)
    rest, name = worker_of(call), call.part("connector")
    status, info, topics = await asyncio.gather(
        read(rest, connector_path(name, "/status")), read(rest, connector_path(name)), _topics(rest, name)
    )
    state = _state(name, {"status": status, "info": info})
    return ConnectorDetails(
        name=name,
        type=state.type,
        connector_class=state.config.get("connector.class", ""),
        connector=_part(state, state.connector, rest),
        tasks=[_part(state, task, rest) for task in state.tasks],
        topics=topics,
    )


async def show_offsets(call: Call) -> dict[str, object]:
    """GET /connect/{worker}/connectors/{connector}/offsets: the offsets, as the worker returns them."""
    await check_rights(call, _SEE)
    answer = await read(worker_of(call), connector_path(call.part("connector"), "/offsets"))
    offsets = answer.get("offsets") if isinstance(answer, dict) else None
    return {"offsets": offsets if isinstance(offsets, list) else []}


async def pause(action: Action) -> Outcome:
    """POST …/pause: pauses a connector and its tasks."""
    return await _act(action, "pause", "PUT", "/pause", "The tasks keep their memory and wait")


async def resume(action: Action) -> Outcome:
    """POST …/resume: resumes a connector that is paused or stopped."""
    return await _act(action, "resume", "PUT", "/resume", "The tasks continue at their offsets")


async def stop(action: Action) -> Outcome:
    """POST …/stop: stops a connector, so that it has no tasks and its offsets may be changed."""
    return await _act(
        action, "stop", "PUT", "/stop", "The connector then has no tasks, and keeps its offsets"
    )


async def restart(action: Action) -> Outcome:
    """POST …/restart {failed}: restarts a connector and its tasks, or only the parts that failed."""
    failed = action.flag("failed")
    path = f"/restart?includeTasks=true&onlyFailed={str(failed).lower()}"
    what = "Only what has failed begins again" if failed else "The connector and its tasks begin again"
    return await _act(action, "restart", "POST", path, what, *(["--failed"] if failed else []))


async def delete(action: Action) -> Outcome:
    """POST …/delete: deletes a connector. Its offsets stay."""
    return await _act(action, "delete", "DELETE", "", "Its offsets stay")


async def reset_offsets(action: Action) -> Outcome:
    """POST …/reset-offsets: deletes the offsets of a stopped connector."""
    what = "The connector must be stopped, and then begins again without offsets"
    return await _act(action, "offsets", "DELETE", "/offsets", what, "--reset")


async def _act(action: Action, verb: str, method: str, path: str, what: str, *options: str) -> Outcome:
    """Does an action on a connector, or checks for its preview that the connector exists."""
    await check_rights(action, _CHANGE)
    rest, name = worker_of(action), action.part("connector")
    action.target = f"connector {name} at {rest.place}"
    command = shlex.join(["kcli", "connect", verb, name, *options, "--url", rest.url])
    if action.is_preview:
        status = await read(rest, connector_path(name, "/status"))
        state = _state(name, {"status": status})
        return Outcome(command=command, summary=f"The connector {name} is {state.connector.state}. {what}.")
    await send(rest, method, connector_path(name, path))
    done = "reset the offsets" if verb == "offsets" else verb
    return Outcome(command=command, summary=f"The worker accepted: {done} of {name}.")


async def _worker(rest: ConnectRest) -> WorkerRow:
    try:
        answer = await read(rest, "/")
    except ConsoleError as error:
        return WorkerRow(worker=rest.place, problem=str(error))
    version = answer.get("version") if isinstance(answer, dict) else None
    if not isinstance(version, str):
        return WorkerRow(worker=rest.place, problem=f"{rest.url} is not the REST API of Kafka Connect")
    return WorkerRow(worker=rest.place, version=version)


async def _rows(rest: ConnectRest) -> Sequence[ConnectorRow]:
    """The connectors of a worker. A worker that does not answer has none, and the list of workers names the reason."""
    try:
        states = connector_states(await read(rest, "/connectors?expand=status"))
    except ConsoleError:
        return ()
    return [_row(rest, state) for state in states or ()]


def _row(rest: ConnectRest, state: ConnectorState) -> ConnectorRow:
    tasks = [task.state for task in state.tasks]
    return ConnectorRow(
        worker=rest.place,
        name=state.name,
        type=state.type,
        state=state.connector.state,
        runs_on=state.connector.worker,
        tasks=len(tasks),
        running=tasks.count(RUNNING),
        failed=tasks.count(FAILED),
    )


async def _topics(rest: ConnectRest, name: str) -> list[str]:
    """The topics of a connector, or none if the worker does not track them."""
    try:
        answer = await read(rest, connector_path(name, "/topics"))
    except ConsoleError:
        return []
    own = answer.get(name) if isinstance(answer, dict) else None
    topics = own.get("topics") if isinstance(own, dict) else None
    return sorted(map(str, topics)) if isinstance(topics, list) else []


def _state(name: str, item: dict[str, object]) -> ConnectorState:
    """Raises HttpError if the answer of the worker has another form."""
    states = connector_states({name: item})
    if not states:
        raise ConsoleError(
            HTTPStatus.BAD_GATEWAY, "WORKER_REFUSED", "the worker's answer has no state of the connector"
        )
    return states[0]


def _part(state: ConnectorState, part: Part, rest: ConnectRest) -> PartRow:
    advice = hint(Failure(state, part.trace, (), rest.url)) if part.state == FAILED else ""
    return PartRow(task=part.task, state=part.state, runs_on=part.worker, trace=part.trace, hint=advice)


_ONE = "/connect/{worker}/connectors/{connector}"

ROUTES = (
    Read("/connect", list_workers),
    Read("/connect/connectors", list_connectors),
    Read(_ONE, show_connector),
    Read(f"{_ONE}/offsets", show_offsets),
    Change(f"{_ONE}/pause", "pause connector", pause),
    Change(f"{_ONE}/resume", "resume connector", resume),
    Change(f"{_ONE}/stop", "stop connector", stop),
    Change(f"{_ONE}/restart", "restart connector", restart),
    Change(f"{_ONE}/delete", "delete connector", delete),
    Change(f"{_ONE}/reset-offsets", "reset offsets of connector", reset_offsets),
)
