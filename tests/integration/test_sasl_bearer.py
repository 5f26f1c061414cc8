"""OAUTHBEARER over real sockets: unsecured and signed tokens, the key set of a server, and its refresh."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.config.definition import ConfigError
from kcli.errors import ErrorCode
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.wire.api import ApiKey
from kcli.security.mechanisms.oauthbearer import BearerClient
from rigs.bearer import key_set, public_jwk, rsa_key, signed, unsecured
from rigs.loops import PATIENCE_S, until
from rigs.node import RunningNode, connect, create, running
from rigs.sasl import handshake, send_token

pytestmark = pytest.mark.compat

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
_MODULE = f"{_PACKAGE}.OAuthBearerLoginModule required"
PREFIX = "listener.name.sasl.oauthbearer."
UNSECURED = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "connection.failed.authentication.delay.ms": "1",
    f"{PREFIX}sasl.jaas.config": f'{_MODULE} unsecuredValidatorRequiredScope="kafka";',
}
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def signed_settings(url: str) -> dict[str, str]:
    return UNSECURED | {
        f"{PREFIX}sasl.jaas.config": f"{_MODULE};",
        f"{PREFIX}sasl.server.callback.handler.class": f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.expected.audience": "kafka",
        ALLOWED_URLS: f"https://elsewhere, {url}",
    }


def with_settings(
    directory: Path, settings: dict[str, str], story: Callable[[RunningNode], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with running(directory, **settings) as node:
            await asyncio.wait_for(story(node), PATIENCE_S)

    asyncio.run(main())


async def log_in(node: RunningNode, token: str, **extensions: str) -> Any:
    """Logs in. Returns the client and its last answer."""
    client = await connect(node, "SASL")
    await handshake(client, "OAUTHBEARER")
    ours = BearerClient(token, extensions)
    response = await send_token(client, ours.respond(b""))
    while response.error_code is ErrorCode.NONE and (answer := ours.respond(response.auth_bytes)) is not None:
        response = await send_token(client, answer)
    return client, response


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"sub": "alice", "iat": now, "exp": now + 60, "iss": "https://issuer", "aud": "kafka"} | changes


def is_valid(response: Any) -> bool:
    assert response.error_code is ErrorCode.NONE or response.error_message == '{"status":"invalid_token"}'
    valid: bool = response.error_code is ErrorCode.NONE
    return valid


def test_an_unsecured_token_logs_in_and_ends_its_session(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        now = time.time()
        token = unsecured(sub="alice", scope="a kafka", exp=now + 0.2)
        client, response = await log_in(node, token, traceId="5", logicalCluster="lkc")
        assert is_valid(response)
        assert 0 < response.session_lifetime_ms <= 200
        session = next(each.session for each in node.sockets.connections if each.session.mechanism)
        assert str(session.principal) == "User:alice"
        await until(lambda: asyncio.get_running_loop().time() > session.expires_at)
        client.post(MetadataRequest(), ApiKey.METADATA, 4)
        assert await client.at_end()

    with_settings(tmp_path, UNSECURED, story)


def test_a_refusal_is_json_and_comes_in_two_steps(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        scope = '{"status":"insufficient_scope", "scope":"[kafka]"}'
        for token, text in ((unsecured(sub="a", exp=9e9), scope), ("x", '{"status":"invalid_token"}')):
            client = await connect(node, "SASL")
            await handshake(client, "OAUTHBEARER")
            first = await send_token(client, BearerClient(token).respond(b""))
            assert (first.error_code, first.auth_bytes) == (ErrorCode.NONE, text.encode())
            last = await send_token(client, b"\x01")
            assert (last.error_code, last.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
            assert await client.at_end()
        # Another message than the confirmation is a new attempt.
        client = await connect(node, "SASL")
        await handshake(client, "OAUTHBEARER")
        await send_token(client, BearerClient("x").respond(b""))
        right = BearerClient(unsecured(sub="a", scope="kafka", exp=9e9)).respond(b"")
        assert (await send_token(client, right)).error_code is ErrorCode.NONE

    with_settings(tmp_path, UNSECURED, story)


GENERIC = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
)
OTHER_NAME = (
    "Authentication failed: Client requested an authorization id (bob) that is different from the token's principal "
    "name (alice)"
)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", GENERIC),
        (b"n,,\x01\x01", GENERIC),
        (b"n,,\x01auth=Basic x\x01\x01", GENERIC),
        (b"n,,\x01auth=Bearer x", GENERIC),
        (b"y,,\x01auth=Bearer x\x01\x01", GENERIC),
        (
            b"n,a=bob,\x01auth=bearer  "
            + unsecured(sub="alice", scope="kafka", exp=9e9).encode()
            + b"\x01\x01",
            OTHER_NAME,
        ),
    ],
)
def test_an_invalid_message_is_refused(tmp_path: Path, message: bytes, text: str) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node, "SASL")
        await handshake(client, "OAUTHBEARER")
        response = await send_token(client, message)
        assert response.error_message == text

    with_settings(tmp_path, UNSECURED, story)


def test_librdkafka_logs_in_with_an_unsecured_token(tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    async def story(node: RunningNode) -> None:
        await create(await connect(node), "orders")
        admin = AdminClient(
            {
                "bootstrap.servers": f"127.0.0.1:{node.port('SASL')}",
                "security.protocol": "sasl_plaintext",
                "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": True,
                "sasl.oauthbearer.config": "principal=alice scope=kafka",
            }
        )
        found = await asyncio.to_thread(admin.list_topics, timeout=20)
        assert "orders" in found.topics

    with_settings(tmp_path, UNSECURED, story)


class KeyServer:
    """A server of key sets, in a thread. `content` is what it serves; an int is a status."""

    def __init__(self) -> None:
        self.content: bytes | int = key_set(public_jwk(rsa_key(), "one"))
        self.calls = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.calls += 1
                content = outer.content
                if isinstance(content, int):
                    self.send_response(content)
                    self.send_header("Location", "/elsewhere")
                    self.end_headers()
                    return
                self.send_response(200)
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(content)

            def log_message(self, *_arguments: object) -> None:
                """Is silent."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"


@pytest.fixture
def key_server() -> Iterator[KeyServer]:
    served = KeyServer()
    thread = threading.Thread(target=served.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    served.server.shutdown()
    served.server.server_close()
    thread.join()


def test_signed_tokens_are_checked_with_the_keys_of_a_server(tmp_path: Path, key_server: KeyServer) -> None:
    async def story(node: RunningNode) -> None:
        await until(lambda: key_server.calls)

        async def accepts(token: str) -> bool:
            return is_valid((await log_in(node, token))[1])

        await _until_async(lambda: accepts(signed(rsa_key(), **claims())))
        assert not await accepts(signed(rsa_key(number=1), "one", **claims()))
        assert not await accepts(signed(rsa_key(), **claims(aud="other")))
        assert not await accepts(unsecured(**claims()))
        # The server has a new key. The first token with it causes a fetch.
        key_server.content = key_set(public_jwk(rsa_key(number=1), "two"))
        calls = key_server.calls
        await _until_async(lambda: accepts(signed(rsa_key(number=1), "two", **claims())))
        assert key_server.calls == calls + 1
        assert not await accepts(signed(rsa_key(), "one", **claims()))

    with_settings(tmp_path, signed_settings(key_server.url), story)


@pytest.mark.parametrize("failure", [500, 302, b"{}", b"x" * 2_000_000])
def test_old_keys_stay_if_a_fetch_fails_and_without_keys_each_token_is_refused(
    tmp_path: Path, key_server: KeyServer, failure: bytes | int, caplog: pytest.LogCaptureFixture
) -> None:
    right = key_server.content
    key_server.content = failure
    settings = signed_settings(key_server.url) | {"sasl.oauthbearer.jwks.endpoint.refresh.ms": "20"}

    async def story(node: RunningNode) -> None:
        async def accepts() -> bool:
            return is_valid((await log_in(node, signed(rsa_key(), **claims())))[1])

        await until(lambda: key_server.calls)
        assert not await accepts()
        key_server.content = right
        await _until_async(accepts)
        key_server.content = failure
        calls = key_server.calls
        await until(lambda: key_server.calls > calls + 1)
        assert await accepts()

    with_settings(tmp_path, settings, story)
    assert "cannot be fetched" in caplog.text


async def _until_async(is_done: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(int(PATIENCE_S / 0.02)):
        if await is_done():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen")


def test_the_key_set_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(public_jwk(rsa_key(), "one")))
    settings = signed_settings(path.as_uri())
    del settings[ALLOWED_URLS]
    settings["org.apache.kafka.sasl.oauthbearer.allowed.files"] = str(path)

    async def story(node: RunningNode) -> None:
        assert is_valid((await log_in(node, signed(rsa_key(), **claims())))[1])

    with_settings(tmp_path / "data", settings, story)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": None}, "jwks.endpoint.url is not set"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://h/x"}, "expected a URL with http, https or file"),
        ({ALLOWED_URLS: None}, "The URL cannot be accessed due to restrictions. Update the system property"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///etc/passwd"}, "The file cannot be accessed"),
        ({"sasl.oauthbearer.expected.issuer": None}, "expected.issuer is not set"),
        ({"sasl.oauthbearer.expected.audience": None}, "expected.audience is not set"),
        ({"sasl.oauthbearer.jwt.validator.class": f"{_PACKAGE}.ClientJwtValidator"}, "is not supported"),
        ({f"{PREFIX}sasl.jaas.config": "a.B required;"}, "needs the login module"),
        ({f"{PREFIX}sasl.jaas.config": None}, "Could not find a 'KafkaServer' or 'sasl.KafkaServer' entry"),
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "DIGEST-MD5 is unknown"),
        ({f"{PREFIX}sasl.server.callback.handler.class": "com.example.Unknown"}, "no installed package"),
    ],
)
def test_a_node_does_not_start_with_a_mistake(
    tmp_path: Path, changes: dict[str, str | None], message: str
) -> None:
    settings = {
        name: value
        for name, value in (signed_settings("http://127.0.0.1:1/keys") | changes).items()
        if value is not None
    }

    async def story(_node: RunningNode) -> None:
        pytest.fail("the node has started")

    with pytest.raises(ConfigError, match=message):
        with_settings(tmp_path, settings, story)
