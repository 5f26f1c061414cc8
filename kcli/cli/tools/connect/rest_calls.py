"""Calls of the REST API of Kafka Connect: any worker's, Java's too."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit, urlunsplit

from kcli.cli.syntax.options import CommandError, CommonOptions, option
from kcli.model.java_text import trim

URL_VARIABLE = "KCLI_CONNECT_URL"
DEFAULT_URL = "http://localhost:8083"
ANSWER_MAX_BYTES = 256 * 1024 * 1024
"""The longest answer. A list of thousands of connectors with their configurations has some megabytes."""

TIMEOUT_SECONDS = 100.0
"""A worker answers within 90 s, or reports that the request has timed out."""

TEXT_MAX = 200
"""The most characters of an answer that is not JSON."""

RETRY_SECONDS = 1.0
RETRIES_MAX = 30
"""The attempts while workers rebalance. Java's workers answer 409 meanwhile."""

_REBALANCES = (
    "conflicting operation",
    "stale configuration",
    "no known leader URL",
    "a rebalance is expected",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions(CommonOptions):
    url: str | None = option(
        f"The URL of a worker, which may have user:password@ before the host. Default: ${URL_VARIABLE}, or "
        f"{DEFAULT_URL}.",
        metavar="URL",
    )


class ConnectRestError(CommandError):
    """A worker refused a request. `str()` is the worker's message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of Kafka Connect. `url` has no user and no password."""

    url: str
    login: str | None = None

    @classmethod
    def of(cls, options: ConnectOptions) -> Worker:
        """The worker of --url. Raises CommandError for an invalid URL."""
        text = options.url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
        parts = urlsplit(text if "://" in text else f"http://{text}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandError(f"--url {text.rpartition('@')[2]}: expected a URL such as {DEFAULT_URL}")
        host = parts.netloc.rpartition("@")[2]
        login = None
        if parts.username is not None:
            login = f"{parts.username}:{parts.password or ''}"
        return cls(urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", "")), login)

    def at(self, worker_id: str) -> Worker:
        """Another worker of the same group, by its worker id (`host:port`)."""
        return Worker(f"{urlsplit(self.url).scheme}://{worker_id}", self.login)

    def get(self, path: str) -> object:
        return self.call("GET", path)

    def call(self, method: str, path: str, body: object = None) -> object:
        """Sends a request, and returns the JSON of the answer, or None if it has none.

        Waits while the workers rebalance. Raises ConnectRestError for another refusal, and CommandError if no worker
        answers.
        """
        return asyncio.run(self._call(method, path, body))

    async def _call(self, method: str, path: str, body: object) -> object:
        for attempt in range(RETRIES_MAX):
            try:
                return await self._attempt(method, path, body)
            except ConnectRestError as error:
                rebalances = any(text in str(error) for text in _REBALANCES)
                if not rebalances or attempt == RETRIES_MAX - 1:
                    raise
            await asyncio.sleep(RETRY_SECONDS)
        raise AssertionError("the last attempt raises")

    async def _attempt(self, method: str, path: str, body: object) -> object:
        from kcli.http.client import NotHttp, ResponseTooLong, request

        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                answer = await request(
                    method,
                    f"{self.url}{path}",
                    headers=self._headers(has_body=body is not None),
                    body=None if body is None else json.dumps(body).encode(),
                    body_max_bytes=ANSWER_MAX_BYTES,
                )
        except TimeoutError:
            raise CommandError(f"{self.url} does not answer within {TIMEOUT_SECONDS:.0f} s") from None
        except NotHttp as error:
            raise CommandError(f"{self.url} is not the REST API of Kafka Connect: {error}") from None
        except (OSError, ResponseTooLong) as error:
            reason = getattr(error, "strerror", None) or error
            raise CommandError(f"no worker of Kafka Connect answers at {self.url}: {reason}") from None
        content = _decoded(answer.body)
        if answer.status < 400:
            return content
        raise ConnectRestError(answer.status, _message(answer.status, content, answer.body))

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
