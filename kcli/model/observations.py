"""Collects counts and observed values, such as durations, until the metrics of the node read them."""

from __future__ import annotations

from array import array
from typing import Protocol

KEPT_MAX = 2_000
"""The most values that are kept until they are read. If the node has no metrics endpoint, no code reads the values. A
metrics endpoint reads them each second, and 2,000 values are more than a quantile needs."""


class Values(Protocol):
    """Observed values that one reader takes. `count` is the number of all values so far. `take` returns the values that
    were added since its last call.
    """

    count: int

    def take(self) -> list[float]: ...


class Largest:
    """The largest value since the last call of `take`. A `Largest` needs less memory and time than `Observations`."""

    __slots__ = ("__weakref__", "count", "value")

    def __init__(self) -> None:
        self.count = 0
        self.value = 0

    def add(self, value: int) -> None:
        self.count += 1
        if value > self.value:
            self.value = value

    def take(self) -> list[float]:
        value, self.value = self.value, 0
        return [value] if value else []


class Observations:
    """Values of one kind, such as the times of flushes. Any thread may add values.

    `count` and `total` are the number and the sum of all values. `take` returns the newest values since its last call.
    The values are in one array, because a Python object for each value would stay in memory for hours. Python could
    then not give back the memory around these objects.
    """

    __slots__ = ("__weakref__", "_oldest", "_values", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._values: array[float] = array("d")
        self._oldest = 0  # the index of the value that the next one replaces, if the array is full

    def add(self, value: float) -> None:
        self.total += value
        values = self._values  # another thread may take it meanwhile
        if len(values) < KEPT_MAX:
            values.append(value)
        else:
            values[self._oldest] = value
            self._oldest = (self._oldest + 1) % KEPT_MAX
        self.count += 1  # last, because a reader takes the values after a change of the count

    def take(self) -> list[float]:
        values, oldest = self._values, self._oldest
        self._values, self._oldest = array("d"), 0
        return [*values[oldest:], *values[:oldest]]
