"""Reads the body of a request, with limits of size and time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from http import HTTPStatus

from kcli.http.server import Connection, HttpError, Request, connection_of

BODY_MAX_SECONDS = 60.0
"""The longest time in which a client sends a body. A slow line sends some megabytes in this time."""

BODY_FIRST_SECONDS = 5.0
"""The time in which a client must begin to send its body at the lowest rate."""

BODY_MIN_BYTES_PER_SECOND = 16 * 1024
"""The lowest rate of a body after BODY_FIRST_SECONDS. Slow mobile networks send faster."""

DISCARD_MAX_BYTES = 64 * 1024 * 1024
"""The most bytes of a body that is too long which the server still reads, so that the client reads its error.

Most clients send the whole body first. A connection that is closed before resets, and its response is lost.
"""

_PART_BYTES = 64 * 1024

_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
"""The JSON escape of a surrogate. Two surrogates together are one character, but a single surrogate is invalid."""


async def read_body(request: Request, *, body_max_bytes: int) -> bytes:
    """Reads the body. Raises HttpError if the body is too long or arrives too slowly."""
    connection = connection_of(request)
    body, length = bytearray(), 0
    began = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(began + BODY_FIRST_SECONDS) as limit:
            async for part in _parts(connection, request):
                connection.ahead_bytes = 0  # the handler has read these bytes
                length += len(part)
                if length <= body_max_bytes:
                    body += part
                else:
                    body.clear()
                seconds = BODY_FIRST_SECONDS + length / BODY_MIN_BYTES_PER_SECOND
                limit.reschedule(began + min(seconds, BODY_MAX_SECONDS))
                if length > body_max_bytes + DISCARD_MAX_BYTES:
                    break
    except TimeoutError:
        raise HttpError(HTTPStatus.REQUEST_TIMEOUT, "the body arrives too slowly", close=True) from None
    if length > body_max_bytes:
        message = f"the body has more than {body_max_bytes} bytes"
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, close=True)
    return bytes(body)


async def _parts(connection: Connection, request: Request) -> AsyncIterator[bytes]:
    """Yields the parts of a body. While a part is missing, a client that is not logged in gives way to others."""
    parts = request.content.iter_chunked(_PART_BYTES)
    while True:
        with connection.on_hold():
            part = await anext(parts, None)
        if part is None:
            return
        yield part


async def read_object(request: Request, *, body_max_bytes: int) -> dict[str, object]:
    """Reads a body that is one JSON object. Raises HttpError if the body is anything else."""
    if request.content_type != "application/json":
        raise HttpError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected Content-Type: application/json", close=True
        )
    body = await read_body(request, body_max_bytes=body_max_bytes)
    try:
        content = _decoded(body)
    except (ValueError, RecursionError):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not valid JSON") from None
    if not isinstance(content, dict):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
    return content


def _decoded(body: bytes) -> object:
    """Decodes JSON. Raises ValueError for a text that UTF-8 cannot represent, because it cannot be sent to a broker."""
    text = body.decode()
    content: object = json.loads(text)
    if _HALF_CHARACTER.search(text):
        json.dumps(content, ensure_ascii=False).encode()
    return content
