"""The logins of URLs are hidden, in a time that grows only with the length of the text."""

from __future__ import annotations

import pytest

from kcli.model.secret_text import logins, without_logins


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no URL at all", "no URL at all"),
        ("http://host:9/a", "http://host:9/a"),
        ("http://u:p@host and https://v:w@other/x", "http://***@host and https://***@other/x"),
        ("http://u:p/a@b@host/x", "http://***@host/x"),
        ("http://u:it's\"me@host", "http://***@host"),
        ("://@", "://***@"),
        ("a@b://c", "a@b://c"),
    ],
)
def test_a_login_ends_at_the_last_at_sign_of_its_url(text: str, shown: str) -> None:
    assert without_logins(text) == shown


def test_each_character_belongs_to_at_most_one_url() -> None:
    """A text of many schemes without a login was once searched again from each of them."""
    text = "://" * 10_000
    assert list(logins(text)) == []
    assert list(logins(text + "@")) == [(3, len(text))]
