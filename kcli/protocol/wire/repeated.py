"""Reads arrays whose elements are mostly the same in all structs of a response. Equal bytes are decoded only once.

For example, the configs of 10,000 topics have 340,000 settings, and nearly all of these settings are defaults. Equal
bytes give equal elements. Elements never change, so several structs can share one element. So a caller that converts
elements needs to convert each shared element only once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kcli.model.pace import Pace

Read = Callable[[bytes, int, Pace], Awaitable[tuple[Any, int]]]

REPEATED = frozenset({("DescribeConfigsResult", "configs"), ("CreatableTopicResult", "configs")})
"""The arrays to read in this way: pairs of the name of a struct and the name of its field."""

KEPT_MAX = 500
"""The most elements that are kept for one array. There is a limit, because these elements stay in memory. A broker has
about 320 settings."""


class RepeatedElements:
    """Reads the arrays of one field. For each index in the array, it keeps the element that was read last, and the
    bytes of this element."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._items: list[tuple[bytes, Any]] = []

    async def read(self, frame: bytes, at: int, index: int, pace: Pace) -> tuple[Any, int]:
        """Returns the element with this index in its array, and the position after it."""
        items = self._items
        if index < len(items):
            written, item = items[index]
            if frame.startswith(written, at):
                return item, at + len(written)
        begin = at
        item, at = await self._read(frame, at, pace)
        if index < len(items):
            items[index] = (frame[begin:at], item)
        elif index < KEPT_MAX:
            items.append((frame[begin:at], item))
        return item, at
