"""When a node that died is started again, and in which order nodes stop."""

from __future__ import annotations

import pytest

from kcli.local_cluster.watch import MAX_RESTARTS, STEADY_S, Restarts, RunningNode, stop_batches


def nodes(voters: list[int], others: list[int]) -> list[RunningNode]:
    return [*(RunningNode(each, True) for each in voters), *(RunningNode(each, False) for each in others)]


def test_pauses_double_and_then_the_node_stays_down() -> None:
    restarts = Restarts(enabled=True)
    assert [restarts.pause_after(0.5) for _ in range(MAX_RESTARTS)] == [1, 2, 4, 8, 16]
    assert restarts.pause_after(0.5) is None


def test_a_node_that_ran_for_a_minute_is_counted_from_zero() -> None:
    restarts = Restarts(enabled=True)
    for _ in range(MAX_RESTARTS):
        restarts.pause_after(1)
    assert restarts.pause_after(STEADY_S) == 1
    assert restarts.pause_after(STEADY_S - 1) == 2


def test_restarts_can_be_switched_off() -> None:
    assert Restarts(enabled=False).pause_after(1000) is None


@pytest.mark.parametrize(
    ("voters", "others", "all_voters", "batches"),
    [
        ([1], [], 1, [[1]]),
        ([1], [2], 1, [[2], [1]]),
        ([1, 2, 3], [], 3, [[3], [1, 2]]),
        ([1, 2, 3], [4], 3, [[4], [3], [1, 2]]),
        ([1, 2, 3, 4, 5], [6, 7], 5, [[6], [7], [5], [4], [1, 2, 3]]),
        ([2, 3], [], 3, [[2, 3]]),
        ([3], [4], 3, [[4], [3]]),
        ([], [4, 5], 3, [[4], [5]]),
        ([], [], 3, []),
    ],
)
def test_the_last_majority_of_voters_stops_together(
    voters: list[int], others: list[int], all_voters: int, batches: list[list[int]]
) -> None:
    assert stop_batches(nodes(voters, others), all_voters) == batches
