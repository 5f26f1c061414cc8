"""Rules of the tests themselves: no test imports another test, rigs have users, and names of tests are plain."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def imported(module: Path) -> list[str]:
    """The names of all modules that this one imports."""
    found: list[str] = []
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    return found


def test_no_test_imports_another_test() -> None:
    names = {path.stem for path in TESTS.rglob("*.py") if path.stem.startswith(("test_", "conftest"))}
    assert len(names) > 100
    wrong = [
        (str(path.relative_to(TESTS)), name)
        for path in sorted(TESTS.rglob("*.py"))
        for name in imported(path)
        if name.rpartition(".")[2] in names
    ]
    assert wrong == []


def test_every_rig_is_used_by_a_test_or_another_rig() -> None:
    rigs = {f"rigs.{path.stem}" for path in (TESTS / "rigs").glob("*.py")} - {"rigs.__init__"}
    texts = [(path, path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py")]
    unused = {
        rig
        for rig in rigs
        if not any(
            (f"from {rig} import" in text or f"from rigs import {rig[5:]}" in text)
            for path, text in texts
            if path.stem != rig[5:]
        )
    }
    assert unused == set()


NOT_PLAIN = re.compile(
    r"\bdef (test_\w*_(?:told|said|anew|nobody|somebody|whoever|is_none|are_none)(?:_\w*)?)\("
)
"""Say reported, returned, again, no client, invalid or missing."""


def test_names_of_tests_use_plain_words() -> None:
    found = [
        (str(path.relative_to(TESTS)), name)
        for path in sorted(TESTS.rglob("test_*.py"))
        if path.name != "test_tidy_prose.py"  # its names are examples in texts
        for name in NOT_PLAIN.findall(path.read_text(encoding="utf-8"))
    ]
    assert found == []
