"""What a browser can do on the console, read from its code, and what a page has done in a test.

A *step* is one of these texts. A star stands for anything.

- `GET /topics/*`, `POST /acls`: a route of the API. A POST counts only if it was sent with and without a preview.
- `page topics/*/configs`: an address behind `#/CLUSTER/`, to which the menu or a link leads.
- `button Add ACLs`: a button, by its text or its `aria-label`.
- `dialog Add ACLs`: a dialog, by its title. It counts only if axe has looked at it (`console_axe.py`).

A browser test declares its steps with the marker `walks`, and fails if it has not taken them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kcli.console.console import STATIC
from kcli.console.pages import PAGES
from kcli.console.routes import Change

walks = pytest.mark.walks
"""The marker by which a browser test declares its steps."""

SESSION = ("GET /session", "POST /session/login", "POST /session/logout")
"""The routes that belong to no cluster. They have no preview."""

LISTENER = """
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button");
  if (button) window.pressed(button.getAttribute("aria-label") ?? button.textContent);
}, true);
"""
"""Reports each press of a button, also by the keyboard."""

_BUTTON = re.compile(r'h\(\s*"button",')
_LABEL = re.compile(r"\"aria-label\": (\"[^\"]*\"|`[^`]*`)")
_TEXT = re.compile(r"\"[^\"]*\"|`[^`]*`")
_ARGUMENT = r"\s*((?:[^,`\"]|\"[^\"]*\"|`[^`]*`)*),"
_TITLE = re.compile(rf"openDialog\({_ARGUMENT}|actionDialog\(.*?title:{_ARGUMENT}", re.DOTALL)
_COMMENT = re.compile(r"/\*\*.*?\*/", re.DOTALL)
_HREF = re.compile(r"context\.href\(\[([^\]]*)\]")
_API = re.compile(r"/api(?:/clusters/[^/]+)?(/.*)")


def all_steps() -> set[str]:
    """Every step that the code of the console offers."""
    return {*routes(), *places(), *buttons(), *dialogs()}


def routes() -> Iterator[str]:
    """The routes of the API."""
    yield from SESSION
    for page in PAGES:
        for route in page:
            method = "POST" if isinstance(route, Change) else "GET"
            yield f"{method} {re.sub(r'{[^}]*}', '*', route.path)}"


def places() -> Iterator[str]:
    """The addresses of the menu and of all links."""
    for script in (STATIC / "pages").glob("*.js"):
        for path in re.findall(r'^  path: "([^"]*)"', script.read_text(encoding="utf-8"), re.MULTILINE):
            parts = ["*" if part.startswith(":") else part for part in path.split("/") if part != "*"]
            yield f"page {'/'.join(parts)}"
    for text in _scripts():
        for found in _HREF.findall(text):
            parts = [part.strip() for part in found.split(",")]
            yield "page " + "/".join(part[1:-1] if part.startswith('"') else "*" for part in parts)


def buttons() -> Iterator[str]:
    """The buttons whose text is in the code."""
    for text in _scripts():
        for found in _BUTTON.finditer(text):
            call = _balanced(text, found.start() + 1)
            properties = _balanced(call, call.index("{")) if "{" in call else ""
            label = _LABEL.search(properties)
            rest = re.sub(r'icon\("[^"]*"\)', "", call.partition(properties)[2])
            words = [label.group(1)] if label else _TEXT.findall(rest)
            if words and words[-1][1:-1]:
                yield f"button {re.sub(r'[$]{[^}]*}', '*', words[-1][1:-1])}"


def dialogs() -> Iterator[str]:
    """The titles of the dialogs. A call may choose one of several titles."""
    for text in _scripts():
        for found in _TITLE.finditer(_COMMENT.sub("", text)):
            for words in _TEXT.findall(found.group(1) or found.group(2) or ""):
                yield f"dialog {re.sub(r'[$]{[^}]*}', '*', words[1:-1])}"


def declared(folder: Path) -> dict[str, set[str]]:
    """The steps that the tests in a folder declare, each with the names of its tests or tables."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.glob("test_*.py")):
        for top in ast.parse(path.read_text(encoding="utf-8")).body:
            for call in ast.walk(top):
                if isinstance(call, ast.Call) and _name(call.func) == "walks":
                    for step in call.args:
                        assert isinstance(step, ast.Constant), "a step is a literal text"
                        found.setdefault(str(step.value), set()).add(
                            f"{path.stem}:{getattr(top, 'name', '')}"
                        )
    return found


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


class Walk:
    """The steps of one test."""

    def __init__(self) -> None:
        self._done: set[str] = set()
        self._previews: set[str] = set()

    def pressed(self, label: str) -> None:
        self._done.add(f"button {label.strip()}")

    def judged(self, title: str) -> None:
        """Notes a dialog that axe has looked at."""
        self._done.add(f"dialog {title}")

    def went(self, url: str) -> None:
        """Notes an address of a page."""
        parts = urlsplit(url).fragment.partition("?")[0].split("/")[2:]
        self._done.add(f"page {'/'.join(parts)}")

    def asked(self, method: str, url: str, body: str | None) -> None:
        """Notes a request."""
        found = _API.search(urlsplit(url).path)
        if found is None:
            return
        step = f"{method} {found.group(1)}"
        is_preview = body is not None and json.loads(body).get("preview") is True
        (self._previews if is_preview else self._done).add(step)

    def missing(self, steps: Iterable[str]) -> list[str]:
        """The steps that were not taken."""
        return [step for step in steps if not self._has_taken(step)]

    def _has_taken(self, step: str) -> bool:
        kind = step.partition(" ")[0]
        some = "[^/]+" if kind in ("GET", "POST", "page") else ".*"
        pattern = re.compile(some.join(map(re.escape, step.split("*"))), re.DOTALL)
        needs_preview = kind == "POST" and step not in SESSION
        done = any(pattern.fullmatch(each) for each in self._done)
        return done and (not needs_preview or any(pattern.fullmatch(each) for each in self._previews))


def _scripts() -> Iterator[str]:
    for script in sorted(STATIC.rglob("*.js")):
        yield script.read_text(encoding="utf-8")


def _balanced(text: str, start: int) -> str:
    """The text from an opening bracket to its partner."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "({") - (text[at] in ")}")
        if depth == 0:
            return text[start : at + 1]
    raise AssertionError(f"no end of {text[start : start + 40]!r}")
