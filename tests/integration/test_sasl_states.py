"""The states of a SASL login over real sockets: the table of Kafka's answers, as data."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kcli.errors import ErrorCode
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.protocol.wire.api import ApiKey
from kcli.security.mechanisms.client import Credentials
from kcli.security.mechanisms.client import client_exchange as scram_client
from kcli.server.logins.login import Login
from kcli.server.network.login_counts import LoginCounts
from rigs.loops import PATIENCE_S, until
from rigs.node import RunningNode, connect, running
from rigs.sasl import (
    ALICE,
    BOB,
    PLAIN_MODULE,
    SASL_LISTENER,
    SCRAM_MODULE,
    add_user,
    handshake,
    log_in,
    numbers,
    send_token,
)
from rigs.wire_client import Client

VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
ENABLED = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
RIGHT = b"\0alice\0a=b,c"
CLOSED = "closed"


def with_sasl(directory: Path, story: Callable[[RunningNode], Awaitable[None]], **overrides: str) -> None:
    async def main() -> None:
        settings = SASL_LISTENER | {"connection.failed.authentication.delay.ms": "1"} | overrides
        async with running(directory, **settings) as node:
            await asyncio.wait_for(story(node), PATIENCE_S)

    asyncio.run(main())


async def versions(client: Client, version: int = 3, **fields: str) -> ErrorCode:
    request = ApiVersionsRequest(**{"client_software_name": "t", "client_software_version": "1", **fields})
    answer: ErrorCode = (await client.call(request, ApiKey.API_VERSIONS, version)).error_code
    return answer


async def unknown_versions(client: Client) -> ErrorCode:
    client.correlation_id += 1
    header = struct.pack(">hhihb", ApiKey.API_VERSIONS, 99, client.correlation_id, -1, 0)
    client.writer.write(struct.pack(">i", len(header)) + header)
    _, response = await client.receive(ApiKey.API_VERSIONS, 0)
    code: ErrorCode = response.error_code
    return code


async def step(client: Client, word: str) -> object:
    """Does what a word of the table says. Returns the error code of the answer, or CLOSED."""
    try:
        match word:
            case "versions":
                return await versions(client)
            case "versions?":
                return await unknown_versions(client)
            case "versions!":
                return await versions(client, client_software_name="not allowed")
            case "metadata":
                return (await client.call(MetadataRequest(topics=()), ApiKey.METADATA, 4)).error_code
            case "list":
                client.post(ProduceRequest(acks=1, timeout_ms=1), ApiKey.PRODUCE, 9)
            case "handshake" | "handshake0":
                response = await handshake(client, "PLAIN", 0 if word.endswith("0") else 1)
                assert response.error_code or response.mechanisms == ENABLED
                return response.error_code
            case "handshake NONE":
                response = await handshake(client, "NONE")
                assert response.mechanisms == ENABLED
                return response.error_code
            case "token":
                return (await send_token(client, RIGHT)).error_code
            case "token v0":
                return (await send_token(client, RIGHT, 0)).error_code
            case "wrong":
                return (await send_token(client, b"\0alice\0wrong")).error_code
            case "raw" | "raw wrong":
                body = RIGHT if word == "raw" else b"\0alice\0wrong"
                client.writer.write(struct.pack(">i", len(body)) + body)
                (size,) = struct.unpack(">i", await client.reader.readexactly(4))
                return await client.reader.readexactly(size)
            case "garbage":
                client.writer.write(struct.pack(">i", 3) + b"abc")
            case "oversized":
                client.writer.write(struct.pack(">i", 524_289))
            case "negative":
                client.writer.write(struct.pack(">i", -1))
        assert await client.at_end()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    return CLOSED


NONE, ILLEGAL, REFUSED = ErrorCode.NONE, ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.SASL_AUTHENTICATION_FAILED
UNSUPPORTED = ErrorCode.UNSUPPORTED_SASL_MECHANISM

# The words of a story, and the answer to each word. After the last word, CLOSED means that the connection is closed.
TABLE: list[tuple[str, list[object]]] = [
    # INITIAL_REQUEST
    ("metadata", [CLOSED]),
    ("list", [CLOSED]),
    ("token", [CLOSED]),
    ("garbage", [CLOSED]),
    ("oversized", [CLOSED]),
    ("negative", [CLOSED]),
    # HANDSHAKE_OR_VERSIONS_REQUEST
    ("versions? versions! versions handshake token metadata", [35, 42, NONE, NONE, NONE, NONE]),
    ("versions? metadata", [35, CLOSED]),
    ("versions? handshake token", [35, NONE, NONE]),
    # HANDSHAKE_REQUEST
    ("versions versions", [NONE, CLOSED]),
    ("versions versions?", [NONE, CLOSED]),
    ("versions metadata", [NONE, CLOSED]),
    ("versions token", [NONE, CLOSED]),
    ("versions handshake_NONE end", [NONE, UNSUPPORTED, CLOSED]),
    ("handshake_NONE end", [UNSUPPORTED, CLOSED]),
    # AUTHENTICATE, v0
    ("handshake0 raw metadata", [NONE, b"", NONE]),
    ("handshake0 raw_wrong", [NONE, CLOSED]),
    ("handshake0 garbage", [NONE, CLOSED]),
    ("handshake0 oversized", [NONE, CLOSED]),
    # AUTHENTICATE, v1
    ("handshake token metadata", [NONE, NONE, NONE]),
    ("handshake token_v0 metadata", [NONE, NONE, NONE]),
    ("handshake wrong end", [NONE, REFUSED, CLOSED]),
    ("handshake handshake end", [NONE, ILLEGAL, CLOSED]),
    ("handshake versions end", [NONE, ILLEGAL, CLOSED]),
    ("handshake garbage", [NONE, CLOSED]),
    ("handshake oversized", [NONE, CLOSED]),
    # COMPLETE
    ("handshake token handshake metadata", [NONE, NONE, ILLEGAL, NONE]),
    ("handshake token token metadata", [NONE, NONE, ILLEGAL, NONE]),
    ("handshake token versions metadata", [NONE, NONE, NONE, NONE]),
]


def test_each_state_answers_as_kafka_does(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        for words, answers in TABLE:
            client = await connect(node, "SASL")
            found = [await step(client, word.replace("_", " ")) for word in words.split()]
            assert found == answers, words

    with_sasl(tmp_path, story)


async def again(client: Client, credentials: Credentials = ALICE) -> tuple[ErrorCode, str | None, int]:
    """Logs in. Returns the error, its text, and the lifetime of the session."""
    response = await log_in(client, credentials)
    return response.error_code, response.error_message, response.session_lifetime_ms


async def served(client: Client) -> bool:
    """Whether the broker answers a request with a session."""
    return await step(client, "metadata") == NONE


def session_of(node: RunningNode, client: Client) -> str:
    port = client.writer.get_extra_info("sockname")[1]
    (found,) = [each for each in node.sockets.connections if each.peer_port == port]
    return str(found.session.principal)


def test_a_refusal_says_as_much_as_kafkas(tmp_path: Path) -> None:
    tokens = {
        b"\0alice": "Invalid SASL/PLAIN response: expected 3 tokens, got 2",
        b"a\0b\0c\0d\0e": "Invalid SASL/PLAIN response: expected 3 tokens, got 4",
        b"\0\0secret": "Authentication failed: username not specified",
        b"\0alice\0": "Authentication failed: password not specified",
        b"\0alice\0wrong": "Authentication failed: Invalid username or password",
        b"\0nobody\0wrong": "Authentication failed: Invalid username or password",
        b"bob\0alice\0a=b,c": (
            "Authentication failed: Client requested an authorization id that is different from username"
        ),
        b"\0\xff\0x": "Authentication failed: Invalid username or password",  # read with a replacement character
    }

    async def story(node: RunningNode) -> None:
        for token, text in tokens.items():
            client = await connect(node, "SASL")
            await handshake(client, "PLAIN")
            response = await send_token(client, token)
            assert (response.error_code, response.error_message) == (REFUSED, text)
            assert await client.at_end()
        client = await connect(node, "SASL")
        await handshake(client, "PLAIN")
        assert (await send_token(client, b"alice\0alice\0a=b,c")).error_code is NONE
        assert session_of(node, client) == "User:alice"

    with_sasl(tmp_path, story)


def test_scram_refuses_an_unknown_user_as_a_wrong_password(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        await add_user(node, "dave", "secret", "SCRAM-SHA-256")
        assert (await again(await connect(node, "SASL"), Credentials("SCRAM-SHA-256", "dave", "secret")))[
            0
        ] is NONE
        text = (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            "SCRAM-SHA-256"
        )
        for user, password in (("dave", "wrong"), ("nobody", "secret")):
            credentials = Credentials("SCRAM-SHA-256", user, password)
            client = await connect(node, "SASL")
            await handshake(client, "SCRAM-SHA-256")
            ours = scram_client(credentials)
            challenge = await send_token(client, ours.respond(b""))
            assert challenge.error_code is NONE
            answer = await send_token(client, ours.respond(challenge.auth_bytes))
            assert (answer.error_code, answer.error_message) == (REFUSED, text)
        # The user has a credential for one mechanism only.
        credentials = Credentials("SCRAM-SHA-512", "dave", "secret")
        assert (await again(await connect(node, "SASL"), credentials))[0] is REFUSED

    with_sasl(tmp_path, story)


def test_nothing_that_is_pipelined_behind_a_refused_login_is_served(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node, "SASL")
        client.post(SaslHandshakeRequest(mechanism="PLAIN"), ApiKey.SASL_HANDSHAKE, 1)
        client.post(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), ApiKey.SASL_AUTHENTICATE, 2)
        client.post(MetadataRequest(), ApiKey.METADATA, 4)
        assert (await client.receive(ApiKey.SASL_HANDSHAKE, 1))[1].error_code is NONE
        assert (await client.receive(ApiKey.SASL_AUTHENTICATE, 2))[1].error_code is REFUSED
        assert await client.at_end()

    with_sasl(tmp_path, story, **{"connection.failed.authentication.delay.ms": "20"})


def test_a_request_that_is_pipelined_behind_a_login_has_its_session(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node, "SASL")
        client.post(SaslHandshakeRequest(mechanism="PLAIN"), ApiKey.SASL_HANDSHAKE, 1)
        client.post(SaslAuthenticateRequest(auth_bytes=RIGHT), ApiKey.SASL_AUTHENTICATE, 2)
        client.post(MetadataRequest(topics=()), ApiKey.METADATA, 4)
        await client.receive(ApiKey.SASL_HANDSHAKE, 1)
        await client.receive(ApiKey.SASL_AUTHENTICATE, 2)
        await client.receive(ApiKey.METADATA, 4)
        assert session_of(node, client) == "User:alice"

    with_sasl(tmp_path, story)


HOUR = {"connections.max.reauth.ms": "3600000"}


def test_a_client_logs_in_again_on_its_connection(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node, "SASL")
        assert await again(client) == (NONE, None, 3_600_000)
        assert await again(client) == (NONE, None, 3_600_000)
        assert await served(client)
        # The next login within a second is refused, and the session stays.
        assert (await handshake(client, "PLAIN")).error_code is ILLEGAL
        assert await served(client)

    with_sasl(tmp_path, story, **HOUR)


def test_a_client_keeps_its_principal_and_its_mechanism(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        await add_user(node, "alice", "secret", "SCRAM-SHA-256")
        client = await connect(node, "SASL")
        await again(client)
        text = "Cannot change principals during re-authentication from User.alice: User.bob"
        assert await again(client, BOB) == (REFUSED, text, 0)
        assert await client.at_end()

        client = await connect(node, "SASL")
        await again(client)
        assert (await handshake(client, "SCRAM-SHA-256")).error_code is NONE
        client.post(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=x"), ApiKey.SASL_AUTHENTICATE, 2)
        assert await client.at_end()

        client = await connect(node, "SASL")
        await again(client)
        answer = await again(client, Credentials("PLAIN", "alice", "wrong"))
        assert answer == (REFUSED, "Authentication failed: Invalid username or password", 0)
        assert await client.at_end()

    with_sasl(tmp_path, story, **HOUR)


def test_no_request_is_served_while_a_client_logs_in_again(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        for word in ("versions", "handshake"):
            client = await connect(node, "SASL")
            await again(client)
            assert (await handshake(client, "PLAIN")).error_code is NONE
            assert await step(client, word) == ILLEGAL
            assert await client.at_end()

    with_sasl(tmp_path, story, **HOUR)


def test_an_expired_session_ends_at_the_next_request_and_a_new_login_saves_it(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        late, prompt = await connect(node, "SASL"), await connect(node, "SASL")
        assert (await again(late))[2] == 40
        await again(prompt)
        loop = asyncio.get_running_loop()
        ends = max(each.session.expires_at or 0 for each in node.sockets.connections)
        await until(lambda: loop.time() > ends)
        assert await again(prompt) == (NONE, None, 40)
        assert await step(late, "list") == CLOSED
        assert node.sockets.listeners["SASL"].logins.expired == 1

    with_sasl(tmp_path, story, **{"listener.name.sasl.plain.connections.max.reauth.ms": "40"})


def test_a_failure_is_answered_after_the_delay(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        loop = asyncio.get_running_loop()
        for mechanism, refused in (("PLAIN", True), ("NONE", False)):
            client = await connect(node, "SASL")
            began = loop.time()
            await handshake(client, mechanism)
            if refused:
                await send_token(client, b"\0alice\0wrong")
            assert loop.time() - began >= 0.2
            assert await client.at_end()

    with_sasl(tmp_path, story, **{"connection.failed.authentication.delay.ms": "200"})


def test_the_log_has_one_line_a_second_about_failures(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: RunningNode) -> None:
        for _ in range(5):
            await again(await connect(node, "SASL"), Credentials("PLAIN", "alice", "s3cret"))

    with caplog.at_level("INFO"):
        with_sasl(tmp_path, story)
    lines = [each.getMessage() for each in caplog.records if "Failed authentication" in each.getMessage()]
    assert len(lines) <= 2
    assert "/127.0.0.1 on listener SASL (Authentication failed: Invalid username or password)" in lines[0]
    assert "s3cret" not in caplog.text


def test_failures_on_one_listener_do_not_delay_the_others(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        now = asyncio.get_running_loop().time()
        client, other = await connect(node, "SASL"), await connect(node, "OTHER")
        connections = {each.listener: each for each in node.sockets.connections}
        tables = {}
        for name, connection in connections.items():
            phase = connection.login.last
            assert isinstance(phase, Login)
            tables[name] = phase._settings.failures
        for _ in range(10_000):
            tables["SASL"].failed(connections["SASL"].peer_host, now, "SASL", "wrong")
        assert (await again(other))[0] is NONE
        assert await step(client, "handshake") is NONE
        assert await step(client, "wrong") == CLOSED

    more = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,OTHER://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,OTHER:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "listener.name.other.plain.sasl.jaas.config": PLAIN_MODULE,
        "listener.name.other.scram-sha-256.sasl.jaas.config": SCRAM_MODULE,
    }
    with_sasl(tmp_path, story, **more)


def test_refused_strangers_share_one_line_a_second(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(node: RunningNode) -> None:
        for word in 10 * ("metadata", "garbage", "oversized"):
            assert await step(await connect(node, "SASL"), word) == CLOSED

    with caplog.at_level("WARNING"):
        with_sasl(tmp_path, story)
    lines = [each for each in caplog.messages if "Closing connection" in each]
    assert 1 <= len(lines) < 10
    assert "not a kafka client" in lines[0]


def test_logins_are_counted_for_the_metrics_of_the_listener(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        client = await connect(node, "SASL")
        await again(client)
        await again(client)
        client = await connect(node, "SASL")
        await again(client)
        await again(client, BOB)
        old = await connect(node, "SASL")
        await handshake(old, "PLAIN", 0)
        await step(old, "raw")
        await again(await connect(node, "SASL"), Credentials("PLAIN", "alice", "wrong"))
        counts = node.sockets.listeners["SASL"].logins
        expected = LoginCounts(
            succeeded=3, succeeded_without_again=1, succeeded_again=1, failed=1, failed_again=1
        )
        assert numbers(counts) == numbers(expected)
        assert (counts.again_ms.count, counts.again_ms.total > 0) == (1, True)
        assert numbers(node.sockets.listeners["PLAINTEXT"].logins) == numbers(LoginCounts())

    with_sasl(tmp_path, story, **HOUR)
