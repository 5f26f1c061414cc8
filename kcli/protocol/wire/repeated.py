"""Arrays whose elements are mostly the same in each struct of an answer: equal bytes are read once.

A description of 10,000 topics has 340,000 settings, and all but a few are the defaults. Equal bytes give equal
elements, and elements cannot change, so the structs share them. A caller that converts elements can then convert each
shared element once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

Read = Callable[[bytes, int], tuple[Any, int]]

REPEATED = frozenset({("DescribeConfigsResult", "configs"), ("CreatableTopicResult", "configs")})
"""The arrays to read in this way, by the class of kio and the name of our field."""

KEPT_MAX = 500
"""The most elements that are kept for an array, because they stay in memory. A broker has about 320 settings."""


class RepeatedElements:
    """Reads the arrays of one field. It keeps the last element of each position, and the bytes of that element."""

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
