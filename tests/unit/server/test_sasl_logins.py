"""Unknown users of SCRAM: they look like known users, and are the same on all nodes and after a restart."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from kcli.metadata.image import MetadataImage, ScramCredential, ScramKey
from kcli.security.mechanisms.scram import MECHANISMS, new_salt
from kcli.security.mechanisms.scram_decoys import form_of
from kcli.security.tokens import decoy_secret, token_hmac
from kcli.server.logins.sasl_logins import UserDecoys

SHA_256 = MECHANISMS["SCRAM-SHA-256"]
UNKNOWN = [f"unknown-{number}" for number in range(400)]


def credential(salt: bytes, iterations: int = 4096, key: bytes = b"k") -> ScramCredential:
    return ScramCredential(salt, b"stored", key, iterations)


def image(*users: ScramCredential) -> MetadataImage:
    scram = {ScramKey(f"user-{nth}", SHA_256.number): each for nth, each in enumerate(users)}
    return dataclasses.replace(MetadataImage(), scram=scram)


def unknown(found: MetadataImage, secret: bytes | None = b"secret", name: str = "nobody") -> ScramCredential:
    decoys = UserDecoys(lambda: found, secret)(SHA_256)
    return decoys.credential(name, SHA_256.name, SHA_256.hash_name)


MIXED = image(
    *(credential(new_salt()) for _ in range(4)),  # by Kafka's and kcli's tools
    *(credential(new_salt(), 8192) for _ in range(2)),
    credential(bytes(range(200, 220))),  # by a client that makes other salts
    credential(b"0123456789abcdef0123456789abcdef" * 2, 16384),
)


def test_unknown_users_have_the_forms_of_known_users_in_about_their_numbers() -> None:
    forms = Counter(form_of(unknown(MIXED, name=name)) for name in UNKNOWN)
    known = Counter(form_of(each) for each in MIXED.scram.values())
    assert set(forms) == set(known)
    for form, count in known.items():
        share = len(UNKNOWN) * count / len(MIXED.scram)
        assert share / 2 < forms[form] < share * 2


def test_without_users_the_form_is_that_of_a_new_user() -> None:
    for name in UNKNOWN:
        found = unknown(image(), name=name)
        assert found.iterations == 4096
        assert found.salt.isalnum() and found.salt.islower() and 20 <= len(found.salt) <= 26


def test_new_salts_have_the_form_of_kafkas_tools() -> None:
    assert {form_of(credential(new_salt())) for _ in range(200)} == {form_of(unknown(image()))}


@pytest.mark.parametrize("secret", [b"secret", None])
def test_nodes_and_restarts_give_an_unknown_user_the_same_credential(secret: bytes | None) -> None:
    assert unknown(MIXED, secret) == unknown(MIXED, secret)
    reordered = dataclasses.replace(MIXED, scram=dict(reversed(list(MIXED.scram.items()))))
    assert unknown(reordered, secret) == unknown(MIXED, secret), (
        "the order of the users differs between nodes"
    )
    assert unknown(MIXED, secret).salt != unknown(MIXED, secret, "another").salt


def test_without_a_secret_of_the_cluster_the_salts_depend_on_keys_that_no_client_has() -> None:
    one, other = image(credential(b"salt", key=b"a")), image(credential(b"salt", key=b"b"))
    assert unknown(one, None).salt != unknown(other, None).salt
    assert unknown(image(), None).salt != unknown(image(), None).salt, (
        "there is nothing to hide without users"
    )


def test_a_new_user_changes_the_forms_at_the_next_login() -> None:
    now = [image()]
    decoys = UserDecoys(lambda: now[0], b"secret")
    assert decoys(SHA_256).credential("x", SHA_256.name, SHA_256.hash_name).iterations == 4096
    now[0] = image(credential(new_salt(), 8192))
    assert decoys(SHA_256).credential("x", SHA_256.name, SHA_256.hash_name).iterations == 8192


def test_no_token_shows_the_secret_of_the_salts() -> None:
    assert decoy_secret("a secret") != token_hmac("a secret", "kcli: salts of unknown users of SCRAM")
