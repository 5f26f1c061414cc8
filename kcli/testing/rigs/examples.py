"""The number of examples of a property test: a count per property, scaled by the profile of Hypothesis."""

from __future__ import annotations

from hypothesis import settings

# Hypothesis' own number of examples. Under a profile with this number every property keeps its count.
USUAL = 100


def examples(count: int) -> int:
    """Returns `count` in a usual run, fewer or more under a profile with another `max_examples`.

    A property that sets `max_examples` to a plain number ignores the profile, so it must set `examples(number)`.
    """
    return max(1, count * settings().max_examples // USUAL)
