"""Calls HTTP servers that provide tokens or keys. The size and the time of an answer are limited, and a redirect is an
error.

The calls block the thread. Every failure is an OSError.
"""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.request import Request

_READ_BYTES = 65_536


def called(request: Request, context: ssl.SSLContext | None, timeout_s: float, bytes_max: int) -> bytes:
    """Sends a request and returns the content of the answer, at most `bytes_max` + 1 bytes.

    `timeout_s` limits each wait for the server, and also the time for the whole content. Raises HTTPError (an OSError)
    if the server answers with an error, and OSError for every other failure.
    """
    from http.client import HTTPException  # imported late, because few nodes and tools need these modules
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, build_opener

    class NoRedirect(HTTPRedirectHandler):
        # A redirect is refused, because a request may have a secret, and because a key set must come from the server
        # that the operator names.
        def redirect_request(self, *_: object) -> None:
            return None

    ends_at = time.monotonic() + timeout_s
    content = bytearray()
    try:
        with build_opener(NoRedirect, HTTPSHandler(context=context)).open(
            request, timeout=timeout_s
        ) as answer:
            # `read1` returns what has arrived. `read` would wait for the whole part.
            while len(content) <= bytes_max and (part := answer.read1(_READ_BYTES)):
                content += part
                if time.monotonic() > ends_at:
                    raise TimeoutError("the answer takes too long")
    except OSError:
        raise
    except (HTTPException, ValueError) as error:
        # The text of the error may have a long line of the server.
        raise OSError(f"invalid answer ({type(error).__name__})") from error
    return bytes(content[: bytes_max + 1])
