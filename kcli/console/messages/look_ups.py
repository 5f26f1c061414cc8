"""Limits the look-ups of schemas of one request. A look-up blocks a thread, and all sessions share a few threads."""

from __future__ import annotations

import time

from kcli.console.messages.decoding import SchemaCodec
from kcli.console.messages.registry import SchemaRegistry
from kcli.formats.codec import FormatError
from kcli.formats.registry.framing import SchemaKey

LOOK_UPS_MAX = 100
"""The most look-ups of one request within LOOK_UPS_SECONDS. Schemas in memory do not count. A topic has a few schemas.
"""

LOOK_UPS_SECONDS = 60.0


class LookUps:
    """The look-ups of one request. `find` is called in threads. After LOOK_UPS_SECONDS, a live tail may look up more
    schemas."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._left = LOOK_UPS_MAX
        self._renewed_at = time.monotonic()

    def find(self, key: SchemaKey) -> SchemaCodec:
        """Returns the decoder of a schema. Raises FormatError."""
        if (codec := self._registry.known(key)) is not None:
            return codec
        self._take()
        return self._registry.find(key)

    def _take(self) -> None:
        now = time.monotonic()
        if now - self._renewed_at >= LOOK_UPS_SECONDS:
            self._left, self._renewed_at = LOOK_UPS_MAX, now
        if self._left <= 0:
            raise FormatError(f"the records have more than {LOOK_UPS_MAX} unknown schema ids")
        self._left -= 1
