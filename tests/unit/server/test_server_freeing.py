"""Large messages are freed in turns. Freed elements are counted, not seconds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from kcli.runtime.turns import TURN_COST_MAX
from kcli.server.requests.freeing import (
    ELEMENTS_PER_STEP,
    SMALL_ARRAY,
    STEP_COST,
    free_later,
)
from rigs.loops import on_a_loop

ELEMENTS = 4 * (TURN_COST_MAX // STEP_COST) * ELEMENTS_PER_STEP
FREED_PER_TURN_MAX = (TURN_COST_MAX // STEP_COST) * ELEMENTS_PER_STEP


class Counter:
    freed = 0


@dataclass(frozen=True, slots=True)
class Part:
    counter: Counter

    def __del__(self) -> None:
        self.counter.freed += 1


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Message:
    topics: tuple[Topic, ...]


def message(topics: int, parts: int, counter: Counter) -> Message:
    return Message(
        tuple(Topic(f"t{nth}", tuple(Part(counter) for _ in range(parts))) for nth in range(topics))
    )


async def freed_per_turn(freed: Message, counter: Counter) -> list[int]:
    """The numbers of parts that are freed in the iterations of the event loop. The caller must have no reference."""
    free_later(freed)
    del freed
    counts = []
    idle = 0
    while idle < 10:
        before = counter.freed
        await asyncio.sleep(0)
        counts.append(counter.freed - before)
        idle = 0 if counts[-1] else idle + 1
    return counts


@on_a_loop
async def test_one_large_topic_is_freed_in_turns() -> None:
    counter = Counter()
    counts = await freed_per_turn(message(1, ELEMENTS, counter), counter)
    assert counter.freed == ELEMENTS
    assert max(counts) <= FREED_PER_TURN_MAX


@on_a_loop
async def test_many_topics_are_freed_in_turns() -> None:
    counter = Counter()
    counts = await freed_per_turn(message(ELEMENTS, 1, counter), counter)
    assert counter.freed == ELEMENTS
    assert max(counts) <= FREED_PER_TURN_MAX


@on_a_loop
async def test_large_topics_among_many_are_freed_in_turns() -> None:
    counter, parts = Counter(), SMALL_ARRAY + 1
    counts = await freed_per_turn(message(300, parts, counter), counter)
    assert counter.freed == 300 * parts
    assert max(counts) <= FREED_PER_TURN_MAX


def test_a_small_message_is_freed_at_once() -> None:
    counter = Counter()
    free_later(message(3, SMALL_ARRAY, counter))  # needs no loop
    assert counter.freed == 3 * SMALL_ARRAY
