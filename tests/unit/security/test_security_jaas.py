"""The options in the text of sasl.jaas.config."""

from __future__ import annotations

import pytest

from kcli.security.jaas import login_options

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", {}),
        ('username="a b" password=secret;', {"username": "a b", "password": "secret"}),
        ('username = "alice"\n  password = "x";', {"username": "alice", "password": "x"}),
        (r'password="sec\"ret\\" username="a";', {"password": 'sec"ret\\', "username": "a"}),
        ('username="" password="";', {"username": "", "password": ""}),
        ('password="username=x; y" username="a";', {"password": "username=x; y", "username": "a"}),
        ('user_alice="a" user_bob="b";', {"user_alice": "a", "user_bob": "b"}),
        ('my.username="other" username="a";', {"my.username": "other", "username": "a"}),
        ('username="a" username="b";', {"username": "b"}),
    ],
)
def test_options_are_found_by_name(options: str, found: dict[str, str]) -> None:
    assert login_options(f"{MODULE} {options}") == found
