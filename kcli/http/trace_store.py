"""Asks a store of traces (Jaeger or Tempo) for the spans of a trace."""

from __future__ import annotations

from http import HTTPStatus

from kcli.errors import KcliError
from kcli.http.urls import UrlError, get_url, shown_url
from kcli.tracing.stored import NotATrace, StoredSpan, read

ANSWER_MAX_BYTES = 64 * 1024 * 1024
"""The largest answer that is read. Tempo's own limit for a trace is 5 MB."""
ANSWER_MAX_SECONDS = 30.0


class TraceStoreError(KcliError):
    """Raised if the store does not answer, or if its answer is not a trace."""


class TraceNotFound(TraceStoreError):
    """Raised if the store has no such trace."""


async def stored_trace(url: str, trace_id: str) -> list[StoredSpan]:
    """Returns the spans of a trace. `url` is the address of the store, such as http://localhost:16686 for Jaeger or
    http://localhost:3200 for Tempo. It may have a path, and a user with a password.

    Raises TraceStoreError, and TraceNotFound if there is no such trace.
    """
    try:
        response = await get_url(
            url, f"/api/traces/{trace_id}", body_max_bytes=ANSWER_MAX_BYTES, max_seconds=ANSWER_MAX_SECONDS
        )
    except UrlError as error:
        raise TraceStoreError(f"store of traces: {error}") from error
    if response.status == HTTPStatus.NOT_FOUND:
        raise TraceNotFound(f"{shown_url(url)} has no trace {trace_id}")
    if response.status != HTTPStatus.OK:
        raise TraceStoreError(f"{shown_url(url)} answered with the status {response.status}")
    try:
        spans = read(response.body)
    except NotATrace as error:
        raise TraceStoreError(
            f"{shown_url(url)} is not the query address of Jaeger or Tempo: {error}"
        ) from error
    if not spans:
        raise TraceNotFound(f"{shown_url(url)} has no trace {trace_id}")
    return spans
