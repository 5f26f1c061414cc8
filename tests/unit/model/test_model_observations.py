"""Observed values wait for a reader, but not in objects of their own."""

from __future__ import annotations

import sys

from kcli.model.observations import KEPT_MAX, Observations


def test_values_are_taken_once_and_in_order() -> None:
    observed = Observations()
    for value in (3.0, 1.0, 2.0):
        observed.add(value)
    assert observed.take() == [3.0, 1.0, 2.0]
    assert observed.take() == []
    assert (observed.count, observed.total) == (3, 6.0)


def test_the_newest_values_stay() -> None:
    observed = Observations()
    for value in range(KEPT_MAX + 3):
        observed.add(float(value))
    assert observed.take() == [float(value) for value in range(3, KEPT_MAX + 3)]
    observed.add(7.0)
    assert observed.take() == [7.0]
    assert observed.count == KEPT_MAX + 4


def test_waiting_values_take_no_memory_blocks() -> None:
    observed = Observations()
    before = sys.getallocatedblocks()
    for value in range(KEPT_MAX // 2):
        observed.add(value / 3)
    assert sys.getallocatedblocks() - before < KEPT_MAX // 20
