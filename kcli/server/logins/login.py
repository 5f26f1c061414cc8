"""The SASL login of a connection: a state machine that answers ApiVersions, SaslHandshake and SaslAuthenticate.

Each state accepts only these requests:

    INITIAL       ApiVersions or SaslHandshake
    VERSIONS      ApiVersions or SaslHandshake, after an ApiVersions request that was refused
    HANDSHAKE     SaslHandshake, after an ApiVersions request that was answered
    AUTHENTICATE  SaslAuthenticate, after SaslHandshake v1. Another API gets the error ILLEGAL_SASL_STATE.
    RAW           tokens without a header, after SaslHandshake v0
    ENDED         nothing

If the client sends any other request, the connection is closed without an answer. The answer to a failed login is sent
after connection.failed.authentication.delay.ms, and the connection is then closed. The delay keeps a client with a
wrong password from connecting again and again.

A client may log in again on the same connection (KIP-368). The second login begins in the state HANDSHAKE, and must
have the mechanism and the principal of the first login.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

from kcli.errors import (
    ErrorCode,
    IllegalSaslStateException,
    KafkaError,
    ProtocolError,
    SaslAuthenticationException,
    UnsupportedSaslMechanismException,
)
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.packing import INT16, INT32, read_header_tags, read_request_header
from kcli.runtime.clock import Clock
from kcli.security.mechanisms.server import (
    Challenge,
    InThread,
    LoginInterrupted,
    LoginRefused,
    Outcome,
    ServerExchange,
    ServerMechanism,
    Success,
)
from kcli.security.principal import Principal, Session
from kcli.server.logins.failed_logins import FailedLogins
from kcli.server.logins.login_threads import LoginThreads
from kcli.server.network.connection import Connection, Serve
from kcli.server.network.phase import LoginStep
from kcli.server.network.waiting import Answer, Waiting, answered
from kcli.server.requests.dispatch import CODEC

_log = logging.getLogger("kcli.server.Authentication")

LOGIN_LIMIT_SECONDS = 30.0
"""The longest time of a login. In Kafka, only connections.max.idle.ms (ten minutes) limits a login. Clients give up a
request after 30 s."""
AGAIN_INTERVAL_SECONDS = 1.0
"""The shortest time between two logins on one connection (KIP-368), as in Kafka."""

NOT_A_LOGIN = (
    "Invalid request, potential reasons: kafka client configured with the wrong security protocol, it does not "
    "support KIP-43 or it is not a kafka client."
)

# The position of the error code in a response to ApiVersions, whose header is always version 0: after the size and the
# correlation id.
_ERROR_CODE_AT = 2 * INT32.size


class _State(Enum):
    INITIAL = auto()
    VERSIONS = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    RAW = auto()
    ENDED = auto()


PrincipalOf = Callable[[Connection, str, Success], Principal]
"""Makes the principal of a client from its connection, the mechanism, and the result of its login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """The settings of all logins on one listener.

    `serve_versions` answers ApiVersions. `refuse` makes the error response to a request of another API. `max_reauth_ms`
    has connections.max.reauth.ms of each mechanism, and 0 means no limit. `threads` run the steps that take long.
    Without threads, such a step blocks the event loop.
    """

    mechanisms: Mapping[str, ServerMechanism]
    max_reauth_ms: Mapping[str, int]
    frame_size_max_bytes: int
    failure_delay_seconds: float
    serve_versions: Serve
    refuse: Callable[[Connection, bytes, KafkaError], Answer | Waiting]
    principal_of: PrincipalOf
    clock: Clock
    failures: FailedLogins
    threads: LoginThreads | None = None

    def __call__(self, connection: Connection) -> Login:
        """Begins the login of a new connection. With this method, the settings can be used as an `Authenticate`."""
        return Login(self, connection)


def user_principal(_connection: Connection, _mechanism: str, success: Success) -> Principal:
    """The principal that Kafka's default principal builder makes: a user whose name is the authorization id."""
    return Principal("User", success.authorization_id, token_authenticated=success.by_token)


class Login:
    """One login on one connection: a `Phase`."""

    def __init__(
        self,
        settings: LoginSettings,
        connection: Connection,
        *,
        old: Session | None = None,
        again_at: float | None = None,
    ) -> None:
        """Begins a login. If the client logs in again on the same connection, `old` is its present session, and
        `again_at` is the time at which the new login began.
        """
        self._settings = settings
        self._connection = connection
        self._old = old
        self._again_at = again_at
        self._state = _State.INITIAL if old is None else _State.HANDSHAKE
        self._exchanging = self._state
        self._mechanism = ""
        self._exchange: ServerExchange | None = None
        self._answers: _Answers = _RawAnswers()

    @property
    def frame_size_max_bytes(self) -> int:
        return self._settings.frame_size_max_bytes

    @property
    def time_limit_seconds(self) -> float:
        return LOGIN_LIMIT_SECONDS + self._settings.failure_delay_seconds

    def again(self) -> Login | None:
        now = self._now()
        if self._again_at is not None and now - self._again_at < AGAIN_INTERVAL_SECONDS:
            return None
        return Login(self._settings, self._connection, old=self._connection.session, again_at=now)

    async def receive(self, frame: bytes) -> LoginStep:
        # If handling the frame fails, the state stays ENDED.
        state, self._state = self._state, _State.ENDED
        match state:
            case _State.INITIAL:
                try:
                    return await self._begin(frame, may_ask_versions=True)
                except ProtocolError as error:
                    raise ProtocolError(f"{NOT_A_LOGIN} ({error})") from error
            case _State.VERSIONS | _State.HANDSHAKE:
                return await self._begin(frame, may_ask_versions=state is _State.VERSIONS)
            case _State.AUTHENTICATE:
                return await self._authenticate(frame)
            case _State.RAW:
                return await self._token(frame)
            case _State.ENDED:
                raise ProtocolError("the login has ended")

    # Before the mechanism is known.

    async def _begin(self, frame: bytes, *, may_ask_versions: bool) -> LoginStep:
        request = _Request.of(frame)
        if request.key == ApiKey.API_VERSIONS and may_ask_versions:
            return await self._versions(frame)
        if request.key != ApiKey.SASL_HANDSHAKE:
            raise ProtocolError(f"Unexpected Kafka request of type {request.name} during SASL handshake.")
        return await self._handshake(request)

    async def _versions(self, frame: bytes) -> LoginStep:
        serving = self._settings.serve_versions(self._connection, memoryview(frame))
        answer = _joined(await answered(serving))
        (code,) = INT16.unpack_from(answer, _ERROR_CODE_AT)
        self._state = _State.HANDSHAKE if code == ErrorCode.NONE else _State.VERSIONS
        return LoginStep(answer)

    async def _handshake(self, request: _Request) -> LoginStep:
        mechanism_name = cast(SaslHandshakeRequest, request.decode()).mechanism
        enabled = tuple(self._settings.mechanisms)
        mechanism = self._settings.mechanisms.get(mechanism_name)
        if mechanism is None:
            error = UnsupportedSaslMechanismException(f"Unsupported SASL mechanism {mechanism_name[:100]!r}")
            response = SaslHandshakeResponse(error_code=error.code, mechanisms=enabled)
            return await self._failed(error, request.encode(response))
        self._mechanism = mechanism_name
        self._state = self._exchanging = _State.AUTHENTICATE if request.version >= 1 else _State.RAW
        self._exchange = mechanism.begin()
        return LoginStep(request.encode(SaslHandshakeResponse(mechanisms=enabled)))

    # The exchange of tokens.

    async def _authenticate(self, frame: bytes) -> LoginStep:
        request = _Request.of(frame)
        if request.key != ApiKey.SASL_AUTHENTICATE:
            return await self._refuse(request)
        self._answers = _WrappedAnswers(request)
        return await self._token(cast(SaslAuthenticateRequest, request.decode()).auth_bytes)

    async def _token(self, token: bytes) -> LoginStep:
        if self._old is not None and self._old.mechanism != self._mechanism:
            raise ProtocolError(
                f"a client must keep its mechanism {self._old.mechanism} when it logs in again, "
                f"found {self._mechanism}"
            )
        if self._old is None:  # a client that has logged in before does not wait for other logins
            await self._wait_after_failures()
        assert self._exchange is not None, "the handshake has begun it"
        try:
            outcome = self._exchange.step(token)
            if isinstance(outcome, InThread):
                threads = self._settings.threads
                outcome = outcome.work() if threads is None else await threads.run(outcome.work)
            return self._went_on(outcome)
        except Exception as error:
            return await self._failed_with(error)

    async def _wait_after_failures(self) -> None:
        """Delays the login if logins from the same host have failed. Raises ProtocolError if too many have failed."""
        seconds = self._settings.failures.wait_seconds(self._connection.peer_host, self._now())
        if seconds == float("inf"):
            raise ProtocolError(f"too many failed logins from {self._connection.peer_host}")
        if seconds > 0:
            await asyncio.sleep(seconds)

    def _went_on(self, outcome: Outcome) -> LoginStep:
        if isinstance(outcome, Challenge):
            self._state = self._exchanging
            return LoginStep(self._answers.token(outcome.token, 0))
        principal = self._settings.principal_of(self._connection, self._mechanism, outcome)
        if outcome.owner is not None and principal != outcome.owner:
            # A token has only the name of its owner, so a principal of another type would become a user here.
            raise LoginRefused(
                f"the token belongs to {outcome.owner}, and this listener makes it {principal}"
            )
        if self._old is not None and principal != self._old.principal:
            before = self._old.principal
            raise SaslAuthenticationException(
                f"Cannot change principals during re-authentication from {before.type}.{before.name}: "
                f"{principal.type}.{principal.name}"
            )
        lifetime_ms = self._lifetime_ms(outcome)
        expires_at = None if lifetime_ms is None else self._now() + lifetime_ms / 1000
        self._count_success()
        _log.debug("Successfully authenticated %s with %s", principal, self._connection.peer_host)
        return LoginStep(
            self._answers.token(outcome.token, lifetime_ms or 0),
            Session(principal, self._mechanism, expires_at),
        )

    def _count_success(self) -> None:
        logins = self._connection.logins
        if self._old is not None:
            logins.succeeded_again += 1
            if self._again_at is not None:
                logins.again_ms.add((self._now() - self._again_at) * 1000)
            return
        logins.succeeded += 1
        logins.succeeded_without_again += not self._answers.has_lifetime

    def _lifetime_ms(self, success: Success) -> int | None:
        """The lifetime of the session, or None if it does not end. 0 means that the session has already ended."""
        max_reauth_ms = self._settings.max_reauth_ms[self._mechanism]
        limits = [max_reauth_ms] if max_reauth_ms > 0 else []
        if success.expires_at_ms is not None:
            limits.append(max(0, success.expires_at_ms - self._settings.clock.now_ms()))
        return min(limits, default=None)

    # Failures.

    async def _refuse(self, request: _Request) -> LoginStep:
        error = IllegalSaslStateException(
            f"Unexpected Kafka request of type {request.name} during SASL authentication."
        )
        answer = await answered(self._settings.refuse(self._connection, request.frame, error))
        return await self._failed(error, None if answer is None else _joined(answer))

    async def _failed_with(self, error: Exception) -> LoginStep:
        if isinstance(error, LoginInterrupted):
            raise ProtocolError(f"the login is interrupted: {error}") from error
        if isinstance(error, SaslAuthenticationException):
            reason = _reason(error.message, error.__cause__)
            return await self._failed(error, self._answers.refusal(error), reason)
        when = "authentication" if self._old is None else "re-authentication"
        shown = SaslAuthenticationException(
            f"Authentication failed during {when} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )
        defect = None if isinstance(error, LoginRefused) else error
        return await self._failed(shown, self._answers.refusal(shown), _reason(shown.message, error), defect)

    async def _failed(
        self,
        error: KafkaError,
        answer: bytes | None,
        reason: str | None = None,
        defect: Exception | None = None,
    ) -> LoginStep:
        connection = self._connection
        if self._old is None:
            connection.logins.failed += 1
        else:
            connection.logins.failed_again += 1
        self._settings.failures.failed(
            connection.peer_host, self._now(), connection.listener, reason or error.message, defect
        )
        if self._settings.failure_delay_seconds > 0:
            await asyncio.sleep(self._settings.failure_delay_seconds)
        return LoginStep(answer, closes=True)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class _Request:
    """A request whose header is read."""

    key: int
    version: int
    correlation_id: int
    frame: bytes
    body_at: int

    @classmethod
    def of(cls, frame: bytes) -> _Request:
        """Reads the header. Raises ProtocolError if it is invalid."""
        key, version, correlation_id, _client_id, at = read_request_header(frame)
        return cls(key, version, correlation_id, frame, at)

    @property
    def name(self) -> str:
        return API[ApiKey(self.key)].key.name if self.key in API else str(self.key)

    def decode(self) -> object:
        """Reads the message. Raises ProtocolError if it is invalid."""
        spec = API[ApiKey(self.key)]
        if not spec.min_version <= self.version <= spec.max_version:
            raise ProtocolError(f"{spec.name} version {self.version} is not supported")
        at = read_header_tags(self.frame, self.body_at) if spec.is_flexible(self.version) else self.body_at
        return importlib.import_module(CODEC).decode_request(spec.key, self.version, self.frame, at)

    def encode(self, response: object) -> bytes:
        """Returns the response as a frame."""
        codec = importlib.import_module(CODEC)
        encoded: bytes = codec.encode_response(response, ApiKey(self.key), self.version, self.correlation_id)
        return encoded


class _RawAnswers:
    """The answers after SaslHandshake v0: tokens without a header. A failure has no answer."""

    has_lifetime = False

    def token(self, token: bytes, _lifetime_ms: int) -> bytes:
        return INT32.pack(len(token)) + token

    def refusal(self, _error: KafkaError) -> bytes | None:
        return None


@dataclass(frozen=True, slots=True)
class _WrappedAnswers:
    """The answers to a SaslAuthenticate request."""

    request: _Request

    @property
    def has_lifetime(self) -> bool:
        """Whether the answer contains the lifetime of the session, so that the client can log in again before the
        session ends.
        """
        return self.request.version >= 1

    def token(self, token: bytes, lifetime_ms: int) -> bytes:
        return self.request.encode(
            SaslAuthenticateResponse(error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms)
        )

    def refusal(self, error: KafkaError) -> bytes | None:
        return self.request.encode(
            SaslAuthenticateResponse(error_code=error.code, error_message=error.message)
        )


_Answers = _RawAnswers | _WrappedAnswers


def _reason(message: str, cause: BaseException | None) -> str:
    """Returns the reason of a failed login for the log. If the login was refused, the reason contains the text of the
    error. The text of any other error may contain a secret, so the reason contains only the type of such an error.
    """
    if cause is None:
        return message
    return f"{message}: {cause if isinstance(cause, LoginRefused) else type(cause).__name__}"


def _joined(answer: object) -> bytes:
    if isinstance(answer, list):
        return b"".join(answer)
    assert isinstance(answer, bytes | bytearray | memoryview), "ApiVersions has a response"
    return bytes(answer)
