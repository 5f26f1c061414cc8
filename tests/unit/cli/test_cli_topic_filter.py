"""Java's regular expressions over the names of topics."""

from __future__ import annotations

import pytest

from kcli.cli.topic_filter import topic_filter

NAMES = ["a", "A1", "a.b", "axb", "cc", "orders-7", "_hidden"]


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("a", ["a"]),
        ("a,cc", ["a", "cc"]),
        (" 'a, cc' ", ["a", "cc"]),
        ("(?i)a\\d?", ["a", "A1"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"\Qa.b", ["a.b"]),
        ("a.b", ["a.b", "axb"]),
        (r"\p{L}+", ["a", "axb", "cc"]),
        (r"[\p{Alpha}\p{Digit}]+", ["a", "A1", "axb", "cc"]),
        (r"\p{Lower}+\p{Punct}\p{Alnum}", ["a.b", "orders-7"]),
        (r"(?<x>c)\1", ["cc"]),
        (r"(?<=^)(?<!z)a\z", ["a"]),
        ("(?!_).*[0-9]", ["A1", "orders-7"]),
        (r"[\[\]ac]+", ["a", "cc"]),
        ("", []),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, matching: list[str]) -> None:
    assert list(filter(topic_filter(pattern), NAMES)) == matching


@pytest.mark.parametrize("pattern", ["(", "*", "[a", r"\p{Nothing}"])
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="is an invalid regex"):
        topic_filter(pattern)


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("[a-z&&[^b]]+", ["a", "cc"]),
        ("[a[x-z]]+b?", ["a", "axb"]),
        (r"\P{Upper}\p{Digit}?", ["a"]),
        (r"\p{IsAlphabetic}\d", ["A1"]),
    ],
)
def test_sets_within_sets_are_understood(pattern: str, matching: list[str]) -> None:
    assert list(filter(topic_filter(pattern), NAMES)) == matching
