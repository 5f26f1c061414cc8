"""A maximum matching of two sets whose elements fit in some pairs, by augmenting paths."""

from __future__ import annotations

from collections.abc import Sequence


def maximum_matching(fits: Sequence[Sequence[int]]) -> dict[int, int]:
    """Returns the right element of each left element, for as many as possible. `fits[left]` lists those that fit."""
    right_of: dict[int, int] = {}
    left_of: dict[int, int] = {}
    exhausted: set[int] = set()
    for start in range(len(fits)):
        came_from: dict[int, int] = {}
        right = _free_element(fits, left_of, start, came_from, exhausted)
        if right is None:
            # No later path leads from these elements to a free one, so later searches pass over them.
            exhausted |= came_from.keys()
        while right is not None:
            left = came_from[right]
            previous = right_of.get(left)
            right_of[left], left_of[right] = right, left
            right = previous
    return right_of


def _free_element(
    fits: Sequence[Sequence[int]],
    left_of: dict[int, int],
    start: int,
    came_from: dict[int, int],
    exhausted: set[int],
) -> int | None:
    """Looks for a free right element, breadth first. `came_from` gets the path: the left element of each right one."""
    pending = [start]
    for left in pending:
        for right in fits[left]:
            if right in came_from or right in exhausted:
                continue
            came_from[right] = left
            if right not in left_of:
                return right
            pending.append(left_of[right])
    return None
