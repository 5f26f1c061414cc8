"""Reads arrays whose elements are mostly the same in all structs of a response. Equal bytes are decoded only once.

For example, the configs of 10,000 topics have 340,000 settings, and nearly all of these settings are defaults. Equal
bytes give equal elements. Elements never change, so several structs can share one element. So a caller that converts
elements needs to convert each shared element only once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

Read = Callable[[bytes, int], tuple[Any, int]]

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
        self._kept: list[tuple[bytes, Any]] = []

    def __call__(self, frame: bytes, at: int, count: int) -> tuple[tuple[Any, ...], int]:
        """Returns the `count` elements at a position of the frame, and the position after them."""
        items = []
        kept = self._kept
        for index, (written, item) in enumerate(islice(kept, count)):
            if frame.startswith(written, at):
                at += len(written)
            else:
                begin = at
                item, at = self._read(frame, at)
                kept[index] = (frame[begin:at], item)
            items.append(item)
        while len(items) < count:
            begin = at
            item, at = self._read(frame, at)
            items.append(item)
            if len(kept) < KEPT_MAX:
                kept.append((frame[begin:at], item))
        return tuple(items), at
