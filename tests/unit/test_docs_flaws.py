"""docs/security.md: each row about a flaw of Kafka names tests that exist, and the samples work with Kafka too."""

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


def test_the_login_modules_of_the_samples_name_their_listener() -> None:
    """Apache Kafka does not start with a login module that belongs to no listener."""
    samples = re.findall(r"^```\w*\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    of_brokers = [
        sample for sample in samples if re.search(r"^(listeners|sasl\.enabled)", sample, re.MULTILINE)
    ]
    assert len(of_brokers) >= 4
    for sample in of_brokers:
        assert not re.search(r"^(?!listener\.name\.)\S*sasl\.jaas\.config=", sample, re.MULTILINE), sample
