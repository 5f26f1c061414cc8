"""Requests over connections that stay open, and the pauses after errors."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from kcli.connectors.http.keys import RequestSettings
from kcli.errors import KcliError
from kcli.model.java_text import natural, trim

_DOUBLINGS_MAX = 30
_SHOWN_BYTES = 200
"""The part of an answer that an error shows."""
_CONNECTIONS_MAX = 20
"""The most open connections of a task. A URL with ${topic} in its host may need one for each topic."""


class RequestFailed(KcliError):
    """A request got no answer, or an answer with an error. `transient` tells whether to try it again."""

    java_class = "java.io.IOException"

    def __init__(self, message: str, *, transient: bool, wait_ms: int | None = None) -> None:
        super().__init__(message)
        self.transient = transient
        self.wait_ms = wait_ms
        """The pause that the server asks for."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """The names are in lower case."""
    body: bytes


@dataclass(slots=True)
class Requests:
    """Sends requests. One thread uses it."""

    settings: RequestSettings
    body_max_bytes: int
    _connections: dict[tuple[str, str], http.client.HTTPConnection] = field(default_factory=dict)

    def send(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Returns an answer with a status below 400. Raises RequestFailed."""
        parts = urlsplit(url)
        shown = f"{method} {parts.scheme}://{parts.netloc}{parts.path}"
        try:
            answer = self._exchange(method, parts, body, {**self.settings.headers, **(headers or {})})
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._drop(parts)
            reason = str(error) or type(error).__name__
            # A certificate that is not trusted is a ValueError too, and remains wrong.
            wrong = isinstance(error, ValueError | http.client.InvalidURL)
            raise RequestFailed(f"{shown}: {reason}", transient=not wrong) from error
        if (answer.status < 400 and answer.status // 100 != 3) or answer.status == 304:
            return answer
        start = answer.body[:_SHOWN_BYTES].decode(errors="replace")
        raise RequestFailed(
            f"{shown}: status {answer.status}: {start}",
            transient=answer.status in self.settings.retried,
            wait_ms=_retry_after_ms(answer.headers.get("retry-after")),
        )

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def pause_ms(self, attempt: int, asked_ms: int | None) -> int:
        """The pause before a further attempt, where the first attempt is 1."""
        doubled = self.settings.backoff_ms << min(attempt - 1, _DOUBLINGS_MAX)
        return min(max(doubled, asked_ms or 0), self.settings.backoff_max_ms)

    def _exchange(
        self, method: str, parts: SplitResult, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        for fresh in (False, True):
            kept = (parts.scheme, parts.netloc) in self._connections
            connection = self._connection(parts)
            try:
                connection.request(method, target, body, dict(headers))
                response = connection.getresponse()
            except (ConnectionError, http.client.RemoteDisconnected):
                self._drop(parts)
                if fresh or not kept:
                    raise
                continue  # the server has closed a connection that was idle
            content = response.read(self.body_max_bytes + 1)
            if len(content) > self.body_max_bytes:
                raise ValueError(f"the answer has more than {self.body_max_bytes} bytes")
            if response.length:  # the connection has ended before the body
                raise http.client.IncompleteRead(content, response.length)
            names = {name.lower(): value for name, value in response.getheaders()}
            if response.will_close:
                self._drop(parts)
            return Answer(response.status, names, content)
        raise AssertionError("the second attempt returns or raises")

    def _connection(self, parts: SplitResult) -> http.client.HTTPConnection:
        place = (parts.scheme, parts.netloc)
        connection = self._connections.get(place)
        if connection is None:
            if len(self._connections) >= _CONNECTIONS_MAX:
                self.close()
            host, timeout_s = parts.hostname or "", self.settings.timeout_s
            if parts.scheme == "https":
                context = ssl.create_default_context(cafile=self.settings.ca_location)
                connection = http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)
            else:
                connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
            self._connections[place] = connection
        return connection

    def _drop(self, parts: SplitResult) -> None:
        connection = self._connections.pop((parts.scheme, parts.netloc), None)
        if connection is not None:
            connection.close()


def _retry_after_ms(value: str | None) -> int | None:
    """The seconds of Retry-After. A date is not supported, and then the usual pause counts."""
    seconds = None if value is None else natural(trim(value))
    return None if seconds is None else seconds * 1000
