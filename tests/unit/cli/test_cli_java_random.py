"""The numbers that Java's SplittableRandom draws from seed 0."""

from __future__ import annotations

import pytest

from kcli.cli.java.random import SplittableRandom


@pytest.mark.parametrize(
    ("bound", "drawn"),
    [
        (3, [1, 1, 0, 0, 1, 1, 2, 0, 1, 0, 1, 2]),
        (26, [24, 16, 7, 7, 13, 4, 1, 18, 4, 15, 3, 13]),
        (8, [5, 1, 3, 2, 2, 5, 7, 1, 5, 3, 7, 7]),
        (1_000_003, [556448, 206906, 777146, 413813, 17531, 829533]),
    ],
)
def test_as_java_draws(bound: int, drawn: list[int]) -> None:
    chance = SplittableRandom(0)
    assert [chance.next_int(bound) for _ in drawn] == drawn
