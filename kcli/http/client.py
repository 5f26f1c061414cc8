"""One HTTP request to a server, and its response."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
from yarl import URL

from kcli.errors import KcliError
from kcli.model.addresses import Address

_PART_BYTES = 64 * 1024


class NotHttp(KcliError):
    """The server's response is not HTTP."""


class ResponseTooLong(KcliError):
    """The response has more bytes than the caller permits."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes


async def get(
    address: Address,
    target: str,
    *,
    body_max_bytes: int,
    credentials: str | None = None,
    tls: ssl.SSLContext | None = None,
) -> Response:
    """Sends GET `target` (a path with its query), and returns the response with any status.

    `credentials` are user:password, sent as HTTP Basic. With `tls`, the request goes over HTTPS. The caller limits the
    time. Raises the errors of `request`.
    """
    headers = {"Accept": "application/json"}
    if credentials is not None:
        headers["Authorization"] = f"Basic {base64.b64encode(credentials.encode()).decode()}"
    url = f"{'http' if tls is None else 'https'}://{address}{target}"
    return await request("GET", url, headers=headers, body_max_bytes=body_max_bytes, tls=tls)


async def request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    body_max_bytes: int,
    tls: ssl.SSLContext | None = None,
    connect_max_seconds: float | None = None,
    read_max_seconds: float | None = None,
) -> Response:
    """Sends a request to an encoded URL, and returns the response with any status.

    The caller limits the whole time. The two limits here are those of the connection, and of a wait for more bytes.
    Raises NotHttp, ResponseTooLong, and the same OSErrors as a socket.
    """
    try:
        async with (
            aiohttp.ClientSession(
                # Without TLS, the connection is closed after the response. With TLS, it stays open until the
                # session ends, because only the end of the session waits for the shutdown of TLS (one round trip).
                connector=aiohttp.TCPConnector(force_close=tls is None, use_dns_cache=False),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=connect_max_seconds, sock_read=read_max_seconds
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "kcli", **headers},
            ) as session,
            session.request(
                method, URL(url, encoded=True), data=body, allow_redirects=False, ssl=tls or True
            ) as answer,
        ):
            return Response(answer.status, await _body(answer, body_max_bytes))
    except aiohttp.ClientConnectorError as error:
        raise error.os_error from error
    except aiohttp.ClientPayloadError as error:
        raise ConnectionAbortedError(f"{url} closed the connection before the end of its response") from error
    except (aiohttp.ClientResponseError, aiohttp.ServerDisconnectedError) as error:
        raise NotHttp(str(error)) from error
    except ValueError as error:
        raise OSError(f"{url} is not a valid address: {error}") from error


async def _body(answer: aiohttp.ClientResponse, body_max_bytes: int) -> bytes:
    body = bytearray()
    async for part in answer.content.iter_chunked(_PART_BYTES):
        body += part
        if len(body) > body_max_bytes:
            raise ResponseTooLong(f"more than {body_max_bytes} bytes")
    return bytes(body)
