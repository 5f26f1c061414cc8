"""The metrics endpoint of a worker: /metrics for Prometheus, and /jmx with Kafka's MBean names.

`kcli.metrics.listener` or JMX_PORT opens it, as on a broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus

from kcli.http.server import JSON, TEXT, HttpError, HttpServer, Request, Response, get, respond
from kcli.model.object_name import MalformedObjectName, ObjectName
from kcli.runtime.network import Network
from kcli.server.beans.bean import Bean
from kcli.server.beans.exposition.encoding import accepted_format, encoded, json_bean, json_parts
from kcli.server.beans.exposition.families import Families
from kcli.server.beans.exposition.profiles import PROFILES

LISTENER_KEY = "kcli.metrics.listener"

_log = logging.getLogger("org.apache.kafka.connect.runtime.ConnectMetrics")

Beans = Mapping[str, Mapping[str, float | str]]
"""By the name of an MBean, the values of its attributes."""


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

    def _read(self) -> Iterable[Bean]:
        for name, attributes in self._beans().items():
            parsed = ObjectName.parse(name)
            yield Bean(parsed.domain, dict(parsed.properties), dict(attributes))

    async def _metrics(self, request: Request) -> Response:
        profile = PROFILES.get(request.query.get("profile", "default"))
        if profile is None:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"the profile must be one of {', '.join(PROFILES)}")
        format_ = accepted_format(",".join(request.headers.getall("Accept", [])))
        families = Families(profile, with_exemplars=False)
        for bean in self._read():
            families.add(bean)
        return respond(b"".join(encoded(families, format_)), format_.content_type)

    async def _jmx(self, request: Request) -> Response:
        try:
            patterns = [ObjectName.parse(query) for query in request.query.getall("qry", []) if query]
        except MalformedObjectName as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        texts = [
            json_bean(bean)
            for bean in self._read()
            if not patterns or any(pattern.matches(bean.domain, bean.properties) for pattern in patterns)
        ]
        return respond(b"".join(json_parts(texts)), JSON)

    async def _unknown(self, request: Request) -> Response:
        return respond(f"there is no {request.path}: /metrics or /jmx\n".encode(), TEXT, HTTPStatus.NOT_FOUND)
