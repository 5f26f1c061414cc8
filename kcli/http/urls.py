"""A GET request to a URL that a user of kcli has given."""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import SplitResult, unquote, urlsplit

from kcli.errors import KcliError
from kcli.http.client import NotHttp, Response, ResponseTooLong, get
from kcli.model.addresses import Address

_PORTS = {"http": 80, "https": 443}


class UrlError(KcliError):
    """Raised if a URL is invalid, or if its server does not answer. The message has no password."""


async def get_url(url: str, target: str, *, body_max_bytes: int, max_seconds: float) -> Response:
    """Sends GET `target`, below the path of `url`. `url` may have a user and a password. Returns the response with any
    status.

    Raises UrlError.
    """
    parts, port = _parts(url)
    login = None if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    try:
        async with asyncio.timeout(max_seconds):
            return await get(
                Address(parts.hostname or "", port),
                f"{parts.path.rstrip('/')}{target}",
                body_max_bytes=body_max_bytes,
                credentials=login,
                tls=tls,
            )
    except TimeoutError as error:
        raise UrlError(f"{shown_url(url)} did not answer in {max_seconds:.0f} s") from error
    except (OSError, NotHttp, ResponseTooLong) as error:
        raise UrlError(f"{shown_url(url)}: {error}") from error


def shown_url(url: str) -> str:
    """Returns the URL without its user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _parts(url: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise UrlError(f"the address is invalid: {error}") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise UrlError("the address is invalid: expected http://HOST:PORT or https://HOST:PORT")
    return parts, port
