"""Listeners with TLS, over real sockets: who is served, under which name, and what the log says about the others."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import ssl
import struct
import time
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest

from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.wire.api import ApiKey
from rigs.certificates import Certificates, Issued
from rigs.loops import PATIENCE_S, until
from rigs.node import RunningNode, connect, with_node
from rigs.tls import LISTENERS, context_of

AFTER_THE_CERTIFICATES = 32_503_680_000.0  # the year 3000

MAPPING = "RULE:^CN=(.*?),OU=mapping.*$/$1-from-cert/U,DEFAULT"


async def ask(node: RunningNode, tls: ssl.SSLContext | None, listener: str = "SSL") -> str:
    """Sends a request. Returns the name of the principal that the node gave to the client."""
    client = await connect(node, listener, tls)
    response = await client.call(DescribeClusterRequest(), ApiKey.DESCRIBE_CLUSTER, 1)
    assert response.brokers[0].port == node.port(listener)
    (served,) = node.sockets.listeners[listener].served
    name = served.session.principal.name
    client.close()
    await until(lambda: not node.sockets.listeners[listener].served)
    return name


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "Closing connection" in record.getMessage()]


def config_of(certificates: Certificates, **more: str) -> dict[str, str]:
    return LISTENERS | certificates.broker_config() | more


def test_a_client_without_a_certificate_is_anonymous(tmp_path: Path, certificates: Certificates) -> None:
    async def story(node: RunningNode) -> None:
        assert await ask(node, context_of(certificates)) == "ANONYMOUS"
        # The certificate of a client counts only if the listener asks for it.
        assert await ask(node, context_of(certificates, certificates.alice)) == "ANONYMOUS"
        assert await ask(node, None, "PLAINTEXT") == "ANONYMOUS"

    with_node(tmp_path, story, **config_of(certificates))


@pytest.mark.parametrize(
    ("client", "name"),
    [
        ("alice", "CN=alice,OU=dev,O=x,C=DE"),
        ("bob", "BOB-FROM-CERT"),
        ("email", "1.2.840.113549.1.9.1=#16116361726f6c406578616d706c652e6f7267,CN=carol,O=x"),
    ],
)
def test_a_certificate_names_the_user(
    tmp_path: Path, certificates: Certificates, client: str, name: str
) -> None:
    async def story(node: RunningNode) -> None:
        assert await ask(node, context_of(certificates, getattr(certificates, client))) == name

    more = {"ssl.client.auth": "required", "ssl.principal.mapping.rules": MAPPING}
    with_node(tmp_path, story, **config_of(certificates, **more))


async def refusal(node: RunningNode, tls: ssl.SSLContext) -> str:
    """Connects a client that the node refuses. Returns the error of the client."""
    try:
        client = await connect(node, "SSL", tls)
        await client.call(DescribeClusterRequest(), ApiKey.DESCRIBE_CLUSTER, 1)
    except (ssl.SSLError, OSError, EOFError) as error:
        return str(error)
    raise AssertionError("the client was served")


@pytest.mark.parametrize(
    ("client", "seen", "logged"),
    [
        (None, "certificate required", "the client has sent no certificate (ssl.client.auth is required)"),
        ("alice_expired", "expired", "the certificate of the client is not valid: certificate has expired"),
        (
            "alice_other",
            "unknown ca",
            "the certificate of the client is not valid: self-signed certificate",
        ),
    ],
)
def test_an_invalid_certificate_of_a_client_is_refused_with_an_alert_and_a_line(
    tmp_path: Path,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    client: str | None,
    seen: str,
    logged: str,
) -> None:
    async def story(node: RunningNode) -> None:
        issued: Issued | None = None if client is None else getattr(certificates, client)
        assert seen in (await refusal(node, context_of(certificates, issued))).lower()
        await until(lambda: not node.sockets.listeners["SSL"].served)

    with_node(tmp_path, story, **config_of(certificates, **{"ssl.client.auth": "required"}))
    (line,) = lines(caplog)
    assert "on listener SSL: SSL handshake failed: " in line
    assert logged in line


def test_a_requested_certificate_may_be_missing_and_must_not_be_invalid(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def story(node: RunningNode) -> None:
        assert await ask(node, context_of(certificates)) == "ANONYMOUS"
        assert await ask(node, context_of(certificates, certificates.alice)) == "CN=alice,OU=dev,O=x,C=DE"
        assert (
            "unknown ca" in (await refusal(node, context_of(certificates, certificates.alice_other))).lower()
        )

    with_node(tmp_path, story, **config_of(certificates, **{"ssl.client.auth": "requested"}))


def test_a_name_without_a_rule_is_refused(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: RunningNode) -> None:
        await refusal(node, context_of(certificates, certificates.alice))

    more = {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=x$/y/"}
    with_node(tmp_path, story, **config_of(certificates, **more))
    expected = "Failed to map name for 'CN=alice,OU=dev,O=x,C=DE' based on SSL principal mapping rules."
    assert [line.partition("on listener SSL: ")[2] for line in lines(caplog)] == [expected]


def test_a_client_that_does_not_trust_the_broker_is_named(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    tls = context_of(certificates, ssl_truststore_location=certificates.other_authority.pem)

    def connect_and_send_the_alert(port: int) -> None:
        # The client of asyncio sends no alert. A client on a socket does.
        with (
            socket.create_connection(("127.0.0.1", port)) as opened,
            pytest.raises(ssl.SSLError, match="verify failed"),
        ):
            tls.wrap_socket(opened, server_hostname="localhost")

    async def story(node: RunningNode) -> None:
        await asyncio.to_thread(connect_and_send_the_alert, node.port("SSL"))
        await until(lambda: lines(caplog))

    with_node(tmp_path, story, **config_of(certificates))
    assert "the client does not trust the authority of this broker's certificate" in lines(caplog)[0]


@pytest.mark.parametrize(
    ("first", "logged"),
    [
        (b"\0\0\0\x10" + bytes(16), "the client does not speak TLS, this listener does"),
        (b"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP, this is a Kafka port"),
    ],
)
def test_a_client_without_tls_gets_no_bytes_and_a_line(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture, first: bytes, logged: str
) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node, "SSL")
        client.writer.write(first)
        assert await client.at_end()

    with_node(tmp_path, story, **config_of(certificates))
    assert [logged in line for line in lines(caplog)] == [True]


def test_a_client_with_tls_on_a_plain_port_gets_a_line(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: RunningNode) -> None:
        with pytest.raises((ssl.SSLError, OSError)):
            await connect(node, "PLAINTEXT", context_of(certificates))

    with_node(tmp_path, story, **config_of(certificates))
    assert ["the client speaks TLS" in line for line in lines(caplog)] == [True]


def test_a_connection_counts_before_its_handshake(tmp_path: Path, certificates: Certificates) -> None:
    async def story(node: RunningNode) -> None:
        silent = await connect(node, "SSL")
        await until(lambda: len(node.sockets.listeners["SSL"].served) == 1)
        # The second connection is closed before a handshake, because its address has its one connection.
        second = await connect(node, "SSL")
        assert await second.at_end()
        silent.close()
        await until(lambda: not node.sockets.connections)
        assert await ask(node, context_of(certificates)) == "ANONYMOUS"

    with_node(tmp_path, story, **config_of(certificates, **{"max.connections.per.ip": "1"}))


def test_no_handshake_runs_while_max_connections_delays_a_connection(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def story(node: RunningNode) -> None:
        first = await connect(node, "SSL", context_of(certificates))
        second = asyncio.ensure_future(connect(node, "SSL", context_of(certificates)))
        await until(lambda: len(node.sockets.connections) == 2)
        await asyncio.wait((second,), timeout=0.1)
        assert not second.done()
        first.close()
        client = await asyncio.wait_for(second, PATIENCE_S)
        assert (await client.call(DescribeClusterRequest(), ApiKey.DESCRIBE_CLUSTER, 1)).error_code == 0

    with_node(tmp_path, story, **config_of(certificates, **{"listener.name.ssl.max.connections": "1"}))


def test_a_slow_handshake_is_closed(
    tmp_path: Path,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("kcli.server.network.tls_transport.HANDSHAKE_LIMIT_SECONDS", 0.05)

    async def story(node: RunningNode) -> None:
        client = await connect(node, "SSL")
        client.writer.write(b"\x16\x03\x01")
        assert await client.at_end()

    caplog.set_level(logging.WARNING)
    with_node(tmp_path, story, **config_of(certificates))
    assert ["the TLS handshake took more than" in line for line in lines(caplog)] == [True]


VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""The frame of an ApiVersions request."""


def resumed(port: int, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, bytes]:
    """Resumes a session, and another one after the end of the client's certificate. Returns the first byte of each
    answer.

    Each session is resumed once, because OpenSSL forgets the session of a connection that ends without an alert.
    """
    answers = []
    for now in (time.time(), AFTER_THE_CERTIFICATES):
        with connected(port, tls) as first:
            monkeypatch.setattr("kcli.server.network.tls_transport._now", lambda now=now: now)
            with connected(port, tls, first.session) as again:
                assert again.session_reused
                again.sendall(VERSIONS)
                try:
                    answers.append(again.recv(1))
                except (ssl.SSLEOFError, ConnectionResetError):
                    answers.append(b"")
    return answers[0], answers[1]


def connected(port: int, tls: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
    raw = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    return tls.wrap_socket(raw, server_hostname="localhost", session=session)


def test_an_expired_certificate_does_not_resume_a_session(
    tmp_path: Path,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """TLS 1.2 resumes a session by its id, and then the client does not show its certificate."""

    async def story(node: RunningNode) -> None:
        tls = context_of(certificates, certificates.alice, ssl_enabled_protocols="TLSv1.2")
        assert await asyncio.to_thread(resumed, node.port("SSL"), tls, monkeypatch) == (b"\0", b"")
        monkeypatch.undo()

    with_node(tmp_path, story, **config_of(certificates, **{"ssl.client.auth": "required"}))
    (line,) = lines(caplog)
    assert "the certificate of the client is not valid: certificate has expired" in line


@pytest.mark.parametrize("name", [None, "localhost", "other.example", ".".join(["a" * 60] * 4)])
def test_the_server_name_of_a_client_changes_nothing(
    tmp_path: Path, certificates: Certificates, name: str | None
) -> None:
    """A listener has one certificate, and the name in the handshake (SNI) chooses nothing."""

    def first_byte(port: int) -> bytes:
        tls = context_of(certificates, certificates.alice)
        tls.check_hostname = False
        raw = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        with tls.wrap_socket(raw, server_hostname=name) as opened:
            opened.sendall(VERSIONS)
            return opened.recv(1)

    async def story(node: RunningNode) -> None:
        assert await asyncio.to_thread(first_byte, node.port("SSL")) == b"\0"

    with_node(tmp_path, story, **config_of(certificates, **{"ssl.client.auth": "required"}))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_client_cannot_renegotiate(tmp_path: Path, certificates: Certificates) -> None:
    async def story(node: RunningNode) -> None:
        openssl = await asyncio.create_subprocess_exec(
            "openssl", "s_client", "-connect", f"127.0.0.1:{node.port('SSL')}", "-tls1_2",
            stdin=PIPE, stdout=PIPE, stderr=STDOUT,
        )  # fmt: skip
        said, _ = await asyncio.wait_for(openssl.communicate(b"R\n"), PATIENCE_S)
        assert b"RENEGOTIATING" in said
        assert b"no renegotiation" in said
        assert await ask(node, context_of(certificates)) == "ANONYMOUS"

    with_node(tmp_path, story, **config_of(certificates))
