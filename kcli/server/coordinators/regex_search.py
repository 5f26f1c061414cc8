"""Finds the topics that match the regular expressions of consumer groups (KIP-848), outside the coordinator.

Clients choose the expressions, so the search takes as much time as they like. It runs in a thread of its own, in short
slices. Only one slice of all groups runs at a time, and each group waits for the slices of the other groups. Between
two slices the event loop runs, so a search never holds Python's lock for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable

from kcli.coordinator.group.consumer.targets.regexes import matching
from kcli.coordinator.patterns import compiled_pattern, is_compiled
from kcli.runtime.threads import REGEXES
from kcli.runtime.turns import next_turn

MATCHES_PER_SLICE = 200
"""The names that are matched in one slice with a usual expression. A slice takes about 1 ms, and up to 20 ms with the
most costly expressions, because a slice has at least one name."""

Matches = dict[str, tuple[str, ...]]


class RegexSearch:
    """The searches of one node."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def find(self, regexes: Iterable[str], names: Iterable[str]) -> Matches:
        """Returns the names that each expression matches."""
        steps = matching(regexes, names)
        while True:
            async with self._turn:  # the search that has waited longest is next
                results = await REGEXES.run(_run_slice, steps)
            for result in results:
                return result


async def compile_in_a_turn(regex: str) -> None:
    """Compiles an expression that is new to this node, so that the coordinator finds it in the cache. This takes up to
    10 ms, so it is done in a turn of the event loop without other long work."""
    if not is_compiled(regex):
        await next_turn()
        compiled_pattern(regex)


def _run_slice(steps: Generator[int, None, Matches]) -> tuple[Matches, ...]:
    """Runs a limited number of steps. Returns a tuple with the result, or an empty tuple if more steps remain."""
    left = MATCHES_PER_SLICE
    try:
        while left > 0:
            left -= next(steps)
    except StopIteration as end:
        return (end.value,)
    return ()
