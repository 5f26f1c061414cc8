"""GSSAPI with a real Kerberos server: our client, kafka-python, wrong tickets, and garbage at each step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from kcli.config.definition import ConfigError
from kcli.errors import ErrorCode
from rigs import kerberos
from rigs.kerberos import SERVICE, Kerberos
from rigs.loops import PATIENCE_S
from rigs.node import RunningNode, connect, running
from rigs.sasl import exchange, handshake, send_token

_REASON = kerberos.why_not()
pytestmark = [pytest.mark.compat, pytest.mark.skipif(_REASON is not None, reason=_REASON or "")]

MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
LIFETIME_S = 2
SKEW_S = 1
"""The lifetime of a ticket, and the difference of clocks that Kerberos accepts."""
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    with kerberos.serving(tmp_path_factory.mktemp("kerberos")) as served:
        yield served


def settings(realm: Kerberos, **more: str) -> dict[str, str]:
    jaas = f'{MODULE} keyTab="{realm.keytab(SERVICE)}" principal="{SERVICE}";'
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl.gssapi.sasl.jaas.config": jaas,
        "connection.failed.authentication.delay.ms": "1",
    } | more


def with_node(
    directory: Path, config: dict[str, str], story: Callable[[RunningNode], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with running(directory, **config) as node:
            await asyncio.wait_for(story(node), PATIENCE_S)

    asyncio.run(main())


def names(node: RunningNode) -> set[str]:
    return {str(each.session.principal) for each in node.sockets.connections if each.session.mechanism}


def test_a_node_accepts_only_kerberos(realm: Kerberos) -> None:
    from gssapi import MechType

    from kcli.security.mechanisms.gssapi import server_credentials

    assert server_credentials(SERVICE, str(realm.keytab(SERVICE))).mechs == {MechType.kerberos}


def test_our_client_logs_in_and_rules_give_its_name(tmp_path: Path, realm: Kerberos) -> None:
    from kcli.security.mechanisms.gssapi import KerberosClient

    rules = "RULE:[2:$1-$2](svc-.*)s/svc-(.*)/$1/U,DEFAULT"

    async def story(node: RunningNode) -> None:
        for principal, name in (("alice", "User:alice"), ("svc/batch", "User:BATCH")):
            client = await connect(node, "SASL")
            await handshake(client, "GSSAPI")
            ours = KerberosClient("kafka", "localhost", principal, realm.keytab(principal))
            response = await exchange(client, ours)
            assert response.error_code is ErrorCode.NONE, response.error_message
            assert name in names(node)

    with_node(tmp_path, settings(realm, **{"sasl.kerberos.principal.to.local.rules": rules}), story)


def test_a_principal_without_a_rule_is_refused(tmp_path: Path, realm: Kerberos) -> None:
    from kcli.security.mechanisms.gssapi import KerberosClient

    async def story(node: RunningNode) -> None:
        client = await connect(node, "SASL")
        await handshake(client, "GSSAPI")
        response = await exchange(
            client, KerberosClient("kafka", "localhost", "alice", realm.keytab("alice"))
        )
        assert response.error_message == GENERIC

    rules = {"sasl.kerberos.principal.to.local.rules": "RULE:[2:$1]"}
    with_node(tmp_path, settings(realm, **rules), story)


def test_kafka_python_logs_in(tmp_path: Path, realm: Kerberos, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka import KafkaAdminClient

    monkeypatch.setenv("KRB5_CLIENT_KTNAME", realm.keytab("carol"))

    async def story(node: RunningNode) -> None:
        def topics() -> list[str]:
            admin = KafkaAdminClient(
                bootstrap_servers=f"127.0.0.1:{node.port('SASL')}",
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="GSSAPI",
                sasl_kerberos_service_name="kafka",
                sasl_kerberos_domain_name="localhost",
            )
            try:
                return admin.list_topics()
            finally:
                admin.close()

        assert await asyncio.to_thread(topics) == []

    with_node(tmp_path, settings(realm), story)


def test_garbage_at_each_step_is_refused(tmp_path: Path, realm: Kerberos) -> None:
    from kcli.security.mechanisms.gssapi import KerberosClient

    async def story(node: RunningNode) -> None:
        for good_steps in range(3):
            for garbage in (b"garbage", b"\x60" + bytes(100), bytes(70_000)):
                client = await connect(node, "SASL")
                await handshake(client, "GSSAPI")
                ours = KerberosClient("kafka", "localhost", "alice", realm.keytab("alice"))
                token = ours.respond(b"")
                for _ in range(good_steps):
                    assert token is not None
                    token = ours.respond((await send_token(client, token)).auth_bytes)
                response = await send_token(client, garbage)
                assert response.error_message == GENERIC
                assert await client.at_end()
        assert names(node) == set()

    with_node(tmp_path, settings(realm), story)


def test_a_replayed_ticket_is_refused(tmp_path: Path, realm: Kerberos) -> None:
    from kcli.security.mechanisms.gssapi import KerberosClient

    async def story(node: RunningNode) -> None:
        ours = KerberosClient("kafka", "localhost", "alice", realm.keytab("alice"))
        token = ours.respond(b"")
        assert token
        client = await connect(node, "SASL")
        await handshake(client, "GSSAPI")
        assert (await send_token(client, token)).error_code is ErrorCode.NONE
        thief = await connect(node, "SASL")
        await handshake(thief, "GSSAPI")
        # As in Kafka, the connection closes without an answer, because a client may try again with another ticket.
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await send_token(thief, token)
        assert names(node) == set()

    with_node(tmp_path, settings(realm), story)


def test_an_expired_ticket_is_refused(
    tmp_path: Path, realm: Kerberos, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from kcli.security.mechanisms.gssapi import KerberosClient

    caplog.set_level("INFO")
    # Kerberos accepts a ticket for a little longer than its lifetime.
    config = Path(realm.environment["KRB5_CONFIG"]).read_text()
    strict = realm.directory / "strict.conf"
    strict.write_text(config.replace("[libdefaults]", f"[libdefaults]\n    clockskew = {SKEW_S}"))
    keytab = realm.keytab("brief")
    realm.limit_lifetime("brief", LIFETIME_S)

    async def story(node: RunningNode) -> None:
        tokens = []
        for _ in range(2):
            ours = KerberosClient("kafka", "localhost", "brief", keytab)
            tokens.append(ours.respond(b""))
        fresh, late = tokens
        client = await connect(node, "SASL")
        await handshake(client, "GSSAPI")
        assert (await send_token(client, fresh)).error_code is ErrorCode.NONE
        await asyncio.sleep(LIFETIME_S + SKEW_S + 0.5)
        monkeypatch.setenv("KRB5_CONFIG", str(strict))
        client = await connect(node, "SASL")
        await handshake(client, "GSSAPI")
        response = await send_token(client, late)
        assert response.error_message == GENERIC
        assert "expired" in caplog.text.lower()

    with_node(tmp_path, settings(realm), story)


@pytest.mark.parametrize(("mode", "is_warned"), [(0o644, True), (0o640, False), (0o600, False)])
def test_a_keytab_that_all_may_read_is_warned_about(
    tmp_path: Path, realm: Kerberos, caplog: pytest.LogCaptureFixture, mode: int, is_warned: bool
) -> None:
    keytab = realm.keytab(SERVICE)

    async def story(_node: RunningNode) -> None:
        assert (f"every user of this machine may read it: chmod 600 {keytab}" in caplog.text) is is_warned

    Path(keytab).chmod(mode)
    with_node(tmp_path, settings(realm), story)
    Path(keytab).chmod(0o600)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"sasl.kerberos.principal.to.local.rules": "RULE:x"}, "Invalid rule: RULE:x"),
        ({"listener.name.sasl.gssapi.sasl.jaas.config": f"{MODULE};"}, "has no option principal"),
        (
            {
                "listener.name.sasl.gssapi.sasl.jaas.config": f'{MODULE} keyTab="/missing" '
                'principal="kafka/localhost@EXAMPLE.COM";'
            },
            "GSSAPI as kafka/localhost@EXAMPLE.COM",
        ),
    ],
)
def test_a_mistake_stops_the_start(
    tmp_path: Path, realm: Kerberos, config: dict[str, str], message: str
) -> None:
    async def story(_node: RunningNode) -> None:
        pytest.fail("the node has started")

    with pytest.raises(ConfigError, match=message):
        with_node(tmp_path, settings(realm) | config, story)
