"""The users of an HTTP server: which Authorization headers are accepted."""

from __future__ import annotations

import base64

import pytest

from kcli.http.logins import Logins, user_of

USERS = Logins({"ann": "se:cret", "bob": "pässword"})


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        (basic("ann:se:cret"), True),
        (basic("bob:pässword"), True),
        (basic("ann:se:cret").replace("Basic", "bAsIc"), True),
        (basic("ann:wrong"), False),
        (basic("ann:"), False),
        (basic("ann"), False),
        (basic("eve:se:cret"), False),
        (basic(":"), False),
        (basic(""), False),
        (None, False),
        ("", False),
        ("Basic", False),
        ("Basic !!!", False),
        ("Bearer " + basic("ann:se:cret")[6:], False),
        (basic("ann:" + "x" * 5000), False),
    ],
)
def test_only_the_right_password_of_a_user_is_accepted(header: str | None, accepted: bool) -> None:
    assert USERS.accepts(header) is accepted


def test_passwords_are_not_shown() -> None:
    assert repr(USERS) == "Logins(2 users)"


def test_a_login_may_be_compared_in_another_way_and_be_needed_only_somewhere() -> None:
    logins = Logins(
        {"ann": "DIGEST"},
        matches=lambda stored, sent: stored.lower() == sent,
        are_needed=lambda method, path: method != "OPTIONS" and path != "/health",
    )
    header = f"Basic {base64.b64encode(b'ann:digest').decode()}"
    assert logins.accepts(header)
    assert user_of(header) == "ann"
    assert (user_of(None), user_of("Basic ?")) == ("", "")
    assert not logins.are_needed("OPTIONS", "/") and not logins.are_needed("GET", "/health")
    assert logins.are_needed("GET", "/")
