"""Calls of the REST API of Kafka Connect. They work with every worker, Java's too."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from kcli.errors import KcliError
from kcli.model.java_text import trim

DEFAULT_URL = "http://localhost:8083"

ANSWER_MAX_BYTES = 256 * 1024 * 1024
"""The longest answer. A list of thousands of connectors with their configurations has some megabytes."""

TIMEOUT_SECONDS = 100.0
"""A worker answers within 90 s, or reports that the request has timed out."""

TEXT_MAX = 200
"""The most characters of an answer that is not JSON."""

NOT_FOUND = 404

_REBALANCES = (
    "conflicting operation",
    "stale configuration",
    "no known leader URL",
    "a rebalance is expected",
)


class InvalidUrl(KcliError):
    """A URL of a worker is invalid. The message has no password."""


class NoWorker(KcliError):
    """No worker of Kafka Connect answers at a URL. `__cause__` is the error of the request."""


class Refused(KcliError):
    """A worker refused a request. `str()` is the worker's message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_rebalance(self) -> bool:
        """Whether the worker refuses only until the end of a rebalance, so that the caller may try again."""
        return any(text in str(self) for text in _REBALANCES)


@dataclass(frozen=True, slots=True)
class ConnectRest:
    """The REST API of a worker. `url` has no user, no password and no slash at its end."""

    url: str
    login: str | None = field(default=None, repr=False)

    @classmethod
    def at(cls, text: str) -> ConnectRest:
        """The worker at a URL, which may have user:password@ before the host. Raises InvalidUrl."""
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_valid = False
        if not is_valid:
            raise InvalidUrl(f"{text.rpartition('@')[2]}: expected a URL such as {DEFAULT_URL}")
        login = None
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        host = parts.netloc.rpartition("@")[2]
        return cls(urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")), login)

    @property
    def place(self) -> str:
        """The host, the port and the path of the URL, as a short name of the worker."""
        return self.url.partition("://")[2]

    def of_worker(self, worker_id: str) -> ConnectRest:
        """Another worker of the same group, by its worker id (`host:port`)."""
        return ConnectRest(f"{urlsplit(self.url).scheme}://{worker_id}", self.login)

    async def call(
        self, method: str, path: str, body: object = None, *, max_seconds: float = TIMEOUT_SECONDS
    ) -> object:
        """Sends a request, and returns the JSON of the answer, or None if the answer has none.

        Raises Refused if the worker refuses the request, and NoWorker if no worker answers.
        """
        from kcli.http.client import NotHttp, ResponseTooLong, request

        try:
            async with asyncio.timeout(max_seconds):
                answer = await request(
                    method,
                    f"{self.url}{path}",
                    headers=self._headers(has_body=body is not None),
                    body=None if body is None else json.dumps(body).encode(),
                    body_max_bytes=ANSWER_MAX_BYTES,
                )
        except TimeoutError as error:
            raise NoWorker(f"{self.url} does not answer within {max_seconds:.0f} s") from error
        except NotHttp as error:
            raise NoWorker(f"{self.url} is not the REST API of Kafka Connect: {error}") from error
        except (OSError, ResponseTooLong) as error:
            reason = getattr(error, "strerror", None) or error
            raise NoWorker(f"no worker of Kafka Connect answers at {self.url}: {reason}") from error
        content = _decoded(answer.body)
        if answer.status < 400:
            return content
        raise Refused(answer.status, _message(answer.status, content, answer.body))

    def _headers(self, *, has_body: bool) -> Mapping[str, str]:
        headers = {"Accept": "application/json"}
        if has_body:
            headers["Content-Type"] = "application/json"
        if self.login is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(self.login.encode()).decode()}"
        return headers


def connector_path(name: str, rest: str = "") -> str:
    return f"/connectors/{quote(name, safe='')}{rest}"


def _decoded(body: bytes) -> object:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None


def _message(status: int, content: object, body: bytes) -> str:
    if isinstance(content, dict) and "message" in content:
        return str(content["message"])
    text = trim(body.decode(errors="replace").replace("\n", " "))[:TEXT_MAX]
    return f"HTTP {status}: {text}" if text and not text.startswith("<") else f"HTTP {status}"
