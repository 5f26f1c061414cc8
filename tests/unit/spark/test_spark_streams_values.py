"""Durations of windows, and what functions with state may return: checked before Spark sees them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from kcli.spark.streams.stateful import state_row, value_row
from kcli.spark.streams.windows import Hopping, Session, Tumbling, milliseconds


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("0 seconds", 0),
        ("1 second", 1_000),
        ("90 SECONDS", 90_000),
        ("250 milliseconds", 250),
        (" 1 hour  30 minutes ", 5_400_000),
        ("2 weeks", 1_209_600_000),
    ],
)
def test_a_duration_is_read_with_its_unit(duration: str, expected: int) -> None:
    assert milliseconds(duration, "size") == expected


@pytest.mark.parametrize(
    "duration", ["", "5", "minutes", "5m", "1 month", "-1 second", "1 second ago", "1.5 hours"]
)
def test_an_invalid_duration_is_refused(duration: str) -> None:
    with pytest.raises(ValueError, match=r"grace is .*'30 seconds'"):
        milliseconds(duration, "grace")


def test_windows_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="size is '0 seconds'"):
        Tumbling("0 seconds")
    with pytest.raises(ValueError, match="gap is '5m'"):
        Session("5m")
    with pytest.raises(ValueError, match="an advance that is not longer than size"):
        Hopping("1 minute", "61 seconds")
    with pytest.raises(ValueError, match="grace is 'none'"):
        Tumbling("1 minute", grace="none")
    assert Hopping("1 minute", "60 seconds").grace == "0 seconds"


def test_a_stateful_function_must_return_a_dict_and_tuples() -> None:
    assert state_row({"b": 2, "a": 1}, ["a", "b"]) == (1, 2)
    assert value_row((1, "x"), ["a", "b"]) == (1, "x")
    for state in ({"a": 1}, {"a": 1, "b": 2, "c": 3}, (1, 2)):
        with pytest.raises(TypeError, match="a dict of a, b, or None"):
            state_row(state, ["a", "b"])
    for value in ("xy", (1,), 1):
        with pytest.raises(TypeError, match="a tuple of a, b, or None"):
            value_row(value, ["a", "b"])
