"""Java's SplittableRandom: the same seed gives the same numbers as in Java."""

from __future__ import annotations

_GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class SplittableRandom:
    """Draws the same numbers as `new SplittableRandom(seed)`."""

    def __init__(self, seed: int) -> None:
        self._seed = seed & _MASK

    def next_int(self, bound: int) -> int:
        """Draws an integer from 0 up to `bound` (exclusive)."""
        most = bound - 1
        if bound & most == 0:
            return self._bits() & most
        while True:
            drawn = self._bits() >> 1
            remainder = drawn % bound
            if drawn + most - remainder < 1 << 31:  # without this check, low numbers would be more frequent
                return remainder

    def _bits(self) -> int:
        """Draws 32 random bits."""
        self._seed = (self._seed + _GOLDEN_GAMMA) & _MASK
        mixed = self._seed
        mixed = ((mixed ^ (mixed >> 33)) * 0x62A9D9ED799705F5) & _MASK
        mixed = ((mixed ^ (mixed >> 28)) * 0xCB24D0A5C88C35B3) & _MASK
        return mixed >> 32
