"""The steps of `kcli doctor`: each mistake on the way to a server is named, with the change that repairs it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from kcli.client.config import client_config
from kcli.client.diagnosis import ports
from kcli.client.diagnosis.certificates import judge
from kcli.client.diagnosis.doctor import Wishes, diagnose
from kcli.client.diagnosis.finding import Finding, Status
from kcli.errors import ErrorCode
from kcli.model.addresses import Address
from kcli.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kcli.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kcli.protocol.wire.api import ApiKey
from rigs.certificates import Certificates, Issued
from rigs.scripted_server import ScriptedServer

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def diagnosed(server: str, wishes: Wishes | None = None, **properties: str) -> list[Finding]:
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    settings |= {"socket.connection.setup.timeout.ms": "2000", "default.api.timeout.ms": "3000"}
    config = client_config(settings, bootstrap_servers=server)

    async def collect() -> list[Finding]:
        found = diagnose(config, wishes or Wishes(), principal="User:alice", now=NOW)
        return [finding async for finding in found]

    return asyncio.run(collect())


def metadata_of(address: str) -> MetadataResponse:
    host, _, port = address.rpartition(":")
    return MetadataResponse(
        cluster_id="c", brokers=(MetadataResponseBroker(node_id=1, host=host, port=int(port)),)
    )


@contextlib.contextmanager
def port_that_says(answer: bytes | None) -> Iterator[Address]:
    """A port that answers every connection with these bytes. None: it never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    kept = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                kept.append(peer)
                if answer is not None:
                    peer.recv(1000)
                    peer.sendall(answer)
                    peer.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield Address("127.0.0.1", listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for peer in kept:
            peer.close()


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
        (b"220 mail.example ESMTP\r\n", "a protocol that is not Kafka"),
        (b"", "nothing: it closes the connection"),
    ],
)
def test_a_port_is_known_by_its_first_bytes(answer: bytes, other: str) -> None:
    with port_that_says(answer) as address:
        assert ports.look_at(address, 2.0) == ports.Port(other=other)


def test_a_port_that_never_answers_is_silent() -> None:
    with port_that_says(None) as address:
        assert ports.look_at(address, 0.05).other == "nothing: it does not answer"


def test_every_step_of_a_healthy_server_is_ok() -> None:
    with ScriptedServer({ApiKey.METADATA: lambda _request, _version: metadata_of(server.address)}) as server:
        found = diagnosed(server.address)
    assert {finding.status for finding in found} == {Status.OK}
    assert [finding.step for finding in found] == ["name", "port", "protocol", "versions", "cluster"]


@pytest.mark.parametrize(
    ("code", "step", "status", "advice"),
    [
        (ErrorCode.NONE, "rights", Status.WARNING, "--operation Read --group g"),
        (ErrorCode.GROUP_ID_NOT_FOUND, "group", Status.OK, ""),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "group", Status.WRONG, "--operation Read --group g"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "group", Status.WRONG, "see the broker's log"),
    ],
)
def test_a_group_is_checked_after_its_coordinator_has_loaded(
    code: ErrorCode, step: str, status: Status, advice: str
) -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, code]
    server: ScriptedServer

    def described(*_: object) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(
            groups=(DescribedGroup(group_id="g", error_code=codes.pop(0), authorized_operations=0),)
        )

    def found_coordinator(*_: object) -> FindCoordinatorResponse:
        host, _, port = server.address.rpartition(":")
        coordinator = Coordinator(key="g", node_id=1, host=host, port=int(port))
        return FindCoordinatorResponse(coordinators=(coordinator,))

    script = {
        ApiKey.METADATA: lambda *_: metadata_of(server.address),
        ApiKey.FIND_COORDINATOR: found_coordinator,
        ApiKey.DESCRIBE_GROUPS: described,
    }
    with ScriptedServer(script) as server:
        *_, finding = diagnosed(server.address, Wishes(groups=("g",)))
    assert (finding.step, finding.status) == (step, status)
    assert advice in finding.advice


def test_an_unknown_name_ends_the_walk() -> None:
    (finding,) = diagnosed("no-such-name.invalid:9092")
    assert (finding.status, finding.step) == (Status.WRONG, "name")
    assert "no-such-name.invalid cannot be resolved" in finding.text


def test_a_closed_port_ends_the_walk() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    last = diagnosed(f"127.0.0.1:{port}")[-1]
    assert (last.status, last.step) == (Status.WRONG, "port")
    assert "Connection refused" in last.text


def test_a_broker_that_advertises_an_unreachable_address_is_named() -> None:
    with ScriptedServer({ApiKey.METADATA: lambda *_: metadata_of("no-such-name.invalid:9092")}) as server:
        last = diagnosed(server.address)[-1]
    assert last.status is Status.WRONG
    assert "broker 1 advertises this address" in last.text
    assert "advertised.listeners of broker 1" in last.advice


def test_a_port_that_needs_a_login_names_its_mechanisms() -> None:
    def refuse(_request: object, _version: int) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(
            error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=("PLAIN", "SCRAM-SHA-512")
        )

    script = {ApiKey.METADATA: lambda *_: None, ApiKey.SASL_HANDSHAKE: refuse}
    with ScriptedServer(script) as server:
        last = diagnosed(server.address)[-1]
    assert last.text == "this port needs a login, the client does not log in"
    assert "SASL_PLAINTEXT (sasl.mechanism PLAIN or SCRAM-SHA-512)" in last.advice


def test_a_wrong_password_is_named_without_the_password() -> None:
    script = {
        ApiKey.SASL_HANDSHAKE: lambda *_: SaslHandshakeResponse(mechanisms=("PLAIN",)),
        ApiKey.SASL_AUTHENTICATE: lambda *_: SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            error_message="Authentication failed: Invalid username or password",
        ),
    }
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="s3cret";'
    with ScriptedServer(script) as server:
        found = diagnosed(
            server.address, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=jaas
        )
    assert found[-1].text == "Authentication failed: Invalid username or password"
    assert "s3cret" not in str(found)


class TestTls:
    def test_a_client_without_tls_learns_the_protocol(self, certificates: Certificates) -> None:
        with ScriptedServer({}, tls=server_context(certificates.server)) as server:
            last = diagnosed(server.address)[-1]
        assert last.text == "this port speaks TLS, the client does not"
        assert last.advice == "set security.protocol=SSL"

    def test_a_client_with_tls_learns_the_protocol(self, certificates: Certificates) -> None:
        with ScriptedServer({}) as server:
            last = diagnosed(server.address, **trusting(certificates))[-1]
        assert last.text == "the client speaks TLS, this port does not"
        assert "If the listener has no TLS on purpose, set security.protocol=PLAINTEXT" in last.advice

    def test_a_right_certificate_is_ok(self, certificates: Certificates) -> None:
        server = ScriptedServer({}, tls=server_context(certificates.server))
        server.script = {ApiKey.METADATA: lambda *_: metadata_of(server.address)}
        with server:
            found = diagnosed(server.address, **trusting(certificates))
        assert {finding.status for finding in found} == {Status.OK}
        assert [finding.step for finding in found][2:5] == ["tls", "certificate", "versions"]

    def test_an_expired_certificate_shows_its_day(self, certificates: Certificates) -> None:
        with ScriptedServer({}, tls=server_context(certificates.server_expired)) as server:
            last = diagnosed(server.address, **trusting(certificates))[-1]
        assert last.text == "the certificate expired on 2021-01-01"

    def test_a_certificate_for_another_name_shows_its_names(self, certificates: Certificates) -> None:
        with ScriptedServer({}, tls=server_context(certificates.server_elsewhere)) as server:
            last = diagnosed(server.address, **trusting(certificates))[-1]
        assert last.step == "certificate"
        assert "and not for 127.0.0.1" in last.text

    def test_an_unknown_authority_is_named(self, certificates: Certificates) -> None:
        with ScriptedServer({}, tls=server_context(certificates.server_other)) as server:
            last = diagnosed(server.address, **trusting(certificates))[-1]
        assert last.text.startswith("the client does not trust the certificate, which CN=")
        assert "ssl.truststore" in last.advice

    def test_a_missing_client_certificate_is_named(self, certificates: Certificates) -> None:
        context = server_context(certificates.server)
        context.load_verify_locations(certificates.authority.pem)
        context.verify_mode = ssl.CERT_REQUIRED
        with ScriptedServer({}, tls=context) as server:
            last = diagnosed(server.address, **trusting(certificates))[-1]
        assert last.status is Status.WRONG
        assert "ssl.keystore" in last.advice


def test_a_certificate_that_expires_soon_is_a_warning(certificates: Certificates) -> None:
    ends = certificates.server.certificate.not_valid_after_utc
    soon = judge(
        certificates.server.certificate, "localhost", "s", ends - timedelta(days=3), checks_name=True
    )
    assert soon.status is Status.WARNING
    assert "in 3 days" in soon.text


def server_context(issued: Issued) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.pem)
    return context


def trusting(certificates: Certificates) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in certificates.client_config().items()}
