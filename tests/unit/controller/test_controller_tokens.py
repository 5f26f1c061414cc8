"""Delegation tokens: the decisions of the controller, and the sweep of expired tokens."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.controller import tokens as module
from kcli.controller.api import (
    CREATE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
    Client,
)
from kcli.controller.settings import TokenSettings
from kcli.controller.tokens import remove_expired_tokens
from kcli.errors import (
    DelegationTokenDisabledException,
    DelegationTokenExpiredException,
    DelegationTokenNotFoundException,
    DelegationTokenOwnerMismatchException,
    InvalidPrincipalTypeException,
    KafkaError,
    UnsupportedVersionException,
)
from kcli.protocol.messages import create_delegation_token as ct
from kcli.protocol.messages import expire_delegation_token as et
from kcli.protocol.messages import renew_delegation_token as rt
from kcli.protocol.records.metadata import DelegationTokenRecord, RemoveDelegationTokenRecord
from kcli.security.principal import Principal
from kcli.security.tokens import token_hmac
from rigs.controller import FEATURES, ControllerRig

SECRET = "a secret"
NOW, LIFE, RENEWAL = 1_000_000, 10_000, 4_000


@pytest.fixture
def rig() -> ControllerRig:
    return ControllerRig(tokens=TokenSettings(SECRET, max_lifetime_ms=LIFE, renewal_ms=RENEWAL))


def ask(rig: ControllerRig, api: Any, request: Any, user: str = "alice", now: int = NOW) -> Any:
    client = Client(Principal("User", user), "127.0.0.1", None)
    decision = rig.decide(api, request, client=client, wall_ms=now)
    return rig.obey(decision), decision.records


def create(rig: ControllerRig, user: str = "alice", now: int = NOW, **fields: Any) -> Any:
    return ask(rig, CREATE_DELEGATION_TOKEN, ct.CreateDelegationTokenRequest(**fields), user, now)[0]


def renew(rig: ControllerRig, hmac: bytes, period: int = -1, user: str = "alice", now: int = NOW) -> int:
    request = rt.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period)
    return ask(rig, RENEW_DELEGATION_TOKEN, request, user, now)[0].expiry_timestamp_ms


def expire(rig: ControllerRig, hmac: bytes, period: int = -1, user: str = "alice", now: int = NOW) -> int:
    request = et.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period)
    return ask(rig, EXPIRE_DELEGATION_TOKEN, request, user, now)[0].expiry_timestamp_ms


def user(name: str) -> ct.CreatableRenewers:
    return ct.CreatableRenewers(principal_type="User", principal_name=name)


@pytest.mark.parametrize(
    ("asked", "life", "expiry"),
    [(-1, LIFE, RENEWAL), (0, LIFE, RENEWAL), (5_000, 5_000, RENEWAL), (1, 1, 1), (99_999, LIFE, RENEWAL)],
)
def test_the_life_of_a_token_is_the_asked_time_up_to_the_limit(
    rig: ControllerRig, asked: int, life: int, expiry: int
) -> None:
    token = create(rig, max_lifetime_ms=asked)
    assert (token.issue_timestamp_ms, token.max_timestamp_ms) == (NOW, NOW + life)
    assert token.expiry_timestamp_ms == NOW + expiry


def test_the_record_has_no_hmac(rig: ControllerRig) -> None:
    request = ct.CreateDelegationTokenRequest(renewers=(user("bob"),), max_lifetime_ms=-1)
    token, records = ask(rig, CREATE_DELEGATION_TOKEN, request)
    assert records == (
        DelegationTokenRecord(
            owner="User:alice",
            requester="User:alice",
            renewers=("User:bob",),
            issue_timestamp=NOW,
            max_timestamp=NOW + LIFE,
            expiration_timestamp=NOW + RENEWAL,
            token_id=token.token_id,
        ),
    )
    assert token.hmac == token_hmac(SECRET, token.token_id)
    assert len(token.token_id) == 22
    assert SECRET not in repr(rig.settings)


def test_a_token_may_have_another_owner(rig: ControllerRig) -> None:
    token = create(rig, owner_principal_type="User", owner_principal_name="carol", max_lifetime_ms=-1)
    assert (token.principal_name, token.token_requester_principal_name) == ("carol", "alice")
    assert rig.image.delegation_tokens[token.token_id].owner == "User:carol"
    with pytest.raises(DelegationTokenOwnerMismatchException):
        renew(rig, token.hmac, user="alice")
    assert renew(rig, token.hmac, user="carol") == NOW + RENEWAL


def test_a_renewer_must_be_a_user(rig: ControllerRig) -> None:
    group = ct.CreatableRenewers(principal_type="Group", principal_name="g")
    with pytest.raises(InvalidPrincipalTypeException):
        create(rig, renewers=(user("bob"), group))


def test_a_principal_of_a_token_needs_a_name_and_a_type(rig: ControllerRig) -> None:
    with pytest.raises(InvalidPrincipalTypeException):
        create(rig, renewers=(user("bob"), user("")))
    for kind in ("", None):
        with pytest.raises(InvalidPrincipalTypeException):
            create(rig, owner_principal_type=kind, owner_principal_name="carol")
    assert not rig.image.delegation_tokens


def test_a_renewal_never_exceeds_the_maximal_life(rig: ControllerRig) -> None:
    token = create(rig, renewers=(user("bob"),), max_lifetime_ms=-1)
    assert renew(rig, token.hmac, 100, user="bob") == NOW + 100
    assert renew(rig, token.hmac, 9_000) == NOW + RENEWAL
    assert renew(rig, token.hmac, now=NOW + 3_900) == NOW + 3_900 + RENEWAL
    assert renew(rig, token.hmac, now=NOW + 7_900) == NOW + LIFE
    assert rig.image.delegation_tokens[token.token_id].expiration_timestamp_ms == NOW + LIFE


def test_a_negative_period_removes_a_token_and_another_one_moves_its_expiry(rig: ControllerRig) -> None:
    token = create(rig, max_lifetime_ms=-1)
    assert expire(rig, token.hmac, 50) == NOW + 50
    assert expire(rig, token.hmac, 99_999) == NOW + LIFE
    assert expire(rig, token.hmac, -1, now=NOW + 7) == NOW + 7
    assert token.token_id not in rig.image.delegation_tokens
    with pytest.raises(DelegationTokenNotFoundException):
        expire(rig, token.hmac)


@pytest.mark.parametrize(
    ("change", "who", "late", "expected"),
    [
        (renew, "alice", True, DelegationTokenExpiredException),
        (renew, "carol", True, DelegationTokenExpiredException),
        (renew, "carol", False, DelegationTokenOwnerMismatchException),
        (expire, "carol", True, DelegationTokenOwnerMismatchException),
    ],
)
def test_renew_looks_at_the_expiry_first_and_expire_at_the_client(
    rig: ControllerRig, change: Any, who: str, late: bool, expected: type[KafkaError]
) -> None:
    token = create(rig, max_lifetime_ms=-1)
    with pytest.raises(expected):
        change(rig, token.hmac, 1, user=who, now=NOW + (RENEWAL + 1 if late else 0))


def test_an_expired_token_can_still_be_removed_by_its_owner(rig: ControllerRig) -> None:
    token = create(rig, max_lifetime_ms=-1)
    with pytest.raises(DelegationTokenExpiredException):
        expire(rig, token.hmac, 1, now=NOW + LIFE)
    expire(rig, token.hmac, -1, now=NOW + LIFE)
    assert not rig.image.delegation_tokens


@pytest.mark.parametrize(
    ("settings", "version", "expected"),
    [
        (TokenSettings(), 27, DelegationTokenDisabledException),
        (TokenSettings(SECRET), 13, UnsupportedVersionException),
        (TokenSettings(SECRET), 14, None),
    ],
)
def test_tokens_need_a_secret_key_and_a_metadata_version(
    settings: TokenSettings, version: int, expected: type[KafkaError] | None
) -> None:
    rig = ControllerRig({**FEATURES, "metadata.version": version}, tokens=settings)
    if expected is None:
        assert create(rig, max_lifetime_ms=-1).token_id
        return
    with pytest.raises(expected):
        create(rig)
    with pytest.raises(expected):
        renew(rig, b"x")
    with pytest.raises(expected):
        expire(rig, b"x")


def test_the_sweep_removes_expired_tokens_a_batch_at_a_time(
    rig: ControllerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REMOVED_AT_ONCE", 2)
    short = [create(rig, max_lifetime_ms=10) for _ in range(3)]
    kept = create(rig, max_lifetime_ms=-1)
    assert remove_expired_tokens(rig.controller, NOW + 10).records == ()
    first = remove_expired_tokens(rig.controller, NOW + 11)
    assert first.records == tuple(RemoveDelegationTokenRecord(token_id=each.token_id) for each in short[:2])
    assert rig.obey(first) is True, "more tokens may have expired"
    assert rig.obey(remove_expired_tokens(rig.controller, NOW + 11)) is False
    assert list(rig.image.delegation_tokens) == [kept.token_id]
