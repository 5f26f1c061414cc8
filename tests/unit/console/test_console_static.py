"""The files of the pages: what no file may contain, and that every file is used."""

from __future__ import annotations

import re

import pytest

from kcli.console.console import STATIC

SCRIPTS = sorted(STATIC.rglob("*.js"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(STATIC)))
def test_no_script_makes_elements_from_text(path) -> None:  # type: ignore[no-untyped-def]
    text = path.read_text(encoding="utf-8")
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
    ):
        assert forbidden not in text, forbidden
    assert not re.search(r"\bstyle: \"", text), (
        "the policy refuses style attributes: use a class or element.style"
    )
    assert not re.search(r"https?://(?!www\.w3\.org/)", text), "nothing comes from elsewhere"


def test_the_page_has_no_inline_script_or_style() -> None:
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    assert "style=" not in text and "<style" not in text and " on" not in re.sub(r"<!--.*?-->", "", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


def test_every_import_exists_and_every_script_is_imported() -> None:
    imported = {STATIC / "app.js", STATIC / "parts/theme.js"}
    for path in SCRIPTS:
        for name in re.findall(r"""from "(\.[^"]+)";""", path.read_text(encoding="utf-8")):
            target = (path.parent / name).resolve()
            assert target.is_file(), f"{path.name} imports {name}"
            imported.add(target)
    assert {path.resolve() for path in SCRIPTS} == {path.resolve() for path in imported}
