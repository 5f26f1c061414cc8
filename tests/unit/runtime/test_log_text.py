"""Texts of clients stay on one line of the log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.runtime.log_text import one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a b é 漢", "a b é 漢"),
        ("a\nb\r\t\x1b\x7f", r"a\x0ab\x0d\x09\x1b\x7f"),
        ("a\x85b\u2028\u2029\u202e\u2066", r"a\x85b\u2028\u2029\u202e\u2066"),
        ("\U000e0001\udc80", r"\U000e0001\udc80"),
    ],
)
def test_characters_that_are_not_printable_are_escaped(text: str, line: str) -> None:
    assert one_line(text) == line


@given(st.text())
def test_every_text_becomes_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert len(line.splitlines()) <= 1
