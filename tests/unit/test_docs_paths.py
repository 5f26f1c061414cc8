"""Every file and every name of code that the pages of this project mention exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = "kcli|pyspark_kcli|tests|docs|bin|bench|config|man|\\.ci"
SUFFIXES = "py|md|sh|txt|json|toml|properties"
PATH = re.compile(rf"(?<![\w./:~-])(?:(?:{FOLDERS})/[\w./-]*|[\w/.-]+/[\w.-]+\.(?:{SUFFIXES})\b)")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
STEP = re.compile(r"([\w/]+/\w+\.py) +([A-Za-z_][\w.]*)")
"""A line of a drawing: a module and a name in it, such as `raft/node.py RaftNode.step`."""


def mentioned(text: str) -> set[str]:
    """Paths as they are written. A path with a placeholder, such as `handlers/<api>.py`, counts up to it."""
    found = set(LINK.findall(text))
    for match in PATH.finditer(text):
        path = match[0]
        if text[match.end() : match.end() + 1] in ("<", "*", "{", "…"):
            path = path.rpartition("/")[0]
        found.add(path.rstrip("./"))
    return found


def locate(path: str, page: Path) -> Path | None:
    """A path is relative to the root, to kcli/, to tests/ or to its page."""
    places = (ROOT / path, ROOT / "kcli" / path, ROOT / "tests" / path, page.parent / path)
    return next((place for place in places if place.exists()), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_exists(page: Path) -> None:
    paths = mentioned(page.read_text(encoding="utf-8"))
    assert sorted(path for path in paths if locate(path, page) is None) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_step_of_a_drawing_is_in_its_module(page: Path) -> None:
    steps = STEP.findall(page.read_text(encoding="utf-8"))
    assert [step for step in steps if not defines(locate(step[0], page), step[1])] == []


def defines(module: Path | None, name: str) -> bool:
    """Whether the module has every part of a dotted name, as a definition or an assignment."""
    source = "" if module is None else module.read_text(encoding="utf-8")
    return all(
        re.search(rf"^ *(?:async def|def|class) {part}\b|^ *{part}\b.* = ", source, re.M)
        for part in name.split(".")
    )


def test_paths_are_found_in_text_code_and_links() -> None:
    text = "See [a](adr/1.md), `kcli/storage/log/` and kcli/server/handlers/<api>.py; not https://a.org/b.py or a/b."
    assert mentioned(text) == {"adr/1.md", "kcli/storage/log", "kcli/server/handlers"}
