"""The metrics endpoint: serves the metrics of a broker over HTTP, for Prometheus, `kcli jmx` and `kcli top`.

    GET /metrics      Prometheus' text format, or OpenMetrics if the header Accept asks for it;
                      ?profile=NAME selects the names of metrics (profiles.py)
    GET /jmx          {"beans": [{"name": OBJECT NAME, ATTRIBUTE: VALUE, …}, …]}; ?qry=PATTERN, any number of times
    GET /requests     {"requests": […]}: the slowest requests of the last minutes

`kcli.metrics.listener` or the environment variable JMX_PORT opens the endpoint. Its clients can read metrics, but
cannot change anything. endpoint_security.py configures TLS and the users. If no users are configured, every client that
can connect may read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from http import HTTPStatus
from itertools import chain

from kcli.config.broker import BrokerConfig
from kcli.http.server import (
    JSON,
    RESPONSE_MAX_SECONDS,
    TEXT,
    HttpError,
    HttpServer,
    Request,
    Response,
    Stream,
    StreamEnded,
    StreamResponse,
    get,
    respond,
)
from kcli.model.object_name import MalformedObjectName, ObjectName
from kcli.runtime.network import Network
from kcli.server.beans.bean import Bean, single_beans
from kcli.server.beans.broker_beans import BeanSources, broker_beans
from kcli.server.beans.exposition.encoding import (
    accepted_format,
    accepts_gzip,
    encoded,
    gzipped,
    json_bean,
    json_parts,
)
from kcli.server.beans.exposition.endpoint_security import OPEN, EndpointSecurity
from kcli.server.beans.exposition.families import Families
from kcli.server.beans.exposition.profiles import PROFILES
from kcli.server.beans.filter import BeanFilter
from kcli.server.beans.loop_delay import LoopDelay
from kcli.server.beans.own_beans import Certificates, OwnSources, own_beans
from kcli.server.beans.places import Places
from kcli.storage.directory import AppendWatch

_now = time.monotonic
_log = logging.getLogger("kcli.server.MetricsEndpoint")

# The longest time that a scrape takes in one iteration of the event loop, so that producers do not wait long.
TURN_SECONDS = 0.001
# The longest time until a client has taken one part of an answer, about 200 KB. Without this limit, a client that reads
# nothing would keep its place, and other clients could not get it.
PROGRESS_MAX_SECONDS = 10.0
# The beans between two looks at the clock. They take about 0.1 ms.
BEANS_PER_LOOK = 16


class MetricsEndpoint:
    """The HTTP server for metrics. It starts before the broker's listeners and stops after them, so that operators can
    watch the start and the stop."""

    def __init__(
        self,
        sources: BeanSources,
        network: Network,
        host: str,
        port: int,
        security: EndpointSecurity = OPEN,
        certificates: Certificates = tuple,
    ) -> None:
        self.port = port
        self._filter = BeanFilter(sources.config)
        self._scheme = "http" if security.tls is None else "https"
        self._sources = sources
        self._loop_delay = LoopDelay()
        self._own = OwnSources(sources, self._loop_delay, certificates)
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
        self._places = Places()

    async def start(self) -> None:
        """Starts to listen. Raises OSError if the port is not free."""
        self.port = await self._server.start(self._host, self.port)
        self._loop_delay.start()
        watch = AppendWatch(time.perf_counter, self._sources.metrics.appends.add)
        for directory in self._sources.logs.directories:
            directory.appends = watch
        _log.info(
            "Metrics are served on %s://%s:%d/metrics", self._scheme, self._host or "0.0.0.0", self.port
        )

    def reconfigure(self, config: BrokerConfig) -> None:
        """Applies changed keys of the configuration."""
        self._filter = BeanFilter(config)

    async def stop(self) -> None:
        self._loop_delay.stop()
        for directory in self._sources.logs.directories:
            directory.appends = None
        await self._server.stop()

    async def _index(self, _: Request) -> Response:
        return respond(b"/metrics\n/jmx\n/requests\n", TEXT)

    async def _unknown(self, request: Request) -> Response:
        raise HttpError(HTTPStatus.NOT_FOUND, f"there is no {request.path}: /metrics, /jmx or /requests")

    async def _metrics(self, request: Request) -> StreamResponse:
        profile = PROFILES.get(request.query.get("profile", "default"))
        if profile is None:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"the profile must be one of {', '.join(PROFILES)}")
        format_ = accepted_format(",".join(request.headers.getall("Accept", [])))
        async with self._places.place(request.remote or ""):
            families = Families(profile, with_exemplars=format_.is_open)
            async for beans in self._turns():
                for bean in beans:
                    families.add(bean)
            return await _answer(request, encoded(families, format_), format_.content_type)

    async def _jmx(self, request: Request) -> StreamResponse:
        patterns = _patterns(request)
        async with self._places.place(request.remote or ""):
            texts: list[str] = []
            async for beans in self._turns(singly=True):
                texts += [
                    json_bean(bean)
                    for bean in beans
                    if not patterns
                    or any(pattern.matches(bean.domain, bean.properties) for pattern in patterns)
                ]
            return await _answer(request, json_parts(texts), JSON)

    async def _requests(self, _: Request) -> Response:
        slowest = [asdict(request) for request in self._sources.metrics.requests.slowest]
        return respond(json.dumps({"requests": slowest}).encode(), JSON)

    async def _turns(self, *, singly: bool = False) -> AsyncIterator[list[Bean]]:
        """Yields all beans that the filter shows. After TURN_SECONDS, the event loop serves other clients. With
        `singly` or a filter, each gauge is a separate bean."""
        async with self._reading:
            beans = chain(broker_beans(self._sources), own_beans(self._own))
            shows, all_as_they_are = self._filter.shows, self._filter.shows_all and not singly
            began = _now()
            while (part := _some(beans)) is not None:
                if all_as_they_are:
                    yield part
                else:
                    yield [bean for several in part for bean in single_beans(several) if shows(bean)]
                if _now() - began >= TURN_SECONDS:
                    await asyncio.sleep(0)
                    began = _now()


async def _answer(request: Request, parts: Iterator[bytes], content_type: str) -> StreamResponse:
    """Sends the text of all metrics in parts, so that the whole text is never in memory. If the client accepts gzip,
    the text is compressed.
    """
    headers = {"Vary": "Accept-Encoding"}
    if accepts_gzip(",".join(request.headers.getall("Accept-Encoding", []))):
        headers["Content-Encoding"] = "gzip"
        parts = gzipped(parts)
    async with Stream(request, content_type, headers, part_max_seconds=PROGRESS_MAX_SECONDS) as stream:
        try:
            async with asyncio.timeout(RESPONSE_MAX_SECONDS):
                for part in parts:
                    if part:
                        await stream.write(part)
                    await asyncio.sleep(0)
        except TimeoutError:
            raise StreamEnded("the client reads too slowly") from None
    return stream.response


def _patterns(request: Request) -> list[ObjectName]:
    try:
        return [ObjectName.parse(query) for query in request.query.getall("qry", []) if query]
    except MalformedObjectName as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"qry is not an object name: {error}") from None


def _some(beans: Iterator[Bean | None]) -> list[Bean] | None:
    """Returns the next beans, at most BEANS_PER_LOOK, or None at the end. The function that makes beans yields None if
    it has worked long without a bean. Then this call returns fewer beans.
    """
    part: list[Bean] = []
    for bean in beans:
        if bean is None:
            return part
        part.append(bean)
        if len(part) == BEANS_PER_LOOK:
            return part
    return part or None
