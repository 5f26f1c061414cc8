"""The number of examples of a property test: a count for each property, which the profile of Hypothesis scales."""

from __future__ import annotations

from hypothesis import settings

# Hypothesis' default number of examples. With a profile of this number, every property runs its own count.
USUAL = 100


def examples(count: int) -> int:
    """Returns `count` in a usual run. With another `max_examples` in the profile, returns fewer or more in proportion.

    A property that sets `max_examples` to a plain number ignores the profile, so it must set `examples(number)`.
    """
    return max(1, count * settings().max_examples // USUAL)
