"""The lists of rooms in docs/architecture.md are the orders that lint-imports checks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"(?:[\w.]+/?)(?: \| [\w.]+/?)*(?=  |$)")
"""The rooms at the start of a line. Two spaces separate them from their descriptions."""


@pytest.mark.parametrize(
    ("container", "first"),
    [
        ("kcli", "  testing/"),
        ("kcli.server", "main.py"),
        ("kcli.connect", "program.py"),
        ("kcli.registry", "program.py                   a registry"),
    ],
)
def test_the_list_of_rooms_is_the_contract(container: str, first: str) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    [layers] = [each["layers"] for each in contracts["contracts"] if each.get("containers") == [container]]
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    assert listed(page, first) == layers


def listed(page: str, first: str) -> list[str]:
    """Returns the rows of the list that begins with the line `first`, without descriptions and suffixes."""
    indent = len(first) - len(first.lstrip())
    block = page[page.index(f"\n{first}") + 1 :].partition("```")[0]
    rows = [match[0] for line in block.splitlines() if (match := ROW.match(line[indent:]))]
    return [re.sub(r"\.py\b|/", "", row) for row in rows]


def test_a_row_ends_at_its_description() -> None:
    page = "```\n  a.py    text | text\n  b/ | c/\n          text | text\n  d/  text\n```\n  e/\n"
    assert listed(page, "  a.py") == ["a", "b | c", "d"]


@pytest.mark.parametrize(
    ("library", "owner"),
    [("opentelemetry", "kcli.tracing.otlp"), ("aiohttp", "kcli.http")],
)
def test_a_library_is_forbidden_to_every_room_but_one(library: str, owner: str) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    [contract] = [each for each in contracts["contracts"] if library in each.get("forbidden_modules", ())]
    assert contract["source_modules"] == ["kcli"]
    assert {ignored.split(" -> ")[0].removesuffix(".**") for ignored in contract["ignore_imports"]} == {owner}
