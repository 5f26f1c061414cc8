"""TLS and SASL of the Spark side's connections, against servers that check them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.errors import ErrorCode, ProtocolError, SaslAuthenticationException
from kcli.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.wire.api import ApiKey
from kcli.security.client import ClientSecurity, client_security
from kcli.security.mechanisms.scram import MECHANISMS, salted_password, server_keys
from kcli.spark.client.cluster import Cluster
from kcli.spark.options import source_options
from rigs.scripted_server import ScriptedAnswer, ScriptedServer

USER, PASSWORD = "al,i=ce", 'sec"ret'
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al,i=ce" password="sec\\"ret";'


class Guard:
    """The server's side of SASL, for one user."""

    def __init__(self) -> None:
        self.mechanism, self.passed = "", False
        self.challenge = self.first = ""
        script: dict[ApiKey, ScriptedAnswer] = {
            ApiKey.SASL_HANDSHAKE: self.handshake,
            ApiKey.SASL_AUTHENTICATE: self.authenticate,
            ApiKey.METADATA: self.metadata,
        }
        self.server = ScriptedServer(script)

    def handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        self.mechanism = request.mechanism
        known = ("PLAIN", "SCRAM-SHA-512")
        wrong = ErrorCode.NONE if request.mechanism in known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=wrong, mechanisms=known)

    def authenticate(self, request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
        if self.mechanism == "PLAIN":
            self.passed = request.auth_bytes == f"\0{USER}\0{PASSWORD}".encode()
            return self.answer(b"")
        text = request.auth_bytes.decode()
        mechanism = MECHANISMS[self.mechanism]
        salted = salted_password(mechanism, PASSWORD.encode(), b"salt", 4096)
        if text.startswith("n,,"):
            self.first = text[3:]
            assert self.first.startswith("n=al=2Ci=3Dce,r=")
            nonce = self.first.rpartition("r=")[2]
            self.challenge = f"r={nonce}more,s={base64.b64encode(b'salt').decode()},i=4096"
            self.passed = True
            return self.answer(self.challenge.encode())
        keys = server_keys(mechanism, salted)
        without, _, proof = text.rpartition(",p=")
        said = ",".join((self.first, self.challenge, without)).encode()
        signature = hmac.digest(keys.stored_key, said, mechanism.hash_name)
        client = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        self.passed = hashlib.new(mechanism.hash_name, client).digest() == keys.stored_key
        verifier = base64.b64encode(hmac.digest(keys.server_key, said, mechanism.hash_name))
        return self.answer(b"v=" + verifier)

    def answer(self, content: bytes) -> SaslAuthenticateResponse:
        if self.passed:
            return SaslAuthenticateResponse(auth_bytes=content)
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return SaslAuthenticateResponse(error_code=code, error_message="Invalid username or password")

    def metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        assert self.passed
        return MetadataResponse()


@pytest.fixture
def guard() -> Iterator[Guard]:
    made = Guard()
    with made.server:
        yield made


def connected(address: str, **more: str) -> list[str]:
    settings = {"kafka.bootstrap.servers": address, "subscribe": "t"}
    with Cluster(source_options(settings | more, streaming=False).client) as cluster:
        return cluster.topic_names()


def sasl(mechanism: str, jaas: str = JAAS, protocol: str = "SASL_PLAINTEXT") -> dict[str, str]:
    return {
        "kafka.security.protocol": protocol,
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": jaas,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_each_mechanism_logs_in(guard: Guard, mechanism: str) -> None:
    assert connected(guard.server.address, **sasl(mechanism)) == []
    wrong = JAAS.replace("ret", "red")
    with pytest.raises(
        SaslAuthenticationException, match="refuses al,i=ce: Invalid username or password"
    ) as caught:
        connected(guard.server.address, **sasl(mechanism, wrong))
    assert "red" not in str(caught.value).replace("required", "")


def test_a_mechanism_that_is_not_offered(guard: Guard) -> None:
    with pytest.raises(SaslAuthenticationException, match="SCRAM-SHA-256; it supports PLAIN, SCRAM-SHA-512"):
        connected(guard.server.address, **sasl("SCRAM-SHA-256"))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"kafka.security.protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL are known"),
        (sasl("GSSAPI"), "kafka.sasl.jaas.config: No serviceName defined in either JAAS or Kafka config"),
        (sasl("PLAIN", "no names here"), "kafka.sasl.jaas.config: Invalid login module control flag"),
        ({"kafka.ssl.key.password": "x"}, "kafka.ssl.key.password has no effect while"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.keystore.location": "/a.jks"},
            "SSL key store is specified, but key store password is not specified.",
        ),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.endpoint.identification.algorithm": "x"}, "https, or"),
    ],
)
def test_a_wrong_setting_is_named_without_its_password(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        client_security(options, "kafka.", is_strict=True)
    assert PASSWORD not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    security = client_security(sasl("PLAIN"), "kafka.")
    assert isinstance(security, ClientSecurity)
    assert "sec" not in repr(security).replace("security", "").replace("Security", "")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificate can be made")
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{path}.key", "-out", f"{path}.crt"]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    path.write_text(Path(f"{path}.crt").read_text() + Path(f"{path}.key").read_text())
    return path


@contextlib.contextmanager
def behind_tls(target: int, certificate: Path) -> Iterator[str]:
    """A listener that takes the TLS off one connection after another, asks port `target` and passes its answer back."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with (
                contextlib.suppress(OSError),
                peer,
                context.wrap_socket(peer, server_side=True) as outer,
                socket.create_connection(("127.0.0.1", target)) as inner,
            ):
                while frame := outer.recv(65536):  # one request at a time, small ones
                    inner.sendall(frame)
                    outer.sendall(inner.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_tls_is_spoken_if_the_protocol_asks_for_it(guard: Guard, certificate: Path) -> None:
    trust = {"kafka.ssl.truststore.location": str(certificate), "kafka.ssl.truststore.type": "PEM"}
    text = {"kafka.ssl.truststore.certificates": Path(f"{certificate}.crt").read_text()}
    with behind_tls(guard.server.port, certificate) as address:
        assert connected(address, **sasl("PLAIN", protocol="SASL_SSL"), **trust) == []
        assert connected(address, **sasl("SCRAM-SHA-512", protocol="SASL_SSL"), **text) == []
        with pytest.raises(ProtocolError, match=r"is not trusted .* see kafka.ssl.truststore"):
            connected(address, **{"kafka.security.protocol": "SSL"})


def test_tls_to_a_plaintext_port_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(b"HTTP/1.1 400 Bad Request")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ProtocolError, match=r"no TLS with .*check kafka.security.protocol"):
            connected(f"127.0.0.1:{listener.getsockname()[1]}", **{"kafka.security.protocol": "SSL"})
        thread.join()
