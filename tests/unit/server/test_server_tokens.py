"""The handlers of delegation tokens: which connections may ask, and which tokens a client may see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.config.broker import BrokerConfig
from kcli.errors import (
    DelegationTokenAuthorizationException,
    DelegationTokenDisabledException,
    ErrorCode,
    UnsupportedByAuthenticationException,
)
from kcli.metadata.image import DelegationToken
from kcli.model.acl import AclOperation, ResourceType
from kcli.model.pace import at_once
from kcli.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kcli.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kcli.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kcli.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kcli.security.authorizer import ALLOW_ALL, Asker, Resource
from kcli.security.principal import ANONYMOUS, Principal, Session
from kcli.security.tokens import token_hmac
from kcli.server.handlers import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from kcli.server.requests.context import RequestContext

SECRET = "a secret"
LISTENERS = "PLAINTEXT://:1,SSL://:2,SASL_PLAINTEXT://:3,SASL_SSL://:4,CONTROLLER://:5"
REQUESTS = (
    (create_delegation_token, CreateDelegationTokenRequest()),
    (renew_delegation_token, RenewDelegationTokenRequest()),
    (expire_delegation_token, ExpireDelegationTokenRequest()),
    (describe_delegation_token, DescribeDelegationTokenRequest(owners=None)),
)


class Allowing:
    """An authorizer with a set of (operation, resource type, name)."""

    is_open = False

    def __init__(self, *allowed: tuple[AclOperation, ResourceType, str]) -> None:
        self.allowed = allowed

    def authorize(self, _asker: Asker, operation: AclOperation, resource: Resource, **_: Any) -> bool:
        return (operation, resource.type, resource.name) in self.allowed

    def authorize_any(self, _asker: Asker, _operation: AclOperation, _type: ResourceType) -> bool:
        raise AssertionError("no handler of tokens asks for this")


class Channel:
    """The way to the controller. Notes the requests."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send(self, api: Any, request: Any, context: Any) -> Any:
        self.sent.append((api.key.name, request, context.client.principal, context.wall_ms))
        return CreateDelegationTokenResponse(token_id="t")


def node(tokens: Iterable[DelegationToken] = (), secret: str | None = SECRET) -> Any:
    texts = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": LISTENERS,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    }
    if secret is not None:
        texts["delegation.token.secret.key"] = secret
    return SimpleNamespace(
        config=BrokerConfig(texts),
        channel=Channel(),
        clock=SimpleNamespace(now_ms=lambda: 77),
        loader=SimpleNamespace(
            image=SimpleNamespace(delegation_tokens={each.token_id: each for each in tokens})
        ),
    )


def context_of(
    ports: Any,
    principal: Principal,
    listener: str = "SASL_SSL",
    *,
    forwarded: bool = False,
    authorizer: Any = ALLOW_ALL,
) -> RequestContext[Any]:
    from kcli.protocol.wire.api import ApiKey

    return RequestContext(
        ports,
        ApiKey.CREATE_DELEGATION_TOKEN,
        3,
        1,
        "c",
        listener,
        "127.0.0.1",
        Session(principal),
        is_forwarded=forwarded,
        authorizer=authorizer,
    )


def serve(module: Any, context: Any, request: Any) -> Any:
    return asyncio.run(module.handle(context, request))


ALICE = Principal("User", "alice")


@pytest.mark.parametrize(("module", "request_"), REQUESTS, ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.parametrize(
    ("principal", "listener", "forwarded", "allowed"),
    [
        (ANONYMOUS, "PLAINTEXT", False, False),
        (ANONYMOUS, "SSL", False, False),
        (Principal("User", "CN=alice"), "SSL", False, True),
        (ALICE, "SASL_PLAINTEXT", False, True),
        (ALICE, "SASL_SSL", False, True),
        (Principal("User", "alice", token_authenticated=True), "SASL_SSL", False, False),
        (ALICE, "CONTROLLER", False, False),
        (ALICE, "CONTROLLER", True, True),
        (Principal("User", "alice", token_authenticated=True), "CONTROLLER", True, False),
    ],
)
def test_only_a_client_with_a_login_but_not_by_token_may_ask(
    module: Any, request_: Any, principal: Principal, listener: str, forwarded: bool, allowed: bool
) -> None:
    ports = node()
    context = context_of(ports, principal, listener, forwarded=forwarded)
    if allowed:
        serve(module, context, request_)
        assert len(ports.channel.sent) == (module is not describe_delegation_token)
        return
    with pytest.raises(UnsupportedByAuthenticationException):
        serve(module, context, request_)
    assert not ports.channel.sent


def test_a_token_for_another_owner_needs_create_tokens_on_this_user() -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="carol")
    own = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="alice")
    denied = context_of(node(), ALICE, authorizer=Allowing())
    with pytest.raises(DelegationTokenAuthorizationException):
        serve(create_delegation_token, denied, request)
    serve(create_delegation_token, denied, own)
    allowing = Allowing((AclOperation.CREATE_TOKENS, ResourceType.USER, "User:carol"))
    ports = node()
    serve(create_delegation_token, context_of(ports, ALICE, authorizer=allowing), request)
    assert ports.channel.sent == [("CREATE_DELEGATION_TOKEN", request, ALICE, 77)]


def test_a_refused_token_names_its_owner_and_requester() -> None:
    context = context_of(node(), ANONYMOUS)
    error = UnsupportedByAuthenticationException()
    own = at_once(create_delegation_token.error_response(context, CreateDelegationTokenRequest(), error))
    assert own.error_code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (own.principal_type, own.principal_name) == ("User", "ANONYMOUS")
    asked = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="ann")
    other = at_once(create_delegation_token.error_response(context, asked, error))
    assert (other.principal_name, other.token_requester_principal_name) == ("ann", "ANONYMOUS")


def token(token_id: str, owner: str, *renewers: str, requester: str | None = None) -> DelegationToken:
    return DelegationToken(
        token_id=token_id,
        owner=f"User:{owner}",
        requester=f"User:{requester or owner}",
        renewers=tuple(f"User:{name}" for name in renewers),
        issue_timestamp_ms=1,
        max_timestamp_ms=3,
        expiration_timestamp_ms=2,
    )


TOKENS = (
    token("t1", "alice", "bob"),
    token("t2", "bob"),
    token("t3", "carol", requester="admin"),
    token("t4", "carol", "dave", "bob", requester="alice"),
)
SEES_CAROL = (AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:carol")
SEES_T2 = (AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "t2")


@pytest.mark.parametrize(
    ("who", "allowed", "owners", "seen"),
    [
        ("alice", (), None, ["t1", "t4"]),
        ("alice", (), (), []),
        ("alice", (), ("alice",), ["t1", "t4"]),
        ("bob", (), ("alice",), ["t1", "t4"]),
        ("carol", (), ("alice",), ["t4"]),
        ("eve", (), ("alice", "bob", "carol"), []),
        ("eve", (SEES_CAROL,), ("carol",), ["t3", "t4"]),
        ("dave", (SEES_T2,), ("bob",), ["t2", "t4"]),
        ("admin", (), None, ["t3"]),
    ],
)
def test_owners_renewers_requesters_and_acls_show_tokens(
    who: str, allowed: Any, owners: tuple[str, ...] | None, seen: list[str]
) -> None:
    asked = None
    if owners is not None:
        asked = tuple(
            DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners
        )
    context = context_of(node(TOKENS), Principal("User", who), authorizer=Allowing(*allowed))
    answer = serve(describe_delegation_token, context, DescribeDelegationTokenRequest(owners=asked))
    assert [each.token_id for each in answer.tokens] == seen
    assert all(each.hmac == token_hmac(SECRET, each.token_id) for each in answer.tokens)


def test_a_stored_principal_without_a_name_is_described() -> None:
    context = context_of(node((token("t1", "alice", ""),)), ALICE)
    (described,) = serve(
        describe_delegation_token, context, DescribeDelegationTokenRequest(owners=None)
    ).tokens
    assert [(each.principal_type, each.principal_name) for each in described.renewers] == [("User", "")]


def test_many_tokens_are_described_in_turns() -> None:
    many = [token(f"t{number}", "alice") for number in range(1_000)]
    answer = serve(
        describe_delegation_token, context_of(node(many), ALICE), DescribeDelegationTokenRequest(owners=None)
    )
    assert len(answer.tokens) == 1_000


def test_without_a_secret_key_there_is_nothing_to_describe() -> None:
    with pytest.raises(DelegationTokenDisabledException):
        serve(
            describe_delegation_token,
            context_of(node(TOKENS, secret=None), ALICE),
            DescribeDelegationTokenRequest(owners=None),
        )
