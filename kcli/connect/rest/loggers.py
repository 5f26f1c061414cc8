"""The resources of loggers: /admin/loggers (KIP-495, KIP-976)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from http import HTTPStatus

from kcli.connect.errors import BadRequest, NotFound, RestError
from kcli.connect.herders.herder import Herder
from kcli.connect.rest import entities
from kcli.http.rest.json_bodies import InvalidBody, texts_of
from kcli.http.rest.json_slices import read_json
from kcli.http.rest.routing import Call, Reply, Route

_log = logging.getLogger("org.apache.kafka.connect.runtime.rest.resources.LoggingResource")

LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")
"""The levels of Log4j 2."""


class LoggerResources:
    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", "/admin/loggers", self._list),
            Route("GET", "/admin/loggers/{logger}", self._get),
            Route("PUT", "/admin/loggers/{logger}", self._set),
        ]

    async def _list(self, call: Call) -> Reply:
        return Reply(
            {name: entities.logger(*level) for name, level in sorted(self._herder.loggers.all().items())}
        )

    async def _get(self, call: Call) -> Reply:
        name = call.parameters["logger"]
        level = self._herder.loggers.get(name)
        if level is None:
            raise NotFound(f"Logger {name} not found.")
        return Reply(entities.logger(*level))

    async def _set(self, call: Call) -> Reply:
        body = await read_json(call.body, numbers_as_text=True)
        if body is None:
            raise InvalidBody('the body is empty: expected {"level": "DEBUG"} or another level')
        level = texts_of(body, "the body").get("level")
        if level is None:
            raise BadRequest("Desired 'level' parameter was not specified in request.")
        if not level:
            raise RestError("Illegal null or empty Level name.")
        if level.upper() not in LEVELS:
            raise NotFound(f"invalid log level '{level}'.")
        scope = call.query.get("scope", "worker").lower()
        if scope not in ("worker", "cluster"):
            _log.warning("Received invalid scope '%s' in request, using scope worker", scope)
        name = call.parameters["logger"]
        if scope == "cluster":
            await self._herder.set_logger_level(name, level.upper())
            return Reply(status=HTTPStatus.NO_CONTENT)
        return Reply(list(self._herder.loggers.set(name, level.upper())))
