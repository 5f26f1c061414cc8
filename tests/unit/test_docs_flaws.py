"""The table of Kafka's flaws in docs/security.md: each row names tests that exist, or says why no test is possible."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
ROWS = re.findall(r"^\| (CVE-[^|]+?) \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)
WITHOUT = ("CVE-2021-4104",)
"""Rows about a library of Java that is not there."""


def test_the_table_has_all_flaws() -> None:
    assert len(ROWS) >= 20


@pytest.mark.parametrize(("flaw", "text"), ROWS, ids=[flaw[:14] for flaw, _ in ROWS])
def test_each_row_names_its_tests(flaw: str, text: str) -> None:
    tests = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert tests or flaw.startswith(WITHOUT), f"{flaw} names no test"
    for path, name in tests:
        content = (ROOT / path).read_text()
        assert not name or f"def {name}(" in content, f"{path} has no {name}"
