"""Asks a store of traces (Jaeger or Tempo) for the spans of a trace."""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

from kcli.errors import KcliError
from kcli.http.client import NotHttp, Response, ResponseTooLong, get
from kcli.model.addresses import Address
from kcli.tracing.stored import NotATrace, StoredSpan, read

ANSWER_MAX_BYTES = 64 * 1024 * 1024
"""The largest answer that is read. Tempo's own limit for a trace is 5 MB."""
ANSWER_MAX_SECONDS = 30.0

_PORTS = {"http": 80, "https": 443}


class TraceStoreError(KcliError):
    """Raised if the store does not answer, or if its answer is not a trace."""


class TraceNotFound(TraceStoreError):
    """Raised if the store has no such trace."""


async def stored_trace(url: str, trace_id: str) -> list[StoredSpan]:
    """Returns the spans of a trace. `url` is the address of the store, such as http://localhost:16686 for Jaeger or
    http://localhost:3200 for Tempo. It may have a path, and a user with a password.

    Raises TraceStoreError, and TraceNotFound if there is no such trace.
    """
    response = await _ask(url, trace_id)
    shown = _without_login(url)
    if response.status == HTTPStatus.NOT_FOUND:
        raise TraceNotFound(f"{shown} has no trace {trace_id}")
    if response.status != HTTPStatus.OK:
        raise TraceStoreError(f"{shown} answered with the status {response.status}")
    try:
        spans = read(response.body)
    except NotATrace as error:
        raise TraceStoreError(f"{shown} is not the query address of Jaeger or Tempo: {error}") from error
    if not spans:
        raise TraceNotFound(f"{shown} has no trace {trace_id}")
    return spans


async def _ask(url: str, trace_id: str) -> Response:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise TraceStoreError(f"the address of the store is invalid: {error}") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise TraceStoreError(
            "the address of the store is invalid: expected http://HOST:PORT or https://HOST:PORT"
        )
    login = None if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    target = f"{parts.path.rstrip('/')}/api/traces/{trace_id}"
    try:
        async with asyncio.timeout(ANSWER_MAX_SECONDS):
            return await get(
                Address(parts.hostname, port),
                target,
                body_max_bytes=ANSWER_MAX_BYTES,
                credentials=login,
                tls=tls,
            )
    except TimeoutError as error:
        raise TraceStoreError(
            f"{_without_login(url)} did not answer in {ANSWER_MAX_SECONDS:.0f} s"
        ) from error
    except (OSError, NotHttp, ResponseTooLong) as error:
        raise TraceStoreError(f"{_without_login(url)}: {error}") from error


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
