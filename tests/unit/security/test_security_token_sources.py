"""The tokens of OAUTHBEARER clients: unsecured tokens, token files, and token endpoints."""

from __future__ import annotations

import base64
import json
import pickle
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from kcli.errors import SaslAuthenticationException
from kcli.security.allowed_sources import AllowedSources
from kcli.security.jaas import login_module
from kcli.security.token_source import TokenSource
from kcli.security.token_sources import Renewed, expiry, extensions, token_source

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
URL = "sasl.oauthbearer.token.endpoint.url"


def source(properties: Mapping[str, str], options: str = "") -> TokenSource:
    """The source of these properties, all of whose URLs and files are allowed."""
    everything = AllowedSources(frozenset(properties.values()), frozenset(properties.values()))
    return token_source(properties.get, login_module(f"{MODULE} {options};"), everything)


def claims(token: str) -> dict[str, Any]:
    found: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return found


def test_an_unsecured_token_has_the_claims_of_the_login_module() -> None:
    options = (
        'unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_level="3" '
        'unsecuredLoginListClaim_scope=",read,write" unsecuredLoginLifetimeSeconds="60"'
    )
    token = source({}, options).token()
    assert token.endswith(".")
    found = claims(token)
    assert (found["sub"], found["level"], found["scope"]) == ("alice", 3.0, ["read", "write"])
    assert found["exp"] - found["iat"] == 60
    assert jwt.get_unverified_header(token) == {"alg": "none"}


def test_extensions_come_from_the_login_module() -> None:
    module = login_module(f'{MODULE} extension_logicalCluster="lkc-1" unsecuredLoginExtension_a="b" c="d";')
    assert extensions(module) == {"logicalCluster": "lkc-1", "a": "b"}


def test_a_token_file_is_read_for_each_login(tmp_path: Path) -> None:
    path = tmp_path / "token file.jwt"
    path.write_text("first\n")
    found = source({URL: f"file:{path}".replace(" ", "%20")})
    assert found.token() == "first"
    path.write_text("second")
    assert found.token() == "second"
    path.unlink()
    with pytest.raises(SaslAuthenticationException, match="cannot be read"):
        found.token()


Answer = Callable[[Mapping[str, list[str]], Mapping[str, str]], tuple[int, object]]


@contextmanager
def endpoint(answer: Answer) -> Iterator[str]:
    """A token endpoint on a real port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            status, content = answer(form, dict(self.headers))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", str(content))
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def made(lifetime_s: float) -> str:
    return jwt.encode({"sub": "alice", "exp": time.time() + lifetime_s}, "x" * 32, "HS256")


def secret_properties(url: str) -> dict[str, str]:
    return {
        URL: url,
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.client.credentials.client.id": "client",
        "sasl.oauthbearer.client.credentials.client.secret": "the+secret",
        "sasl.oauthbearer.scope": "kafka",
    }


@pytest.mark.parametrize("in_jaas", [True, False])
def test_a_client_with_a_secret_gets_a_token(in_jaas: bool) -> None:
    asked: list[tuple[Mapping[str, list[str]], Mapping[str, str]]] = []

    def answer(form: Mapping[str, list[str]], headers: Mapping[str, str]) -> tuple[int, object]:
        asked.append((form, headers))
        return 200, {"access_token": made(600), "token_type": "Bearer"}

    with endpoint(answer) as url:
        if in_jaas:
            found = source({URL: url}, 'clientId="client" clientSecret="the+secret" scope="kafka"')
        else:
            found = source(secret_properties(url))
        assert found.token() == found.token()
        copy = pickle.loads(pickle.dumps(found))
        assert isinstance(found, Renewed) and copy.source == found.source  # for the tasks of Spark
    ((form, headers),) = asked  # the second call used the token again
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"client:the+secret"
    assert "the+secret" not in repr(found)


def test_a_token_that_ends_soon_is_not_used_again() -> None:
    tokens = iter([made(0), made(600)])
    with endpoint(lambda form, headers: (200, {"access_token": next(tokens)})) as url:
        found = source(secret_properties(url))
        assert found.token() != found.token()


def test_a_refusal_is_final_and_shows_no_secret() -> None:
    asked: list[int] = []

    def refuses(form: object, headers: object) -> tuple[int, object]:
        asked.append(1)
        return 401, {"error": "invalid_client"}

    with endpoint(refuses) as url, pytest.raises(SaslAuthenticationException, match="answered 401") as caught:
        source(secret_properties(url)).token()
    assert len(asked) == 1
    assert "the+secret" not in str(caught.value)


def test_a_failing_endpoint_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.security.token_endpoint.BACKOFF_S", 0.0)
    answers = iter([(503, {}), (200, {"access_token": made(60)})])
    with endpoint(lambda form, headers: next(answers)) as url:
        assert claims(source(secret_properties(url)).token())["sub"] == "alice"


def test_the_secret_does_not_follow_a_redirect() -> None:
    asked: list[int] = []

    def other(form: object, headers: object) -> tuple[int, object]:
        asked.append(1)
        return 200, {"access_token": made(60)}

    with (
        endpoint(other) as target,
        endpoint(lambda form, headers: (302, target)) as url,
        pytest.raises(SaslAuthenticationException, match="answered 302"),
    ):
        source(secret_properties(url)).token()
    assert asked == []


def test_an_answer_without_a_token_is_refused() -> None:
    with (
        endpoint(lambda form, headers: (200, {"message": "hello"})) as url,
        pytest.raises(SaslAuthenticationException, match="has no access_token"),
    ):
        source(secret_properties(url)).token()


def test_an_endpoint_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.security.token_endpoint.BACKOFF_S", 0.0)
    with pytest.raises(SaslAuthenticationException, match="cannot be reached"):
        source(secret_properties("http://127.0.0.1:1/token")).token()


@pytest.mark.parametrize(
    "sent",
    [
        b"this is not HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\nthe part ends early",
    ],
)
def test_a_server_that_does_not_speak_http_is_refused(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.security.token_endpoint.BACKOFF_S", 0.0)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(sent)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/token"
        try:
            with pytest.raises(SaslAuthenticationException, match="cannot be reached: invalid answer"):
                source(secret_properties(url)).token()
        finally:
            server.shutdown()
            thread.join()


def test_a_trust_store_that_cannot_be_read_is_named() -> None:
    module = 'clientId="c" clientSecret="s" ssl.truststore.type="PEM" ssl.truststore.location="/nowhere.pem"'
    with pytest.raises(SaslAuthenticationException, match=r"cannot be called: .*/nowhere\.pem"):
        source({URL: "https://127.0.0.1:1/token"}, module).token()


def test_a_signed_assertion_is_sent(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = tmp_path / "key.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pw")))
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"header": {"kid": "k1"}, "payload": {"tenant": "t"}}))
    forms: list[Mapping[str, list[str]]] = []

    def answer(form: Mapping[str, list[str]], headers: object) -> tuple[int, object]:
        forms.append(form)
        return 200, {"access_token": made(60)}

    prefix = "sasl.oauthbearer.assertion"
    with endpoint(answer) as url:
        properties = {
            URL: url,
            "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever",
            f"{prefix}.private.key.file": str(path),
            f"{prefix}.private.key.passphrase": "pw",
            f"{prefix}.claim.iss": "issuer",
            f"{prefix}.claim.sub": "alice",
            f"{prefix}.claim.jti.include": "true",
            f"{prefix}.template.file": str(template),
        }
        source(properties).token()
        with pytest.raises(SaslAuthenticationException, match="no assertion can be made"):
            source(properties | {f"{prefix}.private.key.passphrase": "wrong"}).token()
    (form,) = forms
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    (assertion,) = form["assertion"]
    found = jwt.decode(assertion, key.public_key(), algorithms=["RS256"])
    assert (found["iss"], found["sub"], found["tenant"]) == ("issuer", "alice", "t")
    assert found["exp"] - found["iat"] == 300
    assert "jti" in found
    assert jwt.get_unverified_header(assertion)["kid"] == "k1"


@pytest.mark.parametrize(
    ("properties", "options", "words"),
    [
        ({}, "", "has no unsecuredLoginStringClaim_sub"),
        ({URL: "ftp://h/token"}, 'clientId="a" clientSecret="b"', "expected http"),
        ({URL: "http://h/token"}, 'clientId="a"', "client.secret is not set"),
        ({"sasl.login.callback.handler.class": "com.example.Mine"}, "", "cannot be loaded here"),
        ({"sasl.login.callback.handler.class": "x.OAuthBearerLoginCallbackHandler"}, "", "is not set"),
        ({URL: "http://h", "sasl.oauthbearer.jwt.retriever.class": "a.Mine"}, "", "expected ClientCred"),
        (
            {URL: "http://h", "sasl.oauthbearer.jwt.retriever.class": "a.JwtBearerJwtRetriever"},
            "",
            "neither .* is set",
        ),
    ],
)
def test_a_missing_or_invalid_key_is_named(properties: dict[str, str], options: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        source(properties, options)


@pytest.mark.parametrize("token", ["opaque", "a.b.c", "a.e30.c", "", "a.IQ.c"])
def test_the_end_of_an_opaque_token_is_not_known(token: str) -> None:
    assert expiry(token, 7.0) == 7.0
