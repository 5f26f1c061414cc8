"""The interface to randomness. If an `Rng` is made with a seed, a second run gets the same random values."""

from __future__ import annotations

import random
import uuid
from typing import Protocol


class Rng(Protocol):
    def randrange(self, stop: int) -> int:
        """A uniform integer in [0, stop)."""
        ...

    def random(self) -> float:
        """A uniform float in [0, 1)."""
        ...

    def uuid(self) -> uuid.UUID:
        """A random version-4 UUID that Kafka accepts as an id (see `is_reserved_uuid`)."""
        ...


class SystemRng:
    """Makes random values. With a seed, the values are the same in each run. Without a seed, they come from the
    operating system."""

    def __init__(self, seed: int | None = None) -> None:
        self._random: random.Random = random.SystemRandom() if seed is None else random.Random(seed)

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def random(self) -> float:
        return self._random.random()

    def uuid(self) -> uuid.UUID:
        while True:
            candidate = uuid.UUID(int=self._random.getrandbits(128), version=4)
            if not is_reserved_uuid(candidate):
                return candidate


def is_reserved_uuid(value: uuid.UUID) -> bool:
    """Whether Kafka reserves this id: a number of 0 to 99, or an id whose text form starts with '-'.

    The text form is URL-safe base64, and starts with '-' if the top six bits are 62. On a command line, such a text
    would look like an option.
    """
    return value.int < 100 or value.int >> 122 == 62
