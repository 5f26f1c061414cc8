"""Work that is written once: at once without a loop, or in slices with a pace that pauses."""

from __future__ import annotations

import asyncio

import pytest

from kcli.model.pace import at_once, mapped, nested, no_pause, sorted_in_slices


class Charged:
    """A pace that only writes down what it is charged."""

    def __init__(self) -> None:
        self.costs: list[int] = []

    async def __call__(self, cost: int) -> None:
        self.costs.append(cost)


def test_work_that_never_pauses_needs_no_loop() -> None:
    assert at_once(mapped(no_pause, 5, range(4), str)) == ("0", "1", "2", "3")
    assert at_once(mapped(no_pause, 5, (), str)) == ()


def test_work_that_pauses_cannot_run_at_once() -> None:
    ended = []

    async def waits() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append(True)

    with pytest.raises(AssertionError, match="must not pause"):
        at_once(waits())
    assert ended == [True], "the work is closed"


def test_an_error_of_the_work_is_raised() -> None:
    def refuse(number: int) -> int:
        raise ValueError(f"number {number}")

    with pytest.raises(ValueError, match="number 7"):
        at_once(mapped(no_pause, 1, [7], refuse))


def test_each_item_is_charged_before_it_is_handled() -> None:
    pace = Charged()
    charges = at_once(mapped(pace, 3, range(4), lambda _: len(pace.costs)))
    assert charges == (1, 2, 3, 4)
    assert pace.costs == [3] * 4


def test_nested_items_and_their_groups_are_charged() -> None:
    pace = Charged()
    shaped = at_once(
        nested(
            pace,
            2,
            [[1, 2], [], [3]],
            lambda group: group,
            lambda group, item: item + len(group),
            lambda group, results: (len(group), results),
        )
    )
    assert shaped == ((2, (3, 4)), (0, ()), (1, (4,)))
    assert pace.costs == [2] * 6


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 1000])
def test_names_are_sorted_as_at_once(count: int) -> None:
    names = [f"{number * 7919 % 1000}" for number in range(count)]
    pace = Charged()
    assert at_once(sorted_in_slices(names, str, pace)) == sorted(names)
    assert sum(pace.costs) >= count
    assert max(pace.costs, default=0) <= 100, "no slice sorts more than a hundred names"


def test_items_with_equal_keys_keep_their_order() -> None:
    items = [(f"{number % 3}", number) for number in range(500)]
    assert at_once(sorted_in_slices(items, lambda item: item[0], no_pause)) == sorted(
        items, key=lambda item: item[0]
    )
