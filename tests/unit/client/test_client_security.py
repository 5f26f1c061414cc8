"""Connections with TLS and SASL, against scripted servers on real sockets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kcli.client.client import Client
from kcli.client.config import ClientConfigError, client_config
from kcli.client.connection import Connection
from kcli.client.tls_errors import alert_error
from kcli.errors import (
    ErrorCode,
    IllegalSaslStateException,
    KafkaError,
    NetworkException,
    ProtocolError,
    SaslAuthenticationException,
    SslAuthenticationException,
    UnsupportedSaslMechanismException,
)
from kcli.model.addresses import Address
from kcli.protocol.messages.metadata import MetadataResponse
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import SystemNetwork
from kcli.security.client import client_security
from kcli.security.mechanisms.scram import MECHANISMS, salted_password, server_keys
from rigs.certificates import Certificates, Issued
from rigs.loops import move_clock
from rigs.scripted_server import ScriptedServer

Script = Mapping[ApiKey, Callable[[Any, int], Any]]
METADATA: Script = {ApiKey.METADATA: lambda request, version: MetadataResponse()}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}"{};'


def login(
    user: str = "alice", password: str = "alice-secret", mechanism: str = "PLAIN", more: str = ""
) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": JAAS.format(user, password, more),
    }


def open_once(port: int, properties: Mapping[str, str], host: str = "127.0.0.1") -> Connection:
    async def scenario() -> Connection:
        security = client_security(properties)
        connection = await Connection.open(SystemNetwork(), Address(host, port), "test", 5, security)
        connection.close()
        await asyncio.sleep(0)
        return connection

    return asyncio.run(scenario())


def server_context(issued: Issued, *, trusts: str | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.pem)
    if trusts is not None:
        context.load_verify_locations(trusts)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def plain_server(lifetime_ms: int = 0) -> Script:
    def authenticate(request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
        if request.auth_bytes == b"\0alice\0alice-secret":
            return SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            error_message="Authentication failed: Invalid username or password",
        )

    def handshake(request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        known = request.mechanism == "PLAIN"
        code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=("PLAIN", "SCRAM-SHA-256"))

    return {**METADATA, ApiKey.SASL_HANDSHAKE: handshake, ApiKey.SASL_AUTHENTICATE: authenticate}


def test_a_client_logs_in_before_its_first_request() -> None:
    with ScriptedServer(plain_server()) as server:
        open_once(server.port, login())
    assert [key for key, _, _ in server.requests] == [
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    ]


def test_a_wrong_password_gives_the_text_of_the_server() -> None:
    with (
        ScriptedServer(plain_server()) as server,
        pytest.raises(
            SaslAuthenticationException, match=r"^Authentication failed: Invalid username or password$"
        ),
    ):
        open_once(server.port, login(password="wrong"))


def test_a_mechanism_that_is_not_offered_lists_the_offered_ones() -> None:
    text = (
        r"^Client SASL mechanism 'SCRAM-SHA-512' not enabled in the server, "
        r"enabled mechanisms are \[PLAIN, SCRAM-SHA-256\]$"
    )
    with (
        ScriptedServer(plain_server()) as server,
        pytest.raises(UnsupportedSaslMechanismException, match=text),
    ):
        open_once(server.port, login(mechanism="SCRAM-SHA-512"))


def test_a_listener_without_sasl_refuses_a_login() -> None:
    def refuses(request: Any, version: int) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

    script = {ApiKey.SASL_HANDSHAKE: refuses, ApiKey.SASL_AUTHENTICATE: lambda request, version: None}
    text = r"^Unexpected handshake request with client mechanism PLAIN, enabled mechanisms are \[\]$"
    with ScriptedServer(script) as server, pytest.raises(IllegalSaslStateException, match=text):
        open_once(server.port, login())


def scram_server(password: str, users: list[str]) -> Script:
    """A server of SCRAM-SHA-256 that computes the proof from the password."""
    mechanism, salt, said = MECHANISMS["SCRAM-SHA-256"], b"some salt", []

    def authenticate(request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
        text = request.auth_bytes.decode()
        if not said:
            users.append(text)
            nonce = dict(part.split("=", 1) for part in text[3:].split(","))["r"]
            challenge = f"r={nonce}server,s={base64.b64encode(salt).decode()},i=4096"
            said.extend((text[3:], challenge))
            return SaslAuthenticateResponse(auth_bytes=challenge.encode())
        without_proof, _, proof = text.rpartition(",p=")
        keys = server_keys(mechanism, salted_password(mechanism, password.encode(), salt, 4096))
        message = ",".join((*said, without_proof)).encode()
        signature = hmac.digest(keys.stored_key, message, "sha256")
        client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.sha256(client_key).digest() != keys.stored_key:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no"
            )
        verifier = base64.b64encode(hmac.digest(keys.server_key, message, "sha256")).decode()
        return SaslAuthenticateResponse(auth_bytes=f"v={verifier}".encode())

    return {
        ApiKey.SASL_HANDSHAKE: lambda request, version: SaslHandshakeResponse(),
        ApiKey.SASL_AUTHENTICATE: authenticate,
    }


@pytest.mark.parametrize(("more", "extension"), [("", ""), (' tokenauth="true"', ",tokenauth=true")])
def test_scram_proves_the_password_in_both_directions(more: str, extension: str) -> None:
    users: list[str] = []
    with ScriptedServer(scram_server("alice-secret", users)) as server:
        open_once(server.port, login(mechanism="SCRAM-SHA-256", more=more))
    assert users[0].startswith("n,,n=alice,r=")
    assert users[0].endswith(extension)
    assert ("tokenauth" in users[0]) is bool(extension)


def test_a_server_cannot_keep_a_login_going_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        def respond(self, received: bytes) -> bytes | None:
            return b"more"

    monkeypatch.setattr("kcli.client.login.client_exchange", lambda credentials, host: Endless())
    endless: Script = {ApiKey.SASL_AUTHENTICATE: lambda request, version: SaslAuthenticateResponse()}
    script = {**plain_server(), **endless}
    with ScriptedServer(script) as server, pytest.raises(ProtocolError, match="continued a login after 16"):
        open_once(server.port, login())


def test_a_session_with_an_end_makes_a_connection_stale() -> None:
    async def scenario(port: int) -> tuple[bool, bool]:
        security = client_security(login())
        connection = await Connection.open(SystemNetwork(), Address("127.0.0.1", port), "test", 5, security)
        fresh = connection.is_stale
        loop = asyncio.get_running_loop()
        later = loop.time() + 60 * 0.86
        loop.time = lambda: later
        stale = connection.is_stale
        connection.close()
        return fresh, stale

    with ScriptedServer(plain_server(lifetime_ms=60_000)) as server:
        assert asyncio.run(scenario(server.port)) == (False, True)


def test_a_stale_connection_is_replaced_by_one_with_a_new_login() -> None:
    async def scenario(servers: str) -> None:
        async with Client(client_config(login(), bootstrap_servers=servers)) as client:
            await client.metadata()
            move_clock(60)  # the session is over
            await client.metadata()

    with ScriptedServer(plain_server(lifetime_ms=60_000)) as server:
        asyncio.run(scenario(server.address))
    assert len(server.sent(ApiKey.SASL_AUTHENTICATE)) == 2


def test_tls_with_the_right_authority_works(certificates: Certificates) -> None:
    with ScriptedServer(METADATA, tls=server_context(certificates.server)) as server:
        for host in ("127.0.0.1", "localhost"):
            assert open_once(server.port, certificates.client_config(), host).versions


def test_a_client_certificate_is_presented(certificates: Certificates) -> None:
    context = server_context(certificates.server, trusts=certificates.authority.pem)
    with ScriptedServer(METADATA, tls=context) as server:
        assert open_once(server.port, certificates.client_config(certificates.alice)).versions


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("server_expired", "certificate has expired"),
        ("server_elsewhere", "IP address mismatch, certificate is not valid for '127.0.0.1'"),
        ("server_other", "self-signed certificate in certificate chain"),
    ],
)
def test_a_certificate_that_is_not_accepted_ends_the_handshake(
    certificates: Certificates, name: str, hint: str
) -> None:
    with (
        ScriptedServer(METADATA, tls=server_context(getattr(certificates, name))) as server,
        pytest.raises(SslAuthenticationException, match=r"^SSL handshake failed$") as caught,
    ):
        open_once(server.port, certificates.client_config())
    assert hint in caught.value.hint


def test_a_missing_client_certificate_is_named(certificates: Certificates) -> None:
    context = server_context(certificates.server, trusts=certificates.authority.pem)
    with (
        ScriptedServer(METADATA, tls=context) as server,
        pytest.raises(
            SslAuthenticationException, match=r"^Failed to process post-handshake messages$"
        ) as caught,
    ):
        open_once(server.port, certificates.client_config())
    assert caught.value.hint == "the server asks for a client certificate: set ssl.keystore.location"


def test_kafka_refuses_a_missing_and_a_wrong_client_certificate_with_the_same_alert() -> None:
    alert = ssl.SSLError(1, "[SSL] alert")
    alert.reason = "SSLV3_ALERT_BAD_CERTIFICATE"
    hint = "the server asks for a client certificate, or for another one: check ssl.keystore.location"
    assert alert_error(alert, Address("h", 1)).hint == hint


def test_tls_to_a_port_without_tls_is_named(certificates: Certificates) -> None:
    def answer_in_http(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer, contextlib.suppress(ConnectionError):
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            while peer.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer_in_http, args=(listener,))
        thread.start()
        with pytest.raises(SslAuthenticationException) as caught:
            open_once(listener.getsockname()[1], certificates.client_config())
        thread.join()
    wanted = "If the listener has no TLS on purpose, set security.protocol=PLAINTEXT"
    assert f"does not speak TLS. {wanted}" in caught.value.hint


def test_a_server_that_closes_at_the_first_request_has_not_served_the_client() -> None:
    async def scenario(servers: str) -> None:
        properties = {"default.api.timeout.ms": "300", "request.timeout.ms": "300"}
        async with Client(client_config(properties, bootstrap_servers=servers)) as client:
            with pytest.raises(
                KafkaError, match=r"Timed out waiting for a node assignment. Call: listTopics"
            ):
                await client.call("listTopics", client.metadata)

    with ScriptedServer({ApiKey.METADATA: lambda request, version: None}) as server:
        asyncio.run(scenario(server.address))


def test_a_login_that_fails_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(servers: str) -> None:
        async with Client(client_config(login(password="no"), bootstrap_servers=servers)) as client:
            with pytest.raises(SaslAuthenticationException):
                await client.call("listTopics", client.metadata)

    with ScriptedServer(plain_server()) as server:
        asyncio.run(scenario(server.address))
    assert len(server.sent(ApiKey.SASL_AUTHENTICATE)) == 1
    assert "failed authentication due to: Authentication failed: Invalid username or password" in caplog.text


def test_a_lost_connection_of_a_served_client_is_an_ordinary_error() -> None:
    answers = iter([MetadataResponse(), None])

    async def scenario(servers: str) -> None:
        async with Client(client_config({}, bootstrap_servers=servers)) as client:
            await client.metadata()
            with pytest.raises(NetworkException, match=r"closed the connection$"):
                await client.metadata()

    with ScriptedServer({ApiKey.METADATA: lambda request, version: next(answers)}) as server:
        asyncio.run(scenario(server.address))


def test_settings_of_the_security_are_checked() -> None:
    with pytest.raises(ClientConfigError, match=r"^sasl\.jaas\.config has no password"):
        client_config(
            login() | {"sasl.jaas.config": 'Module required username="a";'}, bootstrap_servers="h:1"
        )
