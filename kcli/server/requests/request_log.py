"""The log of requests, as Kafka's `kafka.request.logger` writes it: one line of JSON for each request, at level DEBUG.

The log of requests is off by default, and then costs one check of the level for each request. `kcli configs` switches
it on while the broker runs. A request that a broker forwards is in the log of the controller. The line is written
before the response is sent, so the send time in the line is always zero.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from typing import TYPE_CHECKING, Any

from kcli.model.pace import Pace
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.turns import continued
from kcli.server.network.connection import Connection
from kcli.server.network.request_facts import RequestFacts
from kcli.server.network.tls_transport import TlsTransport
from kcli.server.network.waiting import Answer
from kcli.server.requests.context import RequestContext
from kcli.server.requests.message_json import Node, message_json
from kcli.server.requests.route import AnyRoute

if TYPE_CHECKING:
    from kcli.server.requests.forwarding import Caller

REQUEST_LOG = logging.getLogger("kcli.request.logger")
"""The logger of requests. Clients see it under its name in Kafka, `kafka.request.logger`."""


def logged(route: AnyRoute, caller: Caller) -> AnyRoute:
    """Returns a copy of a route for one request. The copy also writes the line of this request to the log when the
    response is encoded.
    """
    line = _Line(route, caller)
    return dataclasses.replace(
        route, handle=line.handle, encode=line.encode, error_response=line.error_response
    )


class _Line:
    """Collects the facts about one request, and writes its line."""

    def __init__(self, route: AnyRoute, caller: Caller) -> None:
        self._route = route
        self._caller = caller
        self._began = self._worked = _now()
        self._facts = caller.facts if isinstance(caller, Connection) else RequestFacts()
        self._queued = self._facts.queued_seconds if self._facts.has_news else 0.0
        self._context: RequestContext[object] | None = None
        self._request: Node = None

    async def handle(self, context: RequestContext[object], request: object) -> Any:
        self._see(context, request)
        handling = self._route.handle(context, request)
        awaited = ended = None
        try:
            awaited = handling.send(None)
        except StopIteration as end:
            ended = end
        finally:
            self._worked = _now()  # the local time ends when the handler first suspends
        response = await continued(handling, awaited) if ended is None else ended.value
        if response is None:
            self._write(None)
        return response

    async def error_response(self, context: RequestContext[object], request: object, error: Any) -> Any:
        if self._context is None:
            self._see(context, request)
        return await self._route.error_response(context, request, error)

    async def encode(self, response: Any, version: int, correlation_id: int, pace: Pace) -> Answer:
        self._write(response)
        return await self._route.encode(response, version, correlation_id, pace)

    def _see(self, context: RequestContext[object], request: object) -> None:
        self._context = context
        if request is not None:  # the request of an unknown version of ApiVersions is not decoded
            self._request = message_json(request, self._route.spec, context.api_version, "request")

    def _write(self, response: object) -> None:
        context, spec = self._context, self._route.spec
        assert context is not None, "a request is handled or refused before its answer is encoded"
        known = context.api_version if self._request is not None else spec.min_version
        described = None if response is None else message_json(response, spec, known, "response")
        ended = _now()
        caller = self._caller
        event: dict[str, Node] = {
            "isForwarded": context.is_forwarded,
            "requestHeader": _header(context),
            "request": self._request,
            "response": described,
            "connection": _connection(caller),
            "totalTimeMs": _ms(self._queued + ended - self._began),
            "requestQueueTimeMs": _ms(self._queued),
            "localTimeMs": _ms(self._worked - self._began),
            "remoteTimeMs": _ms(ended - self._worked),
            "throttleTimeMs": getattr(response, "throttle_time_ms", 0),
            "responseQueueTimeMs": 0.0,
            "sendTimeMs": 0.0,
            "securityProtocol": _protocol(caller),
            "principal": str(context.session.principal),
            "listener": context.listener,
            "clientInformation": _software(self._facts),
        }
        REQUEST_LOG.debug("Completed request:%s", json.dumps(event, separators=(",", ":")))


def _header(context: RequestContext[object]) -> dict[str, Node]:
    return {
        "requestApiKey": int(context.api_key),
        "requestApiVersion": context.api_version,
        "correlationId": context.correlation_id,
        "clientId": context.client_id,
        "requestApiKeyName": ApiKey(context.api_key).name,
    }


def _software(facts: RequestFacts) -> dict[str, Node]:
    """The software of the client, which ApiVersions reports (KIP-511)."""
    name, version = facts.software
    return {"softwareName": name, "softwareVersion": version}


def _connection(caller: Caller) -> str:
    """The id of a connection in Kafka's form, which ends with the numbers of a processor and of a connection."""
    if not isinstance(caller, Connection):
        return caller.peer_host
    local = caller.transport.get_extra_info("sockname") if caller.transport is not None else None
    host, port = (str(local[0]), int(local[1])) if local else ("", 0)
    return f"{host}:{port}-{caller.peer_host}:{caller.peer_port}-0-0"


def _protocol(caller: Caller) -> str:
    is_secure = isinstance(caller, Connection) and isinstance(caller.transport, TlsTransport)
    has_login = caller.session.mechanism is not None
    return f"{'SASL_' if has_login else ''}{'SSL' if is_secure else 'PLAINTEXT'}"


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _now() -> float:
    return asyncio.get_running_loop().time()
