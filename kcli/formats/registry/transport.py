"""Requests to a schema registry: its URLs in turn, its login, pauses and repetitions, and limits of its answers.

The registry's URLs are tried in turn, beginning with the one that answered last. If none has an answer, or only answers
that ask for a later request (408, 429, 5xx), the round is repeated after a pause. Redirects are not followed, because
they could lead to any server.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import ssl
from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from kcli.config.definition import ConfigError
from kcli.errors import SaslAuthenticationException
from kcli.formats.registry.errors import RegistryError, RegistryRefused, RegistrySilent
from kcli.formats.registry.settings import RegistrySettings, RegistryUrl
from kcli.model.java_text import split_blanks

ANSWER_MAX_BYTES = 64 << 20
"""The largest answer. A page of a thousand schemas has some megabytes."""

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_HEADERS = {
    "Accept": f"{CONTENT_TYPE}, application/vnd.schemaregistry+json, application/json",
    "Confluent-Accept-Unknown-Properties": "true",
}

_TEXT_MAX = 300
"""The most characters of an answer that is not JSON."""
_DOUBLINGS_MAX = 20

Query = Mapping[str, str | int | bool | Sequence[str] | None]
"""The parameters of a query. None is left out, and a sequence repeats its parameter."""


class Transport:
    """Sends requests to the registry of the settings. Several event loops may use it."""

    def __init__(self, settings: RegistrySettings, *, answer_max_bytes: int = ANSWER_MAX_BYTES) -> None:
        self.settings = settings
        self._answer_max_bytes = answer_max_bytes
        self._first = 0
        """The index of the URL that answered last."""
        self._context: ssl.SSLContext | None = None

    async def call(
        self, method: str, path: Sequence[str | int], query: Query | None = None, body: object = None
    ) -> object:
        """Sends a request, and returns the JSON of the answer. The parts of `path` are encoded here.

        Raises RegistryRefused for the registry's own errors, and RegistrySilent if none of the URLs answers.
        """
        target = _target(path, query or {})
        content = None if body is None else json.dumps(body).encode()
        for attempt in range(self.settings.retries_max):
            try:
                return await self._round(method, target, content)
            except RegistryError as error:
                if not _may_succeed_later(error):
                    raise
            await asyncio.sleep(self._pause_s(attempt))
        return await self._round(method, target, content)

    async def _round(self, method: str, target: str, body: bytes | None) -> object:
        """Tries each URL once. Returns the first answer. If no URL has one, raises the error that says most."""
        urls = self.settings.urls
        failure: RegistryError | None = None
        for number in range(self._first, self._first + len(urls)):
            try:
                answer = await self._send(urls[number % len(urls)], method, target, body)
            except RegistryError as error:
                if not _may_succeed_later(error):
                    raise
                failure = error if failure is None or isinstance(error, RegistryRefused) else failure
            else:
                self._first = number % len(urls)
                return answer
        assert failure is not None, "the settings have a URL"
        raise failure

    async def _send(self, url: RegistryUrl, method: str, target: str, body: bytes | None) -> object:
        from kcli.http.client import NotHttp, ResponseTooLong, request

        headers = {**_HEADERS, **self.settings.headers, **await self._authorization(url)}
        if body is not None:
            headers["Content-Type"] = CONTENT_TYPE
        try:
            async with asyncio.timeout(self.settings.request_seconds):
                answer = await request(
                    method,
                    f"{url.url}{target}",
                    headers=headers,
                    body=body,
                    body_max_bytes=self._answer_max_bytes,
                    tls=self._tls() if url.is_https else None,
                )
        except TimeoutError:
            reason = f"no answer within {self.settings.request_seconds:g} s"
        except NotHttp as error:
            reason = f"the answer is not HTTP: {error}"
        except ssl.SSLError as error:
            reason = f"TLS: {error.reason or error}"
        except ResponseTooLong as error:
            raise RegistryError(f"the answer of the schema registry {url.url} has {error}") from None
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
        else:
            return _checked(url, answer.status, answer.body)
        raise RegistrySilent(f"the schema registry {url.url} cannot be reached: {reason}")

    async def _authorization(self, url: RegistryUrl) -> dict[str, str]:
        if self.settings.tokens is not None:
            try:
                token = await asyncio.to_thread(self.settings.tokens.token)
            except SaslAuthenticationException as error:
                raise RegistryError(f"no token for the schema registry: {error}") from None
            return {"Authorization": f"Bearer {token}"}
        login = self.settings.login or url.login
        return (
            {} if login is None else {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
        )

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            assert self.settings.tls is not None, "the settings of an https URL have TLS"
            try:
                self._context = self.settings.tls.context()
            except ConfigError as error:
                raise RegistryError(f"TLS of the schema registry: {error}") from None
        return self._context

    def _pause_s(self, attempt: int) -> float:
        """A random pause up to a limit that doubles, so that many clients do not come back at the same time."""
        doubled = self.settings.retry_wait_ms << min(attempt, _DOUBLINGS_MAX)
        return random.uniform(0, min(doubled, self.settings.retry_wait_max_ms)) / 1000


def _target(path: Sequence[str | int], query: Query) -> str:
    parameters = [(name, item) for name, value in query.items() for item in _texts(value)]
    target = "".join(f"/{quote(str(part), safe='')}" for part in path)
    return f"{target}?{urlencode(parameters, quote_via=quote)}" if parameters else target


def _texts(value: str | int | bool | Sequence[str] | None) -> Sequence[str]:
    if value is None:
        return ()
    if isinstance(value, bool):
        return ("true" if value else "false",)
    return (str(value),) if isinstance(value, (str, int)) else value


def _may_succeed_later(error: RegistryError) -> bool:
    if isinstance(error, RegistryRefused):
        return error.status in (408, 429) or error.status >= 500
    return isinstance(error, RegistrySilent)


def _checked(url: RegistryUrl, status: int, body: bytes) -> object:
    """Returns the JSON of an answer. Raises RegistryRefused for an error."""
    try:
        content = json.loads(body) if body else None
        is_json = True
    except (ValueError, RecursionError):
        content, is_json = None, False
    if status < 300:
        if not is_json:
            raise RegistryError(f"{url.url} is not a schema registry: it answers without JSON")
        return content
    if isinstance(content, dict) and "message" in content:
        code = content.get("error_code")
        raise RegistryRefused(status, code if isinstance(code, int) else status, str(content["message"]))
    raise RegistryRefused(status, status, f"{url.url} answered with status {status}{_start(status, body)}")


def _start(status: int, body: bytes) -> str:
    if 300 <= status < 400:
        return ", and redirects are not followed"
    text = " ".join(split_blanks(body[: 4 * _TEXT_MAX].decode(errors="replace")))[:_TEXT_MAX]
    return f": {text}" if text and not text.startswith("<") else ""
