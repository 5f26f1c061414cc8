"""Registries with TLS, users, rules of access, and the mode in which a registry only reads."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path

import pytest

from kcli.registry.decisions import schemas
from rigs import node
from rigs.certificates import Certificates
from rigs.loops import on_a_loop, until
from rigs.registry_programs import TYPE, Program, registry
from rigs.small_schemas import small_language

A, B = {"schema": '{"a":1}'}, {"schema": '{"b":1}'}


@pytest.fixture(autouse=True)
def small_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "language_of", small_language)


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The keys of a registry with the users ann and bob, whose passwords are of-ann and of-bob."""
    (tmp_path / "users").write_text("ann=of-ann,dev\nbob=of-bob,dev\neve=of-eve,guest\n")
    (tmp_path / "jaas.conf").write_text(
        f'Registry {{ x.PropertyFileLoginModule required file="{tmp_path}/users"; }};'
    )
    monkeypatch.setenv("SCHEMA_REGISTRY_OPTS", f"-Djava.security.auth.login.config={tmp_path}/jaas.conf")
    return {
        "authentication.method": "BASIC",
        "authentication.realm": "Registry",
        "authentication.roles": "dev",
        "authentication.skip.paths": "/health",
    }


def login(user: str, password: str | None = None) -> dict[str, str]:
    text = f"{user}:{f'of-{user}' if password is None else password}"
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


@on_a_loop
async def test_only_users_with_the_role_get_answers(tmp_path: Path, users: dict[str, str]) -> None:
    async with node.running(tmp_path / "data") as broker, registry(broker.port(), users) as it:
        assert await it.json("GET", "/subjects", headers=login("ann")) == (200, [])
        for headers in ({}, login("ann", "guess"), login("eve"), {"Authorization": "Bearer x"}):
            answer = await it.request("GET", "/subjects", headers=headers)
            assert (answer.status, json.loads(answer.body)) == (
                401,
                {"error_code": 401, "message": "Unauthorized"},
            )
            assert answer.headers["WWW-Authenticate"] == 'Basic realm="Registry"'
            assert answer.headers["Content-Type"] == TYPE
        assert (await it.request("GET", "/health")).status == 200
        assert (await it.request("OPTIONS", "/subjects")).status == 200


@on_a_loop
async def test_rules_limit_each_request_by_the_prefix_of_its_subject(
    tmp_path: Path, users: dict[str, str]
) -> None:
    rules = {"kcli.access.rules": "ann:write:orders-; bob:read:orders-; bob:admin:pay-"}
    async with node.running(tmp_path / "data") as broker, registry(broker.port(), users | rules) as it:

        async def status(user: str, method: str, path: str, body: object = None) -> int:
            return (await it.json(method, path, body, headers=login(user)))[0]

        assert await status("ann", "POST", "/subjects/orders-v/versions", A) == 200
        assert await status("bob", "POST", "/subjects/pay-v/versions", B) == 200
        for user, method, path, body, expected in (
            ("bob", "POST", "/subjects/orders-v/versions", A, 403),
            ("bob", "POST", "/subjects/orders-v", A, 200),
            ("bob", "POST", "/compatibility/subjects/orders-v/versions", A, 200),
            ("ann", "GET", "/subjects/pay-v/versions", None, 403),
            ("ann", "POST", "/subjects/pay-v", B, 403),
            ("ann", "GET", "/config/pay-v?defaultToGlobal=true", None, 403),
            ("ann", "PUT", "/config/orders-v", {"compatibility": "NONE"}, 403),
            ("bob", "PUT", "/config/pay-v", {"compatibility": "NONE"}, 200),
            ("bob", "PUT", "/config", {"compatibility": "NONE"}, 403),
            ("bob", "PUT", "/mode/pay-v", {"mode": "READWRITE"}, 200),
            ("bob", "DELETE", "/subjects/orders-v", None, 403),
            ("bob", "DELETE", "/contexts/.x", None, 403),
            ("ann", "POST", "/contexts/.x/subjects/orders-v/versions", A, 403),
            ("ann", "GET", "/schemas/ids/1", None, 200),
            ("ann", "GET", "/schemas/ids/2", None, 404),
            ("ann", "GET", "/schemas/ids/2/schema", None, 404),
            ("bob", "DELETE", "/subjects/pay-v/versions/1", None, 200),
            ("ann", "DELETE", "/subjects/orders-v/versions/1", None, 200),
        ):
            assert await status(user, method, path, body) == expected, (user, method, path)
        # A guid that is also in a context which the user may not read.
        assert await status("bob", "POST", "/subjects/:.t:pay-v/versions", A) == 403
        guid = guid_of((await it.json("GET", "/schemas/ids/1", headers=login("ann")))[1])
        assert await status("ann", "GET", f"/schemas/guids/{guid}") == 200
        assert (await it.json("GET", f"/schemas/guids/{guid}/ids", headers=login("ann")))[1] == [
            {"context": ".", "id": 1}
        ]
        other = guid_of((await it.json("GET", "/schemas/ids/2", headers=login("bob")))[1])
        assert await status("ann", "GET", f"/schemas/guids/{other}") == 404
        assert (await it.json("GET", f"/schemas/guids/{other}/ids", headers=login("ann"))) == (200, [])
        # Lists have only what the user may read.
        assert await it.json("GET", "/subjects?deleted=true", headers=login("ann")) == (200, ["orders-v"])
        assert (await it.json("GET", "/subjects?deleted=true", headers=login("bob")))[1] == [
            "orders-v",
            "pay-v",
        ]
        listed = (await it.json("GET", "/schemas?deleted=true", headers=login("ann")))[1]
        assert isinstance(listed, list)
        assert [schema["subject"] for schema in listed] == ["orders-v"]
        refused = await it.json("GET", "/subjects/pay-v/versions", headers=login("ann"))
        assert refused == (403, {"error_code": 403, "message": "User may not read subject 'pay-v'"})


def guid_of(schema: object) -> str:
    assert isinstance(schema, dict)
    return str(schema["guid"])


@on_a_loop
async def test_a_schema_is_readable_only_where_the_user_may_read_a_subject(
    tmp_path: Path, users: dict[str, str]
) -> None:
    rules = {"kcli.access.rules": "ann:write:orders-; bob:write:"}
    async with node.running(tmp_path / "data") as broker, registry(broker.port(), users | rules) as it:

        async def answer(user: str, method: str, path: str, body: object = None) -> tuple[int, object]:
            return await it.json(method, path, body, headers=login(user))

        # A reference would show the text of its subject in the format `resolved`.
        assert (await answer("bob", "POST", "/subjects/pay-v/versions", B))[0] == 200
        body = {
            "schema": '{"$x":"n"}',
            "references": [{"name": "n", "subject": "pay-v", "version": 1}],
        }
        refused = (403, {"error_code": 403, "message": "User may not read subject 'pay-v'"})
        for path in (
            "/subjects/orders-v/versions",
            "/subjects/orders-v",
            "/compatibility/subjects/orders-v/versions",
        ):
            assert await answer("ann", "POST", path, body) == refused
        assert (await answer("bob", "POST", "/subjects/orders-v/versions", body))[0] == 200

        # A guid is the same in all contexts, and its schema is readable in some of them.
        for subject in ("orders-w", ":.x:s"):
            _, registered = await answer("bob", "POST", f"/subjects/{subject}/versions", A)
        assert isinstance(registered, dict)
        guid = registered["guid"]
        assert (await answer("ann", "GET", f"/schemas/guids/{guid}"))[0] == 200
        ids = (await answer("ann", "GET", f"/schemas/guids/{guid}/ids"))[1]
        assert isinstance(ids, list)
        assert [one["context"] for one in ids] == ["."]
        every = (await answer("bob", "GET", f"/schemas/guids/{guid}/ids"))[1]
        assert isinstance(every, list)
        assert [one["context"] for one in every] == [".", ".x"]
        _, paid = await answer("bob", "POST", "/subjects/pay-v", B)
        assert isinstance(paid, dict)
        assert await answer("ann", "GET", f"/schemas/guids/{paid['guid']}/ids") == (200, [])
        assert (await answer("ann", "GET", f"/schemas/guids/{paid['guid']}"))[0] == 404


@on_a_loop
async def test_requests_to_the_leader_have_the_login_of_the_client(
    tmp_path: Path, users: dict[str, str]
) -> None:
    rules = {"kcli.access.rules": "ann:write:"}
    group = {"kafkagroup.heartbeat.interval.ms": "100", "kafkagroup.session.timeout.ms": "6000"}
    async with (
        node.running(tmp_path / "data") as broker,
        registry(broker.port(), users | rules | group) as first,
        registry(broker.port(), users | rules | group) as second,
    ):
        await until(lambda: first.leads != second.leads)
        for it in (first, second):
            assert (await it.json("POST", "/subjects/s/versions", A, headers=login("ann")))[0] == 200
            assert (await it.json("POST", "/subjects/s/versions", A, headers=login("bob")))[0] == 403


def trusting(certificates: Certificates, *, client: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.authority.pem)
    if client:
        context.load_cert_chain(certificates.alice.chain_file, certificates.alice.key_file)
    return context


@on_a_loop
async def test_registries_speak_tls_with_clients_and_with_each_other(
    tmp_path: Path, certificates: Certificates
) -> None:
    properties = {
        **certificates.broker_config(),
        "listeners": "https://127.0.0.1:0",
        "host.name": "localhost",
        "inter.instance.protocol": "https",
        "ssl.client.authentication": "REQUESTED",
        "kafkagroup.heartbeat.interval.ms": "100",
        "kafkagroup.session.timeout.ms": "6000",
    }
    async with (
        node.running(tmp_path / "data") as broker,
        registry(broker.port(), properties) as first,
        registry(broker.port(), properties) as second,
    ):
        await until(lambda: first.leads != second.leads)
        for it, body in ((first, A), (second, B)):
            tls = trusting(certificates, client=it is first)
            content = json.dumps(body).encode()
            answer = await it.request("POST", "/subjects/s/versions?force=true", content, tls=tls)
            assert answer.status == 200


@on_a_loop
async def test_a_client_without_a_certificate_is_refused_if_one_is_required(
    tmp_path: Path, certificates: Certificates
) -> None:
    properties = {
        **certificates.broker_config(),
        "listeners": "https://127.0.0.1:0",
        "host.name": "localhost",
        "inter.instance.protocol": "https",
        "ssl.client.auth": "true",
    }
    async with node.running(tmp_path / "data") as broker, registry(broker.port(), properties) as it:
        answer = await it.request("GET", "/subjects", tls=trusting(certificates, client=True))
        assert (answer.status, answer.body) == (200, b"[]")
        with pytest.raises((OSError, IndexError)):
            await it.request("GET", "/subjects", tls=trusting(certificates, client=False))


@on_a_loop
async def test_a_registry_that_only_reads_follows_the_topic_and_changes_nothing(tmp_path: Path) -> None:
    async with (
        node.running(tmp_path / "data") as broker,
        registry(broker.port()) as writer,
        registry(broker.port(), {"kcli.read.only": "true"}) as reader,
    ):
        assert (await writer.json("POST", "/subjects/s/versions", A))[0] == 200
        await until(lambda: has_subject(reader))
        assert (await reader.json("POST", "/subjects/s/versions", A))[0] == 200, "the schema is known"
        for method, path, body in (
            ("POST", "/subjects/s/versions", B),
            ("DELETE", "/subjects/s", None),
            ("PUT", "/config", {"compatibility": "NONE"}),
        ):
            assert await reader.json(method, path, body) == (
                422,
                {
                    "error_code": 42205,
                    "message": "This registry is read-only, because kcli.read.only is set",
                },
            )
        assert (await reader.json("GET", "/health"))[1] == {
            "status": "healthy",
            "message": "This registry only reads.",
        }


async def has_subject(it: Program) -> bool:
    return await it.json("GET", "/subjects") == (200, ["s"])


@on_a_loop
async def test_no_secret_is_in_the_log(
    tmp_path: Path, users: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    secret = "of-ann"
    async with node.running(tmp_path / "data") as broker, registry(broker.port(), users) as it:
        assert (await it.json("POST", "/subjects/s/versions", A, headers=login("ann")))[0] == 200
        assert (await it.json("POST", "/subjects/s/versions", A, headers=login("ann", "x" + secret)))[
            0
        ] == 401
    encoded = login("ann")["Authorization"].removeprefix("Basic ")
    assert "Registering new schema: subject s" in caplog.text
    assert secret not in caplog.text and encoded not in caplog.text
