"""Rules of the tests themselves: no test imports another test, rigs have users, and names of tests are plain."""

from __future__ import annotations

import ast
import re
from functools import cache
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
            re.search(rf"from {rig} import|from rigs import .*\b{rig[5:]}\b", text)
            for path, text in texts
            if path.stem != rig[5:]
        )
    }
    assert unused == set()


NOT_PLAIN = re.compile(
    r"test_\w*_(?:told|said|anew|nobody|somebody|whoever|otherwise|is_none|are_none)(?:_\w*)?"
    r"|test_(?:who|what)(?:ever)?_\w*"
)
"""Say reported, returned, again, no client, invalid or missing. Begin with a noun, not with who or what."""


@cache
def names_of_tests() -> list[tuple[str, str]]:
    """The file and the name of every test function, methods included."""
    return [
        (str(path.relative_to(TESTS)), node.name)
        for path in sorted(TESTS.rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]


def test_names_of_tests_use_plain_words() -> None:
    assert [(path, name) for path, name in names_of_tests() if NOT_PLAIN.fullmatch(name)] == []


def test_names_of_tests_have_three_words_or_more() -> None:
    """A rule has a subject, a verb and an object. The rules of `test_scenario` are in its text files."""
    names = names_of_tests()
    assert len(names) > 4_000
    assert [(path, name) for path, name in names if name.count("_") < 3 and name != "test_scenario"] == []
