"""SCRAM credentials: which may be stored, how they are described, and that no secret is in a message."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.controller.api import ALTER_USER_SCRAM_CREDENTIALS
from kcli.controller.scram import describe_user_scram_credentials
from kcli.errors import ErrorCode
from kcli.metadata.image import ScramKey
from kcli.model.pace import at_once, no_pause
from kcli.protocol.messages import alter_user_scram_credentials as au
from kcli.protocol.messages import describe_user_scram_credentials as du
from kcli.protocol.records.metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from kcli.security.mechanisms.scram import MECHANISMS, salted_password, server_keys
from rigs.controller import FEATURES, ControllerRig

SHA_256, SHA_512 = 1, 2
SALTED = b"salted password!"


@pytest.fixture
def rig() -> ControllerRig:
    return ControllerRig()


def upsertion(
    user: str = "alice", mechanism: int = SHA_256, iterations: int = 4096
) -> au.ScramCredentialUpsertion:
    return au.ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=SALTED
    )


def deletion(user: str = "alice", mechanism: int = SHA_256) -> au.ScramCredentialDeletion:
    return au.ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(
    rig: ControllerRig, *changes: au.ScramCredentialDeletion | au.ScramCredentialUpsertion
) -> tuple[Any, ...]:
    """{user: (error name, message)}, records; the records are replayed."""
    request = au.AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in changes if isinstance(each, au.ScramCredentialDeletion)),
        upsertions=tuple(each for each in changes if isinstance(each, au.ScramCredentialUpsertion)),
    )
    decision = rig.decide(ALTER_USER_SCRAM_CREDENTIALS, request)
    results = rig.obey(decision).results
    assert SALTED.decode() not in repr(results)
    return {each.user: (each.error_code.name, each.error_message) for each in results}, decision.records


def describe(rig: ControllerRig, *users: str) -> tuple[du.DescribeUserScramCredentialsResult, ...]:
    request = du.DescribeUserScramCredentialsRequest(
        users=tuple(du.UserName(name=user) for user in users) or None
    )
    return at_once(describe_user_scram_credentials(rig.image, request, no_pause)).results


def test_the_record_has_the_keys_of_the_server_and_not_the_salted_password(rig: ControllerRig) -> None:
    results, (record,) = alter(rig, upsertion(iterations=8192))
    assert results == {"alice": ("NONE", None)}
    assert isinstance(record, UserScramCredentialRecord)
    keys = server_keys(MECHANISMS["SCRAM-SHA-256"], SALTED)
    assert (record.stored_key, record.server_key) == (keys.stored_key, keys.server_key)
    assert (record.salt, record.iterations) == (b"salt", 8192)
    assert rig.image.scram[ScramKey("alice", SHA_256)].iterations == 8192
    assert SALTED not in (record.stored_key, record.server_key)
    salted = salted_password(MECHANISMS["SCRAM-SHA-256"], b"pw", b"salt", 4096)
    assert len(salted) == 32


def test_a_deletion_removes_only_the_credential_of_its_mechanism(rig: ControllerRig) -> None:
    alter(rig, upsertion())
    alter(rig, upsertion(mechanism=SHA_512))
    results, records = alter(rig, deletion())
    assert results == {"alice": ("NONE", None)}
    assert records == (RemoveUserScramCredentialRecord(name="alice", mechanism=SHA_256),)
    assert list(rig.image.scram) == [ScramKey("alice", SHA_512)]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ([deletion()], "RESOURCE_NOT_FOUND", "Attempt to delete a user credential that does not exist"),
        ([upsertion("")], "UNACCEPTABLE_CREDENTIAL", "Username must not be empty"),
        ([upsertion(iterations=4095)], "UNACCEPTABLE_CREDENTIAL", "Too few iterations"),
        ([upsertion(iterations=16385)], "UNACCEPTABLE_CREDENTIAL", "Too many iterations"),
        ([upsertion(mechanism=3)], "UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism"),
        ([deletion(mechanism=0)], "UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism"),
        (
            [upsertion(), upsertion(mechanism=SHA_512)],
            "DUPLICATE_RESOURCE",
            "A user credential cannot be altered twice in the same request",
        ),
    ],
)
def test_invalid_credentials_are_refused(
    rig: ControllerRig, changes: list[Any], error: str, message: str
) -> None:
    results, records = alter(rig, *changes, upsertion("bob"))
    assert results[changes[0].name] == (error, message)
    # The other users are not affected.
    assert results["bob"] == ("NONE", None)
    assert [record.name for record in records] == ["bob"]


def test_the_first_error_of_a_user_is_returned(rig: ControllerRig) -> None:
    results, records = alter(rig, deletion(), upsertion(), upsertion(mechanism=SHA_512))
    assert results["alice"][0] == "RESOURCE_NOT_FOUND"
    assert records == ()


def test_an_old_metadata_version_has_no_place_for_credentials() -> None:
    rig = ControllerRig({**FEATURES, "metadata.version": 10, "transaction.version": 0, "group.version": 0})
    results, records = alter(rig, upsertion())
    assert results["alice"] == (
        "UNSUPPORTED_VERSION",
        "The current metadata version does not support SCRAM",
    )
    assert records == ()


def test_describing_tells_mechanisms_and_iterations(rig: ControllerRig) -> None:
    alter(rig, upsertion("alice"), upsertion("bob", iterations=16384))
    alter(rig, upsertion("alice", SHA_512, 5000))
    alice, bob = sorted(describe(rig), key=lambda each: each.user)
    assert [(info.mechanism, info.iterations) for info in alice.credential_infos] == [(1, 4096), (2, 5000)]
    assert [(info.mechanism, info.iterations) for info in bob.credential_infos] == [(1, 16384)]
    (only,) = describe(rig, "bob")
    assert only == bob


def test_missing_and_repeated_users_are_errors_of_describe(rig: ControllerRig) -> None:
    alter(rig, upsertion("alice"))
    told = {
        each.user: (each.error_code, each.error_message) for each in describe(rig, "nobody", "alice", "alice")
    }
    assert told == {
        "nobody": (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: nobody",
        ),
        "alice": (
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: alice",
        ),
    }
