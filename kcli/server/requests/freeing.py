"""Frees the memory of a large message step by step, because Python needs 20 to 40 ms to free 200,000 objects.

The elements of the message's large arrays move to lists. Each step drops some elements of a list, and the event loop
serves clients between two steps. The memory is free only after all other references to the message have ended too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from kcli.model.pace import Pace
from kcli.runtime.turns import Turn, next_turn, run_in_background

STEP_COST = 2
"""The cost of a step in microseconds. A step drops one element that has arrays, or ELEMENTS_PER_STEP elements without
arrays."""

ELEMENTS_PER_STEP = 10

SMALL_ARRAY = 100
"""Arrays with at most this many elements are dropped together with their struct."""

_names_by_class: dict[type, tuple[str, ...]] = {}


def free_later(message: object) -> None:
    """Frees the memory of a message step by step. The caller must drop its references to the message."""
    arrays = list(_large_arrays(message))
    if arrays:
        run_in_background(_freed(arrays, Turn()))


async def _freed(arrays: list[list[object]], pace: Pace) -> None:
    # The request and the response of one call often end in the same iteration of the loop.
    await next_turn()
    while arrays:
        await pace(STEP_COST)
        array = arrays[-1]
        if not array:
            arrays.pop()
        elif _array_names(array[-1]):
            arrays += _divisible_arrays(array.pop())
        else:
            del array[-ELEMENTS_PER_STEP:]


def _large_arrays(message: object) -> Iterator[list[object]]:
    """The elements of all large arrays of a message, including large arrays in the elements of small arrays."""
    for array in _arrays(message):
        if len(array) > SMALL_ARRAY:
            yield list(array)
        elif _array_names(array[0]):
            for element in array:
                yield from _large_arrays(element)


def _divisible_arrays(element: object) -> Iterator[list[object]]:
    """The arrays of an element that are large, or whose elements have arrays. Looks only at the arrays of this element,
    because the arrays of its parts may have too many elements for one step."""
    for array in _arrays(element):
        if len(array) > SMALL_ARRAY or _array_names(array[0]):
            yield list(array)


def _arrays(part: object) -> Iterator[tuple[object, ...]]:
    """The arrays of a message or struct that have elements."""
    for name in _array_names(part):
        array = getattr(part, name)
        if isinstance(array, tuple) and array:
            yield array


def _array_names(part: object) -> tuple[str, ...]:
    """The names of the fields of a message or struct that are arrays."""
    cls = type(part)
    names = _names_by_class.get(cls)
    if names is None:
        fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
        names = _names_by_class[cls] = tuple(field.name for field in fields if "tuple[" in str(field.type))
    return names
