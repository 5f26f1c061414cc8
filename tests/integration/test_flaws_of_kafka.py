"""Protections against known flaws of Kafka (docs/security.md) that no other test needs."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig
from kcli.config.properties import Properties
from kcli.errors import ErrorCode
from kcli.metadata.image import DelegationToken, ScramCredential
from kcli.model.acl import AclOperation, ResourceType
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kcli.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.wire.api import ApiKey
from kcli.security import tokens
from kcli.security.login_modules import server_module
from kcli.security.mechanisms import plain, scram
from kcli.security.mechanisms.client import Credentials
from kcli.server.requests.apis import APIS
from rigs.loops import on_a_loop
from rigs.node import connect, create, running
from rigs.rights import secured
from rigs.sasl import SASL_LISTENER, add_user, log_in

PLAIN_BATCH = bytes(encode_batch([Record(0, 1_760_000_000_000, None, b"v", ())]))
TRANSACTIONAL = bytes(
    encode_batch(
        [Record(0, 1_760_000_000_000, None, b"v", ())],
        transactional=True,
        producer_id=9999,
        producer_epoch=0,
        base_sequence=0,
    )
)


@on_a_loop
async def test_the_batch_of_each_partition_is_checked_for_a_transaction(tmp_path: Path) -> None:
    """CVE-2018-17196: a transactional batch behind a batch without a transaction needs the right too."""
    async with secured(tmp_path) as it:
        await create(it.admin, "a", partitions=2)
        await it.allow(AclOperation.WRITE, ResourceType.TOPIC, "a")
        for batches in ((PLAIN_BATCH, TRANSACTIONAL), (TRANSACTIONAL, PLAIN_BATCH)):
            data = tuple(
                PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)
            )
            request = ProduceRequest(
                acks=-1, timeout_ms=5000, topic_data=(TopicProduceData(name="a", partition_data=data),)
            )
            response = await it.alice.call(request, ApiKey.PRODUCE, 9)
            codes = {part.error_code for part in response.responses[0].partition_responses}
            assert codes == {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        data = (PartitionProduceData(index=0, records=PLAIN_BATCH + TRANSACTIONAL),)
        request = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=(TopicProduceData(name="a", partition_data=data),)
        )
        response = await it.alice.call(request, ApiKey.PRODUCE, 9)
        assert response.responses[0].partition_responses[0].error_code is not ErrorCode.NONE


@pytest.mark.parametrize("name", ["JndiLoginModule", "LdapLoginModule"])
def test_login_modules_that_call_other_servers_are_refused(name: str) -> None:
    """CVE-2023-25194: these modules of Java executed code of other servers."""
    module = f"com.sun.security.auth.module.{name}"
    settings = {
        **SASL_LISTENER,
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:1",
        "listener.name.sasl.plain.sasl.jaas.config": f"{module} required;",
    }
    with pytest.raises(ConfigError, match=f"{module} is not allowed. Update System property"):
        server_module(ListenerConfig(BrokerConfig(Properties(settings)), "SASL"), "PLAIN")


@pytest.mark.parametrize("module", [plain, scram, tokens], ids=lambda module: module.__name__)
def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """CVE-2021-38153: a comparison that ends at the first difference shows how much of a guess is right."""
    compared: list[tuple[bytes, bytes]] = []

    class Counted:
        def __getattr__(self, name: str) -> object:
            return getattr(hmac, name)

        def compare_digest(self, a: bytes, b: bytes) -> bool:
            compared.append((bytes(a), bytes(b)))
            return hmac.compare_digest(a, b)

    monkeypatch.setattr(module, "hmac", Counted())
    check: dict[ModuleType, Callable[[], None]] = {plain: _password, scram: _proof, tokens: _token}
    check[module]()
    assert compared


def _password() -> None:
    passwords = plain.Passwords({"user_alice": "secret"})
    assert passwords("alice", "secret")
    assert not passwords("alice", "guess")
    assert not passwords("bob", "secret")


def _proof() -> None:
    mechanism = scram.MECHANISMS["SCRAM-SHA-256"]
    keys = scram.server_keys(mechanism, scram.salted_password(mechanism, b"secret", b"salt", 4096))
    credential = ScramCredential(b"salt", keys.stored_key, keys.server_key, 4096)
    users = scram.ScramUsers(lambda _name, _mechanism: credential)
    for password, is_right in (("secret", True), ("guess", False)):
        client, server = (
            scram.ScramClient(mechanism, "alice", password, "nonce"),
            scram.ScramServer(mechanism, users, "its"),
        )
        assert _is_accepted(client, server) is is_right


def _is_accepted(client: scram.ScramClient, server: scram.ScramServer) -> bool:
    from kcli.security.mechanisms.server import Challenge, LoginRefused

    challenge = server.step(client.respond(b"") or b"")
    assert isinstance(challenge, Challenge)
    try:
        server.step(client.respond(challenge.token) or b"")
    except LoginRefused:
        return False
    return True


def _token() -> None:
    finder = tokens.TokenFinder("key")
    token = DelegationToken("id", "User:a", "User:a", (), 0, 1, 1)
    image = {"id": token}
    right = tokens.token_hmac("key", "id")
    assert finder.find(image, right) is token
    assert finder.find(image, bytes(len(right))) is None


def test_telemetry_of_clients_is_not_served() -> None:
    """CVE-2026-111073: PushTelemetry decompressed without a limit. It needs its own test if it is served."""
    assert ApiKey.PUSH_TELEMETRY not in APIS


@on_a_loop
async def test_no_log_shows_a_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """CVE-2026-33558 and CVE-2019-12399: neither the log, at its finest level, nor a description shows a secret."""
    caplog.set_level(logging.DEBUG)
    settings = SASL_LISTENER | {
        "delegation.token.secret.key": "token-secret",
        "ssl.keystore.password": "store-secret",
    }
    async with running(tmp_path, **settings) as node:
        await add_user(node, "carol", "scram-secret", "SCRAM-SHA-256")
        client = await connect(node, "SASL")
        login = await log_in(client, Credentials("SCRAM-SHA-256", "carol", "scram-secret"))
        assert login.error_code is ErrorCode.NONE
        created = await client.call(
            CreateDelegationTokenRequest(max_lifetime_ms=-1), ApiKey.CREATE_DELEGATION_TOKEN, 3
        )
        assert created.error_code is ErrorCode.NONE
        refused = await connect(node, "SASL")
        assert (
            await log_in(refused, Credentials("PLAIN", "bob", "a-guess"))
        ).error_code is not ErrorCode.NONE
        broker = DescribeConfigsResource(
            resource_type=4, resource_name=str(node.config.node_id), configuration_keys=None
        )
        shown = await client.call(DescribeConfigsRequest(resources=(broker,)), ApiKey.DESCRIBE_CONFIGS, 4)
    seen = caplog.text + repr(shown)
    assert caplog.records and "delegation.token.secret.key" in seen
    for secret in ("token-secret", "store-secret", "scram-secret", "bob-secret", "a-guess"):
        assert secret not in seen
    for secret in (created.hmac, *(key.stored_key for key in node.metadata.scram.values())):
        assert secret.hex() not in seen and repr(secret) not in seen
