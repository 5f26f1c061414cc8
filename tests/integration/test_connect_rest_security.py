"""The REST API of Connect workers over TLS, with logins, headers and an own listener for /admin."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path

import pytest

from kcli.local_cluster.ports import free_port
from rigs import node
from rigs.certificates import Certificates, Issued
from rigs.connect_programs import Program, distributed, request, standalone
from rigs.loops import on_a_loop, until

BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
HTTPS = {"listeners": "https://127.0.0.1:0", "rest.advertised.host.name": "localhost"}


def https(certificates: Certificates, **more: str) -> dict[str, str]:
    return (
        HTTPS | {f"listeners.https.{key}": text for key, text in certificates.broker_config().items()} | more
    )


def trusting(certificates: Certificates, client: Issued | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.authority.pem)
    if client is not None:
        context.load_cert_chain(client.chain_file, client.key_file)
    return context


def login(text: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The keys of a worker whose only user is ann, with the password of-ann."""
    (tmp_path / "users.properties").write_text("ann=of-ann\n")
    (tmp_path / "jaas.conf").write_text(
        "KafkaConnect { org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required "
        f'file="{tmp_path}/users.properties"; }};\n'
    )
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={tmp_path}/jaas.conf")
    return {"rest.extension.classes": BASIC_AUTH}


@on_a_loop
async def test_a_listener_with_mutual_tls_refuses_clients_without_a_certificate(
    tmp_path: Path, certificates: Certificates
) -> None:
    properties = https(certificates, **{"listeners.https.ssl.client.auth": "required"})
    async with standalone(tmp_path, properties) as it:
        answer = await it.request("GET", "/connectors", tls=trusting(certificates, certificates.alice))
        assert (answer.status, answer.body) == (200, b"[]")
        for client in (None, certificates.alice_other):
            with pytest.raises((OSError, IndexError)):
                await it.request("GET", "/connectors", tls=trusting(certificates, client))


@on_a_loop
async def test_a_login_is_needed_except_by_other_workers(tmp_path: Path, users: dict[str, str]) -> None:
    async with standalone(tmp_path, users) as it:
        assert (await it.request("GET", "/connectors", headers=login("ann:of-ann"))).status == 200
        for headers in (
            {},
            login("ann:guess"),
            login("bob:of-ann"),
            login("ann"),
            {"Authorization": "Bearer x"},
        ):
            answer = await it.request("GET", "/connectors", headers=headers)
            assert (answer.status, answer.body) == (401, b"User cannot access the resource.")
        # Requests of workers have a signature instead, so they reach the herder, which refuses them when alone.
        assert (await it.request("PUT", "/connectors/c/fence")).status == 500
        assert (await it.request("GET", "/connectors/c/fence")).status == 405
        # A stranger is refused before the body comes.
        headers = {"Content-Length": "30000000", "Content-Type": "application/json"}
        assert (await it.request("POST", "/connectors", headers=headers)).status == 401


@on_a_loop
async def test_headers_of_cross_origin_requests_and_of_the_configuration(tmp_path: Path) -> None:
    properties = {
        "access.control.allow.origin": "http://good.example",
        "access.control.allow.methods": "GET,PUT",
        "response.http.headers.config": 'set X-Frame-Options:DENY, "add Cache-Control: no-cache, no-store"',
    }
    async with standalone(tmp_path, properties) as it:
        good = await it.request("GET", "/connectors", headers={"Origin": "http://good.example"})
        assert good.headers["Access-Control-Allow-Origin"] == "http://good.example"
        assert good.headers["X-Frame-Options"] == "DENY"
        assert good.headers["Cache-Control"] == "no-cache, no-store"
        bad = await it.request("GET", "/connectors", headers={"Origin": "http://bad.example"})
        assert "Access-Control-Allow-Origin" not in bad.headers
        preflight = {"Origin": "http://good.example", "Access-Control-Request-Method": "PUT"}
        answer = await it.request("OPTIONS", "/connectors", headers=preflight)
        assert answer.headers["Access-Control-Allow-Methods"] == "GET,PUT"


@on_a_loop
async def test_admin_resources_have_a_listener_of_their_own_or_none(tmp_path: Path) -> None:
    port = free_port()
    async with standalone(tmp_path, {"admin.listeners": f"http://127.0.0.1:{port}"}) as it:
        assert (await it.request("GET", "/admin/loggers")).status == 404
        assert (await request(port, "GET", "/admin/loggers")).status == 200
        assert (await request(port, "GET", "/connectors")).status == 404
    async with standalone(tmp_path, {"admin.listeners": ""}) as it:
        assert (await it.request("GET", "/admin/loggers")).status == 404
    async with standalone(tmp_path) as it:
        assert (await it.request("GET", "/admin/loggers")).status == 200


@on_a_loop
async def test_an_admin_listener_has_its_own_certificate(tmp_path: Path, certificates: Certificates) -> None:
    port = free_port()
    keys = {f"admin.listeners.https.{key}": text for key, text in certificates.broker_config().items()}
    async with standalone(tmp_path, keys | {"admin.listeners": f"https://127.0.0.1:{port}"}) as it:
        assert (await request(port, "GET", "/admin/loggers", tls=trusting(certificates))).status == 200
        assert (await it.request("GET", "/connectors")).status == 200


@on_a_loop
async def test_workers_with_mutual_tls_and_logins_work_together(
    tmp_path: Path, certificates: Certificates, users: dict[str, str]
) -> None:
    properties = https(certificates, **users, **{"listeners.https.ssl.client.auth": "required"})
    tls = trusting(certificates, certificates.alice)
    headers = login("ann:of-ann")

    async def is_running(worker: Program, name: str) -> bool:
        answer = await worker.request("GET", f"/connectors/{name}/status", headers=headers, tls=tls)
        state = json.loads(answer.body)
        return answer.status == 200 and [task["state"] for task in state["tasks"]] == ["RUNNING"]

    async with (
        node.running(tmp_path / "data") as broker,
        distributed(broker.port(), properties) as first,
        distributed(broker.port(), properties) as second,
    ):
        # One of the workers is not the leader: it forwards its request, with the login of its client. It also sends
        # the configurations of the tasks of its own connector.
        for name, worker in (("a", first), ("b", second)):
            config = {"connector.class": "FileStreamSource", "file": str(tmp_path / name), "topic": "t"}
            body = json.dumps(config).encode()
            path = f"/connectors/{name}/config"
            answer = await worker.request("PUT", path, body, headers=headers, tls=tls)
            assert answer.status == 201, answer.body
        await until(lambda: is_running(second, "a"))
        await until(lambda: is_running(first, "b"))
