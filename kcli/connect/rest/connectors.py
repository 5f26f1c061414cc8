"""The resources of connectors: /connectors and everything below it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from urllib.parse import quote

from kcli.connect.errors import BadRequest, NotFound, RestError
from kcli.connect.herders.connector_log import ConnectorLog
from kcli.connect.herders.herder import Created, Herder
from kcli.connect.model import (
    RestartRequest,
    SourceOffsets,
    TargetState,
    TaskId,
)
from kcli.connect.rest import entities
from kcli.http.rest.json_bodies import InvalidBody, json_bytes, object_of, text_of, texts_of
from kcli.http.rest.json_slices import read_json
from kcli.http.rest.routing import Call, Reply, Route
from kcli.model.java_text import parse_int, trim
from kcli.runtime.turns import Turn

_INITIAL_STATES = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


READ_COST = 5
"""The cost of an element of a body: the offset of a partition."""

LISTED_COST = 50
"""The cost of a connector in a list with details: its two views, and their JSON."""


class ConnectorResources:
    """`tracks_topics` and `allows_reset` are topic.tracking.enable and topic.tracking.allow.reset."""

    def __init__(
        self,
        herder: Herder,
        advertised_url: str,
        log: ConnectorLog,
        *,
        tracks_topics: bool,
        allows_reset: bool,
    ) -> None:
        self._herder = herder
        self._url = advertised_url
        self._log = log
        self._tracks_topics = tracks_topics
        self._allows_reset = allows_reset

    def routes(self) -> Sequence[Route]:
        one = "/connectors/{connector}"
        return [
            Route("GET", "/connectors", self._list),
            Route("POST", "/connectors", self._create),
            Route("GET", one, self._info),
            Route("DELETE", one, self._delete),
            Route("GET", f"{one}/config", self._config),
            Route("PUT", f"{one}/config", self._put_config),
            Route("PATCH", f"{one}/config", self._patch_config),
            Route("GET", f"{one}/status", self._status),
            Route("POST", f"{one}/restart", self._restart),
            Route("PUT", f"{one}/pause", self._pause),
            Route("PUT", f"{one}/resume", self._resume),
            Route("PUT", f"{one}/stop", self._stop),
            Route("GET", f"{one}/tasks", self._tasks),
            Route("GET", f"{one}/tasks/{{task:int}}/status", self._task_status),
            Route("POST", f"{one}/tasks/{{task:int}}/restart", self._restart_task),
            Route("GET", f"{one}/logs", self._lines),
            Route("GET", f"{one}/topics", self._topics),
            Route("PUT", f"{one}/topics/reset", self._reset_topics),
            Route("GET", f"{one}/offsets", self._offsets),
            Route("PATCH", f"{one}/offsets", self._alter_offsets),
            Route("DELETE", f"{one}/offsets", self._reset_offsets),
        ]

    # Reads.

    async def _list(self, call: Call) -> Reply:
        await self._herder.settled()
        names = self._herder.views.connectors()
        if "expand" not in call.queries:
            return Reply(list(names))
        pace, parts = Turn(), []
        for name in names:
            await pace(LISTED_COST)
            details = self._details(name, call.queries["expand"])
            if details:
                parts.append(json_bytes(name) + b":" + json_bytes(details))
        return Reply(b"{" + b",".join(parts) + b"}")

    def _details(self, name: str, expansions: Sequence[str]) -> dict[str, object]:
        """The expanded details of a connector. A connector that vanishes in the meantime has none."""
        try:
            details: dict[str, object] = {}
            if "status" in expansions:
                details["status"] = entities.connector_state(self._herder.views.connector_state(name))
            if "info" in expansions:
                details["info"] = entities.connector_info(self._herder.views.info(name))
            return details
        except NotFound:
            return {}

    async def _info(self, call: Call) -> Reply:
        await self._herder.settled(_connector(call))
        return Reply(entities.connector_info(self._herder.views.info(_connector(call))))

    async def _config(self, call: Call) -> Reply:
        return Reply(dict(self._herder.views.config(_connector(call))))

    async def _status(self, call: Call) -> Reply:
        await self._herder.settled(_connector(call))
        return Reply(entities.connector_state(self._herder.views.connector_state(_connector(call))))

    async def _tasks(self, call: Call) -> Reply:
        await self._herder.settled(_connector(call))
        infos = self._herder.views.tasks(_connector(call))
        return Reply([entities.task_info(info) for info in infos])

    async def _task_status(self, call: Call) -> Reply:
        task = _task(call)
        return Reply(entities.task_state(task.task, self._herder.views.task_status(task)))

    # Configurations.

    async def _create(self, call: Call) -> Reply:
        body = await read_json(call.body, numbers_as_text=True)
        if body is None:
            raise InvalidBody("the body is empty: expected an object with the fields name and config")
        request = object_of(body, ("name", "config", "initial_state"), "a new connector")
        name = trim(text_of(request.get("name"), "name") or "")
        target = initial_state(request.get("initial_state"))
        config = _named(name, _config_of(request.get("config"), "config"))
        return self._created(await self._herder.put_config(name, config, target, may_replace=False))

    async def _put_config(self, call: Call) -> Reply:
        name = _connector(call)
        config = _named(name, _config_of(await read_json(call.body, numbers_as_text=True), "the body"))
        return self._created(await self._herder.put_config(name, config, None, may_replace=True))

    async def _patch_config(self, call: Call) -> Reply:
        body = await read_json(call.body, numbers_as_text=True)
        patch = _config_of(body, "the body")
        return Reply(entities.connector_info(await self._herder.patch_config(_connector(call), patch)))

    def _created(self, created: Created) -> Reply:
        body = entities.connector_info(created.info)
        if not created.is_new:
            return Reply(body)
        return Reply(body, HTTPStatus.CREATED, {"Location": location(self._url, created.info.name)})

    async def _delete(self, call: Call) -> Reply:
        await self._herder.delete(_connector(call))
        return _NO_CONTENT

    # States.

    async def _pause(self, call: Call) -> Reply:
        await self._herder.pause(_connector(call))
        return _ACCEPTED

    async def _resume(self, call: Call) -> Reply:
        await self._herder.resume(_connector(call))
        return _ACCEPTED

    async def _stop(self, call: Call) -> Reply:
        await self._herder.stop_connector(_connector(call))
        return _NO_CONTENT

    async def _restart(self, call: Call) -> Reply:
        request = RestartRequest(
            _connector(call),
            only_failed=_is_true(call.query.get("onlyFailed")),
            include_tasks=_is_true(call.query.get("includeTasks")),
        )
        if not request.only_failed and not request.include_tasks:
            await self._herder.restart_connector(request.connector)
            return _NO_CONTENT
        state = await self._herder.restart(request)
        return Reply(entities.connector_state(state), HTTPStatus.ACCEPTED)

    async def _restart_task(self, call: Call) -> Reply:
        await self._herder.restart_task(_task(call))
        return _NO_CONTENT

    async def _lines(self, call: Call) -> Reply:
        """The last log lines of a connector on this worker. Java's workers do not have this resource."""
        name = _connector(call)
        self._herder.views.config(name)
        return Reply(list(self._log.lines(name)))

    # Topics and offsets.

    async def _topics(self, call: Call) -> Reply:
        self._check_tracking()
        name = _connector(call)
        await self._herder.settled()
        return Reply(entities.topics(name, self._herder.views.topics(name)))

    async def _reset_topics(self, call: Call) -> Reply:
        self._check_tracking()
        if not self._allows_reset:
            raise RestError("Topic tracking reset is disabled.", 403)
        await self._herder.reset_active_topics(_connector(call))
        return _ACCEPTED

    def _check_tracking(self) -> None:
        if not self._tracks_topics:
            raise RestError("Topic tracking is disabled.", 403)

    async def _offsets(self, call: Call) -> Reply:
        return Reply(entities.offsets(await self._herder.offsets(_connector(call))))

    async def _alter_offsets(self, call: Call) -> Reply:
        offsets = await _offsets_of(call.body)
        if not offsets:
            raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
        return Reply(entities.message(await self._herder.alter_offsets(_connector(call), offsets)))

    async def _reset_offsets(self, call: Call) -> Reply:
        return Reply(entities.message(await self._herder.alter_offsets(_connector(call), None)))


_NO_CONTENT = Reply(status=HTTPStatus.NO_CONTENT)
_ACCEPTED = Reply(status=HTTPStatus.ACCEPTED)
_TEMPLATE = re.compile(r"\{\s*([^{}:\s]+)[^{}]*\}", re.ASCII)
_URI_SAFE = "!$&'()*+,;=:@/-._~"
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def location(url: str, name: str) -> str:
    """The URL of a connector at a worker, as Java's UriBuilder makes it: a name is a part of the path as it is.

    Raises RestError for a name with `{x}`, which Java takes for a template. The connector is made all the same.
    """
    variable = _TEMPLATE.search(name)
    if variable is not None:
        raise RestError(f"The template variable '{variable.group(1)}' has no value")
    return f"{url.rstrip('/')}/connectors/{_uri_path(name.removeprefix('/'))}"


def _uri_path(name: str) -> str:
    """Encodes a name as a path. An escape such as `%41` stays, because Java takes it for one that is made already."""
    return quote(_BARE_PERCENT.sub("%25", name), safe=_URI_SAFE + "%")


def _connector(call: Call) -> str:
    return call.parameters["connector"]


def _task(call: Call) -> TaskId:
    return TaskId(_connector(call), parse_int(call.parameters["task"]))


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() == "true"


def initial_state(value: object) -> TargetState | None:
    if value is None:
        return None
    state = _INITIAL_STATES.get(str(value).upper())
    if state is None:
        raise InvalidBody(f"initial_state {value} is unknown: expected RUNNING, PAUSED or STOPPED")
    return state


def _config_of(value: object, name: str) -> dict[str, str | None]:
    if value is None:
        raise InvalidBody(f"{name} is empty: expected an object with the keys of a configuration")
    return texts_of(value, name)


def _named(name: str, config: dict[str, str | None]) -> Mapping[str, str | None]:
    """Adds the name to the configuration. Raises BadRequest if the configuration has another one."""
    configured = config.get("name")
    if configured is None:
        config["name"] = name
    elif configured != name:
        raise BadRequest(
            f"Connector name configuration ({configured}) doesn't match connector name in the URL ({name})"
        )
    return config


async def _offsets_of(body: bytes) -> SourceOffsets:
    value, pace = await read_json(body), Turn()
    if value is None:
        raise InvalidBody("the body is empty: expected an object with the field offsets")
    items = object_of(value, ("offsets",), "a change of offsets").get("offsets")
    if items is None:
        return []
    if not isinstance(items, list):
        raise InvalidBody("offsets is not a list")
    pairs: list[tuple[Mapping[str, object], Mapping[str, object] | None]] = []
    for item in items:
        await pace(READ_COST)
        pair = object_of(item, ("partition", "offset"), "an offset")
        partition, offset = pair.get("partition"), pair.get("offset")
        for part in (partition, offset):
            if part is not None and not isinstance(part, dict):
                raise InvalidBody("a partition and an offset are JSON objects")
        pairs.append((partition, offset))  # type: ignore[arg-type]
    return pairs
