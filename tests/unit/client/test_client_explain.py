"""The line that names the mistake in the settings of a client's security."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from kcli.client.client import Client
from kcli.client.config import client_config
from kcli.client.diagnosis.ports import Port, look_at
from kcli.client.explain import explain
from kcli.errors import ErrorCode, KafkaError, NetworkException
from kcli.model.addresses import Address
from kcli.protocol.messages.metadata import MetadataResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kcli.protocol.wire.api import ApiKey
from rigs.certificates import Certificates, Issued
from rigs.scripted_server import ScriptedServer

Script = dict[ApiKey, Callable[[Any, int], Any]]
OPEN: Script = {
    ApiKey.METADATA: lambda request, version: MetadataResponse(),
    ApiKey.SASL_HANDSHAKE: lambda request, version: SaslHandshakeResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE
    ),
}
LOCKED: Script = {
    ApiKey.METADATA: lambda request, version: None,
    ApiKey.SASL_HANDSHAKE: lambda request, version: SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=("PLAIN", "SCRAM-SHA-512")
    ),
}
LOGIN = {
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'PlainLoginModule required username="alice" password="alice-secret";',
}


def context(issued: Issued) -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(issued.pem)
    return found


def logged(properties: Mapping[str, str], server: str, caplog: pytest.LogCaptureFixture) -> str:
    """Returns the log of a client that cannot connect. A mistake is final, so the client ends at once."""

    async def scenario() -> None:
        async with Client(client_config(properties, bootstrap_servers=server)) as client:
            with pytest.raises(KafkaError):
                await client.call("listTopics", client.metadata)

    asyncio.run(scenario())
    (line,) = caplog.messages
    return line


def test_a_client_without_tls_learns_that_the_port_speaks_tls(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    with silent_tls(context(certificates.server)) as port:
        line = logged({}, f"127.0.0.1:{port}", caplog)
    assert "this port speaks TLS, the client does not: set security.protocol=SSL or SASL_SSL" in line


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (OPEN, Port(is_kafka=True)),
        (LOCKED, Port(is_kafka=True, mechanisms=("PLAIN", "SCRAM-SHA-512"))),
    ],
)
def test_a_port_is_looked_at_with_and_without_tls(
    certificates: Certificates, script: Script, found: Port
) -> None:
    with ScriptedServer(script) as server:
        assert look_at(Address("127.0.0.1", server.port)) == found
    with ScriptedServer(script, tls=context(certificates.server)) as server:
        with_tls = Port(is_kafka=True, is_tls=True, mechanisms=found.mechanisms)
        assert look_at(Address("127.0.0.1", server.port)) == with_tls


def test_a_client_with_tls_learns_that_the_port_has_none(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    with ScriptedServer(LOCKED) as server:
        line = logged(certificates.client_config(), server.address, caplog)
    wanted = "set security.protocol=SASL_PLAINTEXT (sasl.mechanism PLAIN or SCRAM-SHA-512)"
    assert f"this port does not speak TLS. If the listener has no TLS on purpose, {wanted}" in line


def test_a_client_without_a_login_learns_the_mechanisms(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedServer(LOCKED) as server:
        line = logged({}, server.address, caplog)
    wanted = "set security.protocol=SASL_PLAINTEXT (sasl.mechanism PLAIN or SCRAM-SHA-512)"
    assert f"this port asks for a login: {wanted}" in line


def test_a_client_with_a_login_learns_that_the_port_has_none(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedServer(OPEN) as server:
        line = logged({"security.protocol": "SASL_PLAINTEXT", **LOGIN}, server.address, caplog)
    wanted = "If the listener has no login on purpose, set security.protocol=PLAINTEXT"
    assert f"this port asks for no login. {wanted}" in line
    assert "alice-secret" not in line


def test_a_mechanism_that_is_not_offered_is_shown_with_the_offered_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", **LOGIN, "sasl.mechanism": "SCRAM-SHA-256"}
    with ScriptedServer(LOCKED) as server:
        line = logged(login, server.address, caplog)
    assert "enabled mechanisms are [PLAIN, SCRAM-SHA-512]: choose one of these mechanisms" in line


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("server_expired", "expired: it is valid from 2020-01-01 to 2021-01-01"),
        ("server_elsewhere", "the certificate is for kafka.example, not for 127.0.0.1"),
        ("server_other", "comes from CN=other-ca,O=kcli tests, which is not in ssl.truststore.location"),
    ],
)
def test_the_log_names_the_fault_of_a_certificate(
    certificates: Certificates, caplog: pytest.LogCaptureFixture, name: str, hint: str
) -> None:
    with ScriptedServer(OPEN, tls=context(getattr(certificates, name))) as server:
        line = logged(certificates.client_config(), server.address, caplog)
    assert "failed authentication due to: SSL handshake failed" in line
    assert hint in line


def test_a_port_that_says_nothing_is_not_explained() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address("127.0.0.1", listener.getsockname()[1])
        listener.close()
        assert explain(address, None, NetworkException("closed")) == ""


@contextmanager
def silent_tls(tls: ssl.SSLContext) -> Iterator[int]:
    """A server of TLS that closes a connection without an alert if it is not TLS, as some servers do."""

    def serve(peer: socket.socket) -> None:
        if peer.recv(1, socket.MSG_PEEK) != b"\x16":
            peer.recv(4096)
            return
        with tls.wrap_socket(peer, server_side=True) as encrypted:
            encrypted.recv(4096)

    with _serving(serve) as port:
        yield port


@contextmanager
def _serving(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    def accept(listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                try:
                    serve(peer)
                except OSError:
                    continue

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_requests_at_the_same_time_log_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

    async def scenario() -> None:
        async with Client(client_config({}, bootstrap_servers=address)) as client:
            requests = (client.metadata() for _ in range(3))
            assert all(
                isinstance(each, KafkaError)
                for each in await asyncio.gather(*requests, return_exceptions=True)
            )

    asyncio.run(scenario())
    assert len(caplog.messages) == 1
