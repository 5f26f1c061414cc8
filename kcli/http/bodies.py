"""Reads the body of a request, with limits of size and time."""

from __future__ import annotations

import asyncio
import json
import re
from http import HTTPStatus

from kcli.http.server import Connection, HttpError, Request

BODY_MAX_SECONDS = 60.0
"""The longest time in which a client sends a body. A slow line sends some megabytes in this time."""

_PART_BYTES = 64 * 1024

_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
"""The JSON escape of a surrogate. Two surrogates together are one character, but a single surrogate is invalid."""


async def read_body(request: Request, *, body_max_bytes: int) -> bytes:
    """Reads the body. Raises HttpError if the body is too long or arrives too slowly."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_MAX_SECONDS):
            async for part in request.content.iter_chunked(_PART_BYTES):
                connection.ahead_bytes = 0  # the handler has read these bytes
                body += part
                if len(body) > body_max_bytes:
                    raise HttpError(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        f"the body has more than {body_max_bytes} bytes",
                        close=True,
                    )
    except TimeoutError:
        raise HttpError(
            HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive in {BODY_MAX_SECONDS:g} s", close=True
        ) from None
    return bytes(body)


async def read_object(request: Request, *, body_max_bytes: int) -> dict[str, object]:
    """Reads a body that is one JSON object. Raises HttpError if the body is anything else."""
    if request.content_type != "application/json":
        raise HttpError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected Content-Type: application/json", close=True
        )
    body = await read_body(request, body_max_bytes=body_max_bytes)
    try:
        found = _decoded(body)
    except (ValueError, RecursionError):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not valid JSON") from None
    if not isinstance(found, dict):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
    return found


def _decoded(body: bytes) -> object:
    """Decodes JSON. Raises ValueError for a text that UTF-8 cannot represent, because it cannot be sent to a broker."""
    text = body.decode()
    found: object = json.loads(text)
    if _HALF_CHARACTER.search(text):
        json.dumps(found, ensure_ascii=False).encode()
    return found
