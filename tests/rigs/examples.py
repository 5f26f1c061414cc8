"""Computes the number of examples of a property test. Each property has a count, and the profile of Hypothesis scales
all counts."""

from __future__ import annotations

from hypothesis import settings

# Hypothesis' default number of examples. With a profile of this number, every property runs its own count.
USUAL = 100


def examples(count: int) -> int:
    """Returns `count` if the profile has the usual `max_examples` of 100. With another value, returns proportionally
    fewer or more.

    A property must set `max_examples` to `examples(number)`, because a plain number would ignore the profile.
    """
    return max(1, count * settings().max_examples // USUAL)
