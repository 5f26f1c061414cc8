"""Every property follows the profile of Hypothesis: fewer examples for `make quick`, more for `make full`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from rigs.examples import examples

TESTS = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def same_profile_afterwards() -> Iterator[None]:
    before = settings.get_current_profile_name()
    yield
    settings.load_profile(before)


@pytest.mark.parametrize(
    ("profile", "expected"), [("any-machine", (150, 1)), ("quick", (15, 1)), ("full", (1500, 10))]
)
def test_counts_are_scaled_by_the_profile(profile: str, expected: tuple[int, int]) -> None:
    settings.load_profile(profile)
    assert (examples(150), examples(1)) == expected


def test_no_property_sets_a_plain_number() -> None:
    plain = re.compile(r"max_examples=\d")
    found = [str(path) for path in TESTS.rglob("test_*.py") if plain.search(path.read_text(encoding="utf-8"))]
    assert found == []
