"""Delegation tokens from the first request to the sweep: users, renewers, logins with a token, and its end."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.tokens import DelegationToken
from kcli.client.config import ClientConfig
from kcli.errors import (
    DelegationTokenAuthorizationException,
    DelegationTokenOwnerMismatchException,
    KafkaError,
    SaslAuthenticationException,
    UnsupportedByAuthenticationException,
)
from kcli.model.addresses import Address
from kcli.security.client import ClientSecurity
from kcli.security.mechanisms.client import Credentials
from rigs.loops import until
from rigs.node import RunningNode, with_node
from rigs.sasl import ALICE, BOB, SASL_LISTENER

TOKENS = SASL_LISTENER | {
    "delegation.token.secret.key": "a secret of a test",
    "delegation.token.expiry.check.interval.ms": "100",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "false",
}
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"


@contextlib.asynccontextmanager
async def admin_of(node: RunningNode, credentials: Credentials | None) -> AsyncIterator[AdminClient]:
    listener = "PLAINTEXT" if credentials is None else "SASL"
    config = ClientConfig(
        servers=(Address("127.0.0.1", node.port(listener)),),
        security=ClientSecurity(None, credentials),
    )
    async with AdminClient(config) as client:
        yield client


def of_token(token: DelegationToken, mechanism: str = "SCRAM-SHA-256") -> Credentials:
    return Credentials(mechanism, token.token_id, base64.b64encode(token.hmac).decode(), is_token=True)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_logs_in_as_its_owner_but_may_not_ask_for_tokens(tmp_path: Path, mechanism: str) -> None:
    async def story(node: RunningNode) -> None:
        async with admin_of(node, ALICE) as alice:
            token = await alice.create_delegation_token(renewers=[("User", "bob")])
            assert (token.owner, token.requester) == ("User:alice", "User:alice")
            assert [each.token_id for each in await alice.describe_delegation_tokens()] == [token.token_id]
        async with admin_of(node, of_token(token, mechanism)) as by_token:
            await by_token.list_topics()
            names = {each.session.principal.name for each in node.sockets.connections}
            assert "alice" in names
            with pytest.raises(UnsupportedByAuthenticationException):
                await by_token.create_delegation_token()
            with pytest.raises(UnsupportedByAuthenticationException):
                await by_token.describe_delegation_tokens()

    with_node(tmp_path, story, **TOKENS)


def test_renewers_renew_and_strangers_do_not(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        async with admin_of(node, ALICE) as alice, admin_of(node, BOB) as bob:
            token = await alice.create_delegation_token(renewers=[("User", "bob")])
            assert await bob.renew_delegation_token(token.hmac, 60_000) < token.expiry_timestamp_ms
            own = await bob.create_delegation_token()
            with pytest.raises(DelegationTokenOwnerMismatchException):
                await alice.expire_delegation_token(own.hmac)
            with pytest.raises(DelegationTokenAuthorizationException):
                await alice.create_delegation_token(owner=("User", "bob"))
            await bob.expire_delegation_token(own.hmac)
            assert [each.token_id for each in await bob.describe_delegation_tokens()] == [token.token_id]

    with_node(tmp_path, story, **TOKENS)


def test_an_expired_token_is_swept_and_cannot_log_in(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        async with admin_of(node, ALICE) as alice:
            token = await alice.create_delegation_token(max_lifetime_ms=1)
        await until(lambda: not node.metadata.delegation_tokens)
        async with admin_of(node, of_token(token)) as by_token:
            with pytest.raises(SaslAuthenticationException) as error:
                await by_token.list_topics()
            assert error.value.message == GENERIC.format("SCRAM-SHA-256")

    with_node(tmp_path, story, **TOKENS)


@pytest.mark.parametrize("is_token", [True, False])
def test_a_wrong_hmac_and_a_missing_tokenauth_are_refused_alike(tmp_path: Path, is_token: bool) -> None:
    async def story(node: RunningNode) -> None:
        async with admin_of(node, ALICE) as alice:
            token = await alice.create_delegation_token()
        right = of_token(token)
        password = "AAAA" if is_token else right.password
        wrong = Credentials(right.mechanism, right.username, password, is_token)
        async with admin_of(node, wrong) as client:
            with pytest.raises(SaslAuthenticationException) as error:
                await client.list_topics()
            assert error.value.message == GENERIC.format("SCRAM-SHA-256")

    with_node(tmp_path, story, **TOKENS)


def test_the_session_of_a_token_ends_with_the_token(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        async with admin_of(node, ALICE) as alice:
            token = await alice.create_delegation_token(max_lifetime_ms=2_500)
        async with admin_of(node, of_token(token)) as by_token:
            await by_token.list_topics()
            sessions = [
                each.session
                for each in node.sockets.connections
                if each.session.principal.token_authenticated
            ]
            assert sessions and all(each.expires_at is not None for each in sessions)
            await until(lambda: not node.metadata.delegation_tokens)
            with pytest.raises(KafkaError):
                await by_token.list_topics()

    with_node(tmp_path, story, **TOKENS)


def test_a_plaintext_client_gets_no_token(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        async with admin_of(node, None) as anonymous:
            with pytest.raises(UnsupportedByAuthenticationException):
                await anonymous.create_delegation_token()

    with_node(tmp_path, story, **TOKENS)


def test_tokens_survive_a_restart(tmp_path: Path) -> None:
    made: list[DelegationToken] = []

    async def first(node: RunningNode) -> None:
        async with admin_of(node, ALICE) as alice:
            made.append(await alice.create_delegation_token())

    async def second(node: RunningNode) -> None:
        async with admin_of(node, of_token(made[0])) as by_token:
            await by_token.list_topics()

    with_node(tmp_path, first, **TOKENS)
    with_node(tmp_path, second, **TOKENS)
