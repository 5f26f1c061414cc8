"""The salts of unknown users: the same on all nodes that share a secret, and different otherwise."""

from __future__ import annotations

from kcli.security.mechanisms.scram import MECHANISMS, ScramUsers
from kcli.security.tokens import token_hmac
from kcli.server.sasl_logins import _secret_of_salts

SHA_256 = MECHANISMS["SCRAM-SHA-256"]


def salt(shared: str | None) -> bytes:
    users = ScramUsers(lambda _name, _mechanism: None, secret=_secret_of_salts(shared))
    return users.no_credential("nobody", SHA_256).salt


def test_nodes_with_the_same_secret_give_an_unknown_user_the_same_salt() -> None:
    assert salt("a secret") == salt("a secret")
    assert salt("a secret") != salt("another secret")


def test_without_a_shared_secret_each_process_has_its_own() -> None:
    assert salt(None) != salt(None)


def test_no_token_shows_the_secret_of_the_salts() -> None:
    secret = _secret_of_salts("a secret")
    assert secret != token_hmac("a secret", "kcli: salts of unknown users of SCRAM")
