"""A bounded memory of decisions that count for some time."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ENTRIES_MAX = 10_000
"""The most entries, such as topics with their schemas. A full memory is emptied."""


class Expiring(Generic[K, V]):
    """Values by key. All values are forgotten together, because a program asks for all of them again at once."""

    __slots__ = ("_entries_max", "_seconds", "_until", "_values")

    def __init__(self, seconds: float, entries_max: int = ENTRIES_MAX) -> None:
        self._seconds = seconds
        self._entries_max = entries_max
        self._until = float("inf")
        self._values: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        if time.monotonic() >= self._until:
            self._values = {}
            self._until = float("inf")
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        if len(self._values) >= self._entries_max:
            self._values = {}
        if not self._values:
            self._until = time.monotonic() + self._seconds
        self._values[key] = value
