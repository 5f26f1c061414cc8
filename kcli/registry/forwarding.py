"""Forwards the changes that a client asks for to the leader, because only the leader writes.

A forwarded request has the header `X-Forward: true`, and is never forwarded again.
"""

from __future__ import annotations

import ssl
from http import HTTPStatus
from urllib.parse import urlencode

from kcli.errors import KcliError
from kcli.http.client import NotHttp, ResponseTooLong, request
from kcli.http.rest.routing import Call, Reply
from kcli.registry.config.settings import ForwardingSettings
from kcli.registry.decisions.leadership import Identity

FORWARD_HEADER = "X-Forward"

RESPONSE_MAX_BYTES = 64 * 1024 * 1024
"""The longest response of a leader. It repeats a schema, and JSON can make a text six times as long."""

_HEADERS = (
    "Content-Type",
    "Accept",
    "Confluent-Accept-Unknown-Properties",
    "Authorization",
    "X-Request-ID",
)
"""The headers of clients that are always forwarded."""


class ForwardingFailed(KcliError):
    """The leader has not answered. It may have carried out the request."""


class LeaderUnreachable(ForwardingFailed):
    """The leader has not got the request, because its port is closed. Another leader may be elected."""


class Forwarder:
    """`tls` is for a leader with an https URL."""

    def __init__(self, settings: ForwardingSettings, tls: ssl.SSLContext | None = None) -> None:
        self._settings = settings
        self._tls = tls

    async def forward(self, call: Call, leader: Identity) -> Reply:
        """Returns the answer of the leader, whatever its status is. Raises ForwardingFailed."""
        queries = [(name, value) for name, values in call.queries.items() for value in values]
        query = f"?{urlencode(queries)}" if queries else ""
        headers = {
            name: call.headers[name] for name in (*_HEADERS, *self._settings.headers) if name in call.headers
        }
        try:
            answer = await request(
                call.method,
                f"{leader.url}{call.path}{query}",
                body=call.body or None,
                headers={**headers, FORWARD_HEADER: "true"},
                body_max_bytes=RESPONSE_MAX_BYTES,
                tls=self._tls if leader.scheme == "https" else None,
                connect_max_seconds=self._settings.connect_timeout_ms / 1000 or None,
                read_max_seconds=self._settings.read_timeout_ms / 1000 or None,
            )
        except ConnectionRefusedError as error:
            raise LeaderUnreachable(f"{leader.url}: {error}") from error
        except (OSError, NotHttp, ResponseTooLong) as error:
            raise ForwardingFailed(f"{leader.url}: {error or type(error).__name__}") from error
        return Reply(answer.body or None, HTTPStatus(answer.status))


def is_forwarded(call: Call) -> bool:
    """Whether another registry has sent the request, because it takes this one for the leader."""
    return call.headers.get(FORWARD_HEADER, "").lower() == "true"
