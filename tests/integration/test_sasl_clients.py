"""SASL logins of real clients over real sockets: librdkafka and kafka-python with PLAIN and SCRAM."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rigs.librdkafka import consume, produce
from rigs.node import RunningNode, connect, create, running
from rigs.sasl import SASL_LISTENER, add_user

pytestmark = pytest.mark.compat

LOGINS = [
    ("PLAIN", "alice", "a=b,c"),
    ("SCRAM-SHA-256", "scram=,user", "pässword"),
    ("SCRAM-SHA-512", "scram=,user", "pässword"),
]


def with_users(directory: Path, story: Callable[[RunningNode, str], Awaitable[None]]) -> None:
    async def main() -> None:
        async with running(directory, **SASL_LISTENER) as node:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                await add_user(node, "scram=,user", "pässword", mechanism)
            await story(node, f"127.0.0.1:{node.port('SASL')}")

    asyncio.run(main())


@pytest.mark.parametrize(("mechanism", "user", "password"), LOGINS)
def test_librdkafka_produces_and_consumes_after_its_login(
    tmp_path: Path, mechanism: str, user: str, password: str
) -> None:
    config = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }

    async def story(node: RunningNode, bootstrap: str) -> None:
        await create(await connect(node), "orders")
        await asyncio.to_thread(produce, bootstrap, "orders", [{"value": b"one"}], **config)
        (message,) = await asyncio.to_thread(consume, bootstrap, "orders", 1, **config)
        assert message.value() == b"one"
        names = {(each.session.principal.name, each.session.mechanism) for each in node.sockets.connections}
        assert names <= {(user, mechanism), ("ANONYMOUS", None)}

    with_users(tmp_path, story)


@pytest.mark.parametrize(("mechanism", "user", "password"), LOGINS)
def test_librdkafka_shows_the_text_of_a_refusal(
    tmp_path: Path, mechanism: str, user: str, password: str
) -> None:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

    async def story(_node: RunningNode, bootstrap: str) -> None:
        errors: list[KafkaError] = []
        admin = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": password + "!",
                "error_cb": errors.append,
            }
        )

        def first_error() -> str:
            while not errors:
                admin.poll(0.1)
            return next((each.str() for each in errors if each.code() == KafkaError._AUTHENTICATION), "")

        text = await asyncio.wait_for(asyncio.to_thread(first_error), 20)
        expected = (
            "Authentication failed: Invalid username or password"
            if mechanism == "PLAIN"
            else "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{mechanism}"
        )
        assert expected in text

    with_users(tmp_path, story)


@pytest.mark.parametrize("mechanism", [mechanism for mechanism, _, _ in LOGINS])
def test_kafka_python_logs_in(tmp_path: Path, mechanism: str) -> None:
    from kafka import KafkaAdminClient

    # kafka-python does not escape the characters of a user name that separate the fields of SCRAM.
    user, password = ("alice", "a=b,c") if mechanism == "PLAIN" else ("dave", "dave-secret")

    async def story(node: RunningNode, bootstrap: str) -> None:
        await create(await connect(node), "orders")
        if mechanism != "PLAIN":
            await add_user(node, user, password, mechanism)

        def topics() -> list[str]:
            admin = KafkaAdminClient(
                bootstrap_servers=bootstrap,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism=mechanism,
                sasl_plain_username=user,
                sasl_plain_password=password,
            )
            try:
                return admin.list_topics()
            finally:
                admin.close()

        assert "orders" in await asyncio.to_thread(topics)

    with_users(tmp_path, story)
