"""Forwards a request to the worker that must answer it: the leader, or the owner of a task.

A request is forwarded at most twice, because the leader may change in the meantime: the first hop has `forward=true`,
the second one `forward=false`.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlencode

from kcli.connect.errors import Conflict, NotLeader, RestError
from kcli.http.client import NotHttp, ResponseTooLong, request
from kcli.http.rest.routing import Call, Reply

RESPONSE_MAX_BYTES = 64 * 1024 * 1024
"""The longest response of another worker. A connector may have thousands of tasks with long configurations."""

NO_LEADER = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)
CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


class Forwarder:
    """`tls` is for workers with an https URL."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls

    async def forward(self, call: Call, error: NotLeader) -> Reply:
        """Returns the answer of the other worker, whatever its status is. Raises RestError."""
        hop = call.query.get("forward")
        if hop is not None and hop.lower() != "true":
            raise Conflict(CONFLICT)
        if error.url is None:
            raise Conflict(NO_LEADER)
        queries = [(name, value) for name, values in call.queries.items() for value in values]
        query = [(name, value) for name, value in queries if name != "forward"]
        query.append(("forward", "true" if hop is None else "false"))
        url = f"{error.url.rstrip('/')}{call.path}?{urlencode(query)}"
        return await self.send(call.method, url, call.body, authorization(call.headers))

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Sends a JSON request to a worker. Raises RestError if there is no answer."""
        types = {"Accept": "application/json", "Content-Type": "application/json"}
        try:
            answer = await request(
                method,
                url,
                body=body or None,
                headers=types | dict(headers),
                body_max_bytes=RESPONSE_MAX_BYTES,
                tls=self._tls,
            )
        except (OSError, NotHttp, ResponseTooLong) as error:
            raise RestError(f"IO Error trying to forward REST request: {error}") from error
        return Reply(answer.body or None, HTTPStatus(answer.status))


def authorization(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Only this header of a client is forwarded."""
    login = headers.get("Authorization")
    return {} if login is None else {"Authorization": login}
