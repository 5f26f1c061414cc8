"""Properties: what is written is read back."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from kcli.config.properties import dumps, parse

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(TEXT, TEXT, max_size=6))
def test_written_properties_are_read_unchanged(entries: dict[str, str]) -> None:
    assert dict(parse(dumps(entries, now=datetime(2026, 1, 2, tzinfo=UTC)))) == entries


@given(st.text(alphabet="ab=: \t\f\\\n\r#!u0", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except ValueError as error:
        assert "Malformed" in str(error)
