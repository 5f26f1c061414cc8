"""The metrics endpoint of a program that is no broker: /metrics for Prometheus, and /jmx with names of MBeans.

`kcli.metrics.listener` or JMX_PORT opens it, as on a broker.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from http import HTTPStatus

from kcli.config.definition import ConfigError
from kcli.config.environment import metrics_address
from kcli.http.server import JSON, TEXT, HttpError, HttpServer, Request, Response, get, respond
from kcli.model.addresses import read_address
from kcli.model.object_name import MalformedObjectName, ObjectName
from kcli.model.pace import Pace
from kcli.runtime.network import Network, SystemNetwork
from kcli.runtime.turns import Turn
from kcli.server.beans.bean import Bean
from kcli.server.beans.exposition.encoding import accepted_format, encoded, json_bean, json_parts
from kcli.server.beans.exposition.families import Families
from kcli.server.beans.exposition.profiles import PROFILES

LISTENER_KEY = "kcli.metrics.listener"

_log = logging.getLogger("kcli.server.MetricsEndpoint")

BEAN_COST = 50
"""The cost of a bean with about twelve attributes, from its name to its lines."""

PART_COST = 500
"""The cost of the text of LINES_PER_PART lines."""

Beans = Iterable[tuple[str, Mapping[str, float | str]]]
"""The names of MBeans, and the values of their attributes."""


def metrics_server(texts: Mapping[str, str], beans: Callable[[], Beans]) -> MetricsServer | None:
    """The endpoint, if its key or JMX_PORT opens it. Raises ConfigError for an invalid address."""
    text = texts.get(LISTENER_KEY) or metrics_address()
    if not text:
        return None
    address = read_address(text if ":" in text else f":{text}")
    if address is None:
        raise ConfigError(f"{LISTENER_KEY} is {text}: expected host:port", key=LISTENER_KEY)
    return MetricsServer(beans, SystemNetwork(), *address)


class MetricsServer:
    """Serves what `beans` returns. Everybody who can connect may read it."""

    def __init__(self, beans: Callable[[], Beans], network: Network, host: str, port: int) -> None:
        self._beans = beans
        self._host = host or None
        self.port = port
        routes = [
            get("/metrics", self._metrics),
            get("/jmx", self._jmx),
            get("/{path:.*}", self._unknown),
        ]
        self._server = HttpServer(routes, network)

    async def start(self) -> None:
        """Raises OSError if the port is not free."""
        self.port = await self._server.start(self._host, self.port)
        _log.info("Metrics are served on http://%s:%d/metrics", self._host or "0.0.0.0", self.port)

    async def stop(self) -> None:
        await self._server.stop()

    async def _read(self, pace: Pace) -> AsyncIterator[Bean]:
        """A worker of a thousand connectors has ten thousand beans."""
        for name, attributes in self._beans():
            await pace(BEAN_COST)
            parsed = ObjectName.parse(name)
            yield Bean(parsed.domain, dict(parsed.properties), dict(attributes))

    async def _metrics(self, request: Request) -> Response:
        profile = PROFILES.get(request.query.get("profile", "default"))
        if profile is None:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"the profile must be one of {', '.join(PROFILES)}")
        format_ = accepted_format(",".join(request.headers.getall("Accept", [])))
        families, pace = Families(profile, with_exemplars=False), Turn()
        async for bean in self._read(pace):
            families.add(bean)
        return respond(await _joined(encoded(families, format_), pace), format_.content_type)

    async def _jmx(self, request: Request) -> Response:
        try:
            patterns = [ObjectName.parse(query) for query in request.query.getall("qry", []) if query]
        except MalformedObjectName as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        pace = Turn()
        texts = [
            json_bean(bean)
            async for bean in self._read(pace)
            if not patterns or any(pattern.matches(bean.domain, bean.properties) for pattern in patterns)
        ]
        return respond(await _joined(json_parts(texts), pace), JSON)

    async def _unknown(self, request: Request) -> Response:
        return respond(f"there is no {request.path}: /metrics or /jmx\n".encode(), TEXT, HTTPStatus.NOT_FOUND)


async def _joined(parts: Iterable[bytes], pace: Pace) -> bytes:
    body = bytearray()
    for part in parts:
        await pace(PART_COST)
        body += part
    return bytes(body)
