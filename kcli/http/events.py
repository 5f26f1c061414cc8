"""Server-sent events: a stream of named messages to a browser (WHATWG HTML, "Server-sent events")."""

from __future__ import annotations

import json
from collections.abc import Callable

from kcli.http.server import Request, Stream

CONTENT_TYPE = "text/event-stream; charset=utf-8"

# Without this header, proxies such as nginx collect several events before they pass them on.
_UNBUFFERED = {"X-Accel-Buffering": "no"}


class EventStream(Stream):
    """A stream of events, inside `async with`. `send` waits until the kernel has accepted the event."""

    def __init__(self, request: Request, *, default: Callable[[object], object] | None = None) -> None:
        """`default` converts values that JSON does not have, as in `json.dumps`."""
        super().__init__(request, CONTENT_TYPE, _UNBUFFERED)
        self._default = default

    async def send(self, event: str, content: object) -> None:
        """Sends one event, whose content is JSON. JSON has no line breaks, so the content is one line."""
        text = json.dumps(content, default=self._default, separators=(",", ":"))
        await self.write(f"event: {event}\ndata: {text}\n\n".encode())

    async def beat(self) -> None:
        """Sends a comment, so that proxies and the browser do not close a stream without events."""
        await self.write(b": alive\n\n")
