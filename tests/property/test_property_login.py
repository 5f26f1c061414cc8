"""The state machine of SASL logins against a table, with requests in any order and with garbage.

The table has every allowed move. Every other request must close the connection, and no request may reach a handler.
"""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import ErrorCode, KafkaError, ProtocolError
from kcli.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.packing import read_request_header
from kcli.runtime.clock import SystemClock
from kcli.security.mechanisms import plain, scram
from kcli.security.mechanisms.server import ServerMechanism, Success
from kcli.security.principal import ANONYMOUS_SESSION, Principal, Session
from kcli.server.logins.failed_logins import FailedLogins
from kcli.server.logins.login import Login, LoginSettings, user_principal
from kcli.server.network.login_counts import LoginCounts

SHA_256 = scram.MECHANISMS["SCRAM-SHA-256"]
USERS = scram.ScramUsers(lambda _name, _mechanism: None, secret=b"x")
FAILING, OWN_CHECK, OF_TOKENS = "FAILING", "OWN-CHECK", "OF-TOKENS"


class Failing:
    """A mechanism with a bug."""

    def step(self, _token: bytes) -> Success:
        raise ZeroDivisionError


class OfTokens:
    """A mechanism whose clients log in with a token. The token of the client is the type of the owner."""

    def step(self, token: bytes) -> Success:
        return Success("alice", owner=Principal(token.decode(), "alice"))


def no_directory(_username: str, _password: str) -> bool:
    """A check of an operator that fails. Its text has a secret."""
    raise PermissionError("secret")


MECHANISMS = {
    "PLAIN": lambda: plain.PlainServer(plain.Passwords({"user_alice": "secret"})),
    "SCRAM-SHA-256": lambda: scram.ScramServer(SHA_256, USERS, "nonce"),
    FAILING: Failing,
    OF_TOKENS: OfTokens,
    OWN_CHECK: lambda: plain.PlainServer(no_directory),
}


def body(message: Any, key: ApiKey, version: int) -> bytes:
    return bytes(codec.encode_request(message, key, version, 7, "client"))[4:]


def handshake(mechanism: str, version: int = 1) -> bytes:
    return body(SaslHandshakeRequest(mechanism=mechanism), ApiKey.SASL_HANDSHAKE, version)


def token(content: bytes, version: int = 2) -> bytes:
    return body(SaslAuthenticateRequest(auth_bytes=content), ApiKey.SASL_AUTHENTICATE, version)


def versions(name: str) -> bytes:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return body(request, ApiKey.API_VERSIONS, 3)


RIGHT = b"\0alice\0secret"
FRAMES = {
    "versions": versions("good"),
    "bad versions": versions("not good!"),
    "plain": handshake("PLAIN"),
    "plain v0": handshake("PLAIN", 0),
    "scram": handshake("SCRAM-SHA-256"),
    "failing": handshake(FAILING),
    "own check": handshake(OWN_CHECK),
    "other mechanism": handshake("GSSAPI"),
    "right": token(RIGHT),
    "right v0": token(RIGHT, 0),
    "wrong": token(b"\0alice\0wrong"),
    "empty": token(b""),
    "raw": RIGHT,
    "first": token(b"n,,n=alice,r=x"),
    "metadata": body(MetadataRequest(), ApiKey.METADATA, 4),
    "cut off": handshake("PLAIN")[:-1],
    "unknown version": struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, 9, 7, -1),
    "no frame": b"",
}

# (state, frame) -> (next state, answer). "closed" is the end without an answer, and "refused" is the end with one.
BEGIN = {
    "bad versions": ("versions", "answered"),
    "plain": ("plain", "answered"),
    "plain v0": ("raw", "answered"),
    "scram": ("scram", "answered"),
    "failing": ("failing", "answered"),
    "own check": ("failing", "answered"),
    "other mechanism": ("ended", "refused"),
}
REQUESTS = ("versions", "bad versions", "metadata", "unknown version", "cut off", *BEGIN)
ILLEGAL = dict.fromkeys(REQUESTS, ("ended", "refused"))
WRONG = dict.fromkeys(("wrong", "empty", "first"), ("ended", "refused"))
TABLE: dict[str, dict[str, tuple[str, str]]] = {
    "initial": BEGIN | {"versions": ("handshake", "answered")},
    "versions": BEGIN | {"versions": ("handshake", "answered")},
    "handshake": {name: move for name, move in BEGIN.items() if name != "bad versions"},
    "plain": ILLEGAL | WRONG | {"right": ("ended", "session"), "right v0": ("ended", "session")},
    "raw": {"raw": ("ended", "session")},
    "scram": ILLEGAL
    | WRONG
    | {"right": ("ended", "refused"), "right v0": ("ended", "refused")}
    | {"first": ("proof", "answered")},
    "proof": ILLEGAL | WRONG | {"right": ("ended", "refused"), "right v0": ("ended", "refused")},
    "failing": ILLEGAL | WRONG | {"right": ("ended", "refused"), "right v0": ("ended", "refused")},
    "ended": {},
}


def serve_versions(_connection: object, frame: memoryview) -> bytes:
    key, _version, correlation_id, *_ = read_request_header(frame)
    assert key == ApiKey.API_VERSIONS, "another request reached a handler"
    bad = b"not good!" in bytes(frame)
    code = ErrorCode.INVALID_REQUEST if bad else ErrorCode.NONE
    return bytes(
        codec.encode_response(ApiVersionsResponse(error_code=code), ApiKey.API_VERSIONS, 0, correlation_id)
    )


def refuse(_connection: object, _frame: bytes, error: KafkaError) -> bytes:
    assert error.code is ErrorCode.ILLEGAL_SASL_STATE
    return b"refused"


def login(old: Session | None = None, failures: FailedLogins | None = None) -> Login:
    connection: Any = SimpleNamespace(
        listener="SASL", peer_host="h", session=old or ANONYMOUS_SESSION, logins=LoginCounts()
    )
    settings = LoginSettings(
        mechanisms={name: ServerMechanism(name, begin) for name, begin in MECHANISMS.items()},
        max_reauth_ms=dict.fromkeys(MECHANISMS, 0),
        frame_size_max_bytes=1000,
        failure_delay_seconds=0.0,
        serve_versions=serve_versions,
        refuse=refuse,
        principal_of=user_principal,
        clock=SystemClock(),
        failures=failures or FailedLogins(),
    )
    return Login(settings, connection, old=old)


async def answer(phase: Login, frame: bytes) -> str:
    try:
        step = await phase.receive(frame)
    except ProtocolError:
        return "closed"
    if step.session is not None:
        assert step.session.principal == Principal("User", "alice")
        return "session"
    if step.closes:
        return "closed" if step.answer is None else "refused"
    return "answered"


@given(st.lists(st.sampled_from(sorted(FRAMES)), min_size=1, max_size=6))
def test_each_order_of_requests_follows_the_table(names: list[str]) -> None:
    async def story() -> None:
        phase, state = login(), "initial"
        for name in names:
            state, expected = TABLE[state].get(name, ("ended", "closed"))
            assert await answer(phase, FRAMES[name]) == expected, name
            if state == "ended":
                return

    asyncio.run(story())


garbage = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda name, cut, tail: FRAMES[name][:cut] + tail,
        st.sampled_from(sorted(FRAMES)),
        st.integers(0, 60),
        st.binary(max_size=8),
    ),
)


@given(
    st.sampled_from([(), ("versions",), ("plain",), ("plain v0",), ("scram",), ("scram", "first")]),
    st.lists(garbage, max_size=4),
)
def test_garbage_ends_a_login_and_never_makes_a_session(begin: tuple[str, ...], frames: list[bytes]) -> None:
    async def story() -> None:
        phase = login()
        for name in begin:
            assert await answer(phase, FRAMES[name]) == "answered"
        for frame in frames:
            # Garbage may be a whole request, because it may be cut off behind the end of the request.
            found = await answer(phase, frame)
            assert found != "session" or RIGHT in frame
            if found in ("closed", "refused", "session"):
                assert await answer(phase, FRAMES["plain"]) == "closed"
                return

    asyncio.run(story())


@given(st.lists(st.sampled_from(sorted(FRAMES)), min_size=1, max_size=4))
def test_a_second_login_keeps_the_principal_and_the_mechanism(names: list[str]) -> None:
    async def story() -> None:
        phase = login(Session(Principal("User", "alice"), "PLAIN", 1.0))
        for name in names:
            found = await answer(phase, FRAMES[name])
            if found == "session":
                assert {"plain", "plain v0"} & set(names)
            if found != "answered":
                return

    asyncio.run(story())


def test_a_second_login_as_another_user_is_refused() -> None:
    async def story() -> None:
        phase = login(Session(Principal("User", "bob"), "PLAIN", 1.0))
        assert await answer(phase, FRAMES["plain"]) == "answered"
        assert await answer(phase, FRAMES["right"]) == "refused"
        phase = login(Session(Principal("User", "alice"), "SCRAM-SHA-256", 1.0))
        assert await answer(phase, FRAMES["plain"]) == "answered"
        assert await answer(phase, FRAMES["right"]) == "closed"

    asyncio.run(story())


@pytest.mark.parametrize(("owner", "expected"), [("User", "session"), ("Service", "refused")])
def test_a_token_gives_no_principal_but_its_owner(owner: str, expected: str) -> None:
    """A token of Service:alice, whose type another principal builder has given, must not become User:alice."""

    async def story() -> None:
        phase = login()
        assert await answer(phase, handshake(OF_TOKENS)) == "answered"
        assert await answer(phase, token(owner.encode())) == expected

    asyncio.run(story())


def test_a_second_login_does_not_wait_for_the_failures_of_others() -> None:
    async def story() -> None:
        failures = FailedLogins()
        now = asyncio.get_running_loop().time()
        for _ in range(1000):  # a neighbour at the same address tries passwords
            failures.failed("h", now, "SASL", "wrong")
        phase = login(Session(Principal("User", "alice"), "PLAIN", 1.0), failures)
        assert await answer(phase, FRAMES["plain"]) == "answered"
        assert await answer(phase, FRAMES["right"]) == "session"
        phase = login(None, failures)
        assert await answer(phase, FRAMES["plain"]) == "answered"
        assert await answer(phase, FRAMES["right"]) == "closed"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("frames", "reason", "level"),
    [
        (("failing", "right"), "with SASL mechanism FAILING: ZeroDivisionError", "ERROR"),
        (("own check", "right"), "credentials for user could not be verified: PermissionError", "INFO"),
        (("plain", "wrong"), "Invalid username or password", "INFO"),
    ],
)
def test_the_log_has_the_type_of_an_unexpected_cause_and_not_its_text(
    frames: tuple[str, str], reason: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        phase = login()
        assert [await answer(phase, FRAMES[name]) for name in frames] == ["answered", "refused"]

    with caplog.at_level("INFO", "kcli.server.Authentication"):
        asyncio.run(story())
    (record,) = caplog.records
    assert record.levelname == level
    assert record.getMessage().endswith(f"{reason})")


def test_the_line_about_a_defect_is_not_written_for_each_login(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        failures = FailedLogins()
        for _ in range(3):
            phase = login(failures=failures)
            assert await answer(phase, FRAMES["failing"]) == "answered"
            assert await answer(phase, FRAMES["right"]) == "refused"

    with caplog.at_level("INFO", "kcli.server.Authentication"):
        asyncio.run(story())
    assert len(caplog.records) < 3
