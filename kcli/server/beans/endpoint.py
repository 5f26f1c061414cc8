"""The metrics endpoint: serves the metrics of a broker over HTTP, for Prometheus, `kcli jmx` and `kcli top`.

    GET /metrics      Prometheus' text format
    GET /jmx          {"beans": [{"name": OBJECT NAME, ATTRIBUTE: VALUE, …}, …]}; ?qry=PATTERN, any number of times
    GET /requests     {"requests": […]}: the slowest requests of the last minutes

`kcli.metrics.listener` or the environment variable JMX_PORT opens the endpoint. Its clients can read metrics, but
cannot change anything. endpoint_security.py has TLS and the users. Without users, every client that can connect may
read.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from http import HTTPStatus

from kcli.http.server import JSON, TEXT, HttpError, HttpServer, Request, Response, get, respond
from kcli.model.object_name import MalformedObjectName, ObjectName
from kcli.runtime.network import Network
from kcli.server.beans.bean import Bean
from kcli.server.beans.broker_beans import BeanSources, broker_beans
from kcli.server.beans.endpoint_security import OPEN, EndpointSecurity
from kcli.server.beans.exposition import CONTENT_TYPE, PrometheusText, json_bean

_log = logging.getLogger("kcli.server.MetricsEndpoint")

# The beans that are made in one turn of the event loop. This takes about a millisecond, so that producers do not wait
# long for a scrape.
BEANS_PER_TURN = 200


class MetricsEndpoint:
    """The HTTP server for metrics. It starts before the broker's listeners and stops after them, so that operators can
    watch the start and the stop."""

    def __init__(
        self, sources: BeanSources, network: Network, host: str, port: int, security: EndpointSecurity = OPEN
    ) -> None:
        self.port = port
        self._scheme = "http" if security.tls is None else "https"
        self._sources = sources
        self._host = host or None  # None: every interface
        routes = [
            get("/", self._index),
            get("/metrics", self._metrics),
            get("/jmx", self._jmx),
            get("/requests", self._requests),
            get("/{path:.*}", self._unknown),
        ]
        self._server = HttpServer(routes, network, tls=security.tls, logins=security.logins)
        # Only one scrape runs at a time, because a scrape uses the event loop that also serves clients.
        self._reading = asyncio.Lock()

    async def start(self) -> None:
        """Starts to listen. Raises OSError if the port is not free."""
        self.port = await self._server.start(self._host, self.port)
        _log.info(
            "Metrics are served on %s://%s:%d/metrics", self._scheme, self._host or "0.0.0.0", self.port
        )

    async def stop(self) -> None:
        await self._server.stop()

    async def _index(self, _: Request) -> Response:
        return respond(b"/metrics\n/jmx\n/requests\n", TEXT)

    async def _unknown(self, request: Request) -> Response:
        raise HttpError(HTTPStatus.NOT_FOUND, f"there is no {request.path}: /metrics, /jmx or /requests")

    async def _metrics(self, _: Request) -> Response:
        text = PrometheusText()
        async for beans in self._turns():
            for bean in beans:
                text.add(bean)
        return respond("".join(text.blocks()).encode(), CONTENT_TYPE)

    async def _jmx(self, request: Request) -> Response:
        patterns = _patterns(request)
        found: list[str] = []
        async for beans in self._turns():
            found += [
                json_bean(bean)
                for bean in beans
                if not patterns or any(each.matches(bean.domain, bean.properties) for each in patterns)
            ]
        return respond(('{"beans":[\n' + ",\n".join(found) + "\n]}\n").encode(), JSON)

    async def _requests(self, _: Request) -> Response:
        slowest = [asdict(each) for each in self._sources.ports.metrics.requests.slowest]
        return respond(json.dumps({"requests": slowest}).encode(), JSON)

    async def _turns(self) -> AsyncIterator[list[Bean]]:
        """Yields all beans, BEANS_PER_TURN in each turn of the event loop."""
        async with self._reading:
            beans = broker_beans(self._sources)
            while part := _some(beans):
                yield [bean for bean in part if bean is not None]
                await asyncio.sleep(0)


def _patterns(request: Request) -> list[ObjectName]:
    try:
        return [ObjectName.parse(query) for query in request.query.getall("qry", []) if query]
    except MalformedObjectName as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"qry is not an object name: {error}") from None


def _some(beans: Iterator[Bean | None]) -> list[Bean | None]:
    return [bean for bean, _ in zip(beans, range(BEANS_PER_TURN), strict=False)]
