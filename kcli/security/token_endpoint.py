"""Requests OAuth tokens from a token endpoint (RFC 6749, RFC 7523), with a client secret or with a signed assertion.

The configuration keys are the same as in Java's clients (KIP-768, KIP-1139). The calls block the thread and have time
limits.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.config.definition import ConfigError
from kcli.errors import SaslAuthenticationException
from kcli.model.java_text import parse_int, trim
from kcli.model.secret_text import without_logins
from kcli.security.http_calls import called
from kcli.security.jaas import LoginModule
from kcli.security.token_source import LookUp, TokenSource, read_text

if TYPE_CHECKING:
    from urllib.request import Request

    from kcli.security.tls.contexts import ClientTls

ANSWER_BYTES_MAX = 1 << 20
"""The largest answer of a token endpoint. A token has a few thousand characters."""

TIMEOUT_S = 10.0
"""The seconds to wait for one answer, if sasl.login.read.timeout.ms is not set."""

ATTEMPTS = 3
"""The most requests for one token. A request is repeated if the endpoint does not answer, or answers with a status of
500 or more."""

BACKOFF_S = 0.1
"""The seconds before the second attempt (Kafka's default of sasl.login.retry.backoff.ms). The next pause is twice as
long."""

_PREFIX = "sasl.oauthbearer."
_ASSERTION = f"{_PREFIX}assertion."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A token endpoint, with the time limit and the TLS settings of its calls."""

    url: str
    timeout_s: float = TIMEOUT_S
    tls: ClientTls | None = None

    @property
    def shown_url(self) -> str:
        """The URL without a login, for messages."""
        return without_logins(self.url)

    def post(self, form: Mapping[str, str], headers: Mapping[str, str]) -> str:
        """Sends a form and returns the token in the answer. Raises SaslAuthenticationException if there is no token."""
        from urllib.error import HTTPError, URLError
        from urllib.parse import urlencode
        from urllib.request import Request

        sent = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
            "Cache-Control": "no-cache",
            **headers,
        }
        request = Request(self.url, urlencode(form).encode(), sent, method="POST")
        for attempt in range(ATTEMPTS):
            try:
                return self._token(request)
            except HTTPError as error:
                with error:
                    status = error.code
                if status < 500 or attempt == ATTEMPTS - 1:
                    raise SaslAuthenticationException(
                        f"the token endpoint {self.shown_url} answered {status} {error.reason}: check the client "
                        "id and the secret"
                    ) from None
            except OSError as error:
                if attempt == ATTEMPTS - 1:
                    reason = error.reason if isinstance(error, URLError) else error
                    raise SaslAuthenticationException(
                        f"the token endpoint {self.shown_url} cannot be reached: {reason}"
                    ) from None
            time.sleep(BACKOFF_S * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _token(self, request: Request) -> str:
        content = called(request, self._context(), self.timeout_s, ANSWER_BYTES_MAX)
        try:
            answer = json.loads(content)
            token = answer.get("access_token") or answer["id_token"]
            assert isinstance(token, str)
        except (ValueError, KeyError, AttributeError, AssertionError):
            raise SaslAuthenticationException(
                f"the answer of the token endpoint {self.shown_url} has no access_token"
            ) from None
        return token

    def _context(self) -> ssl.SSLContext | None:
        try:
            return None if self.tls is None else self.tls.context()
        except ConfigError as error:
            raise SaslAuthenticationException(
                f"the token endpoint {self.shown_url} cannot be called: {error}"
            ) from None


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """Requests tokens with the id and the secret of a client (the grant client_credentials)."""

    endpoint: Endpoint
    client_id: str
    secret: str = field(repr=False)
    scope: str | None = None
    url_encodes: bool = False

    def token(self) -> str:
        from urllib.parse import quote_plus

        client_id, secret = self.client_id, self.secret
        if self.url_encodes:
            client_id, secret = quote_plus(client_id), quote_plus(secret)
        login = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        return self.endpoint.post(form, {"Authorization": f"Basic {login}"})


@dataclass(frozen=True, slots=True)
class SignedAssertion:
    """Requests tokens with an assertion (the grant jwt-bearer). The assertion is a JWT from a file, or claims that a
    private key signs.
    """

    endpoint: Endpoint
    scope: str | None = None
    file: str | None = None
    key_file: str | None = None
    passphrase: str | None = field(default=None, repr=False)
    algorithm: str = "RS256"
    claims: Mapping[str, object] = field(default_factory=dict)
    template_file: str | None = None
    lifetime_s: int = 300
    not_before_s: int = 60
    has_id: bool = False

    def token(self) -> str:
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": self._assertion(),
        }
        return self.endpoint.post(form | ({"scope": self.scope} if self.scope else {}), {})

    def _assertion(self) -> str:
        if self.file is not None:
            return read_text(self.file, f"{_ASSERTION}file")
        import jwt  # imported late, because only this grant signs tokens
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        assert self.key_file is not None
        text = read_text(self.key_file, f"{_ASSERTION}private.key.file")
        password = self.passphrase.encode() if self.passphrase else None
        try:
            key = load_pem_private_key(text.encode(), password)
            template = json.loads(read_text(self.template_file, _ASSERTION)) if self.template_file else {}
            headers, claims = template.get("header", {}), template.get("payload", {})
            return jwt.encode({**claims, **self._own_claims()}, key, self.algorithm, headers)  # type: ignore[arg-type]
        except (ValueError, TypeError, jwt.PyJWTError):
            # The reason may contain a part of the key.
            raise SaslAuthenticationException(
                f"no assertion can be made: check {_ASSERTION}private.key.file, its passphrase, the algorithm and "
                "the template"
            ) from None

    def _own_claims(self) -> dict[str, object]:
        now = int(time.time())
        claims: dict[str, object] = {
            **self.claims,
            "iat": now,
            "exp": now + self.lifetime_s,
            "nbf": now - self.not_before_s,
        }
        return claims | ({"jti": str(uuid.uuid4())} if self.has_id else {})


def client_credentials(look_up: LookUp, module: LoginModule, url: str) -> TokenSource:
    """Reads the keys of the grant client_credentials. Raises ValueError if a key is missing."""
    options = module.options
    client_id = look_up(f"{_PREFIX}client.credentials.client.id") or options.get("clientId")
    secret = look_up(f"{_PREFIX}client.credentials.client.secret") or options.get("clientSecret")
    if client_id is None or secret is None:
        missing = "id" if client_id is None else "secret"
        raise ValueError(
            f"{_PREFIX}client.credentials.client.{missing} is not set, and {_PREFIX}token.endpoint.url needs it"
        )
    return ClientSecret(
        _endpoint(look_up, module, url),
        client_id,
        secret,
        look_up(f"{_PREFIX}scope") or options.get("scope"),
        (look_up(f"{_PREFIX}header.urlencode") or "").lower() == "true",
    )


def jwt_bearer(look_up: LookUp, module: LoginModule, url: str) -> TokenSource:
    """Reads the keys of the grant jwt-bearer. Raises ValueError if a key is missing or invalid."""
    file, key_file = look_up(f"{_ASSERTION}file"), look_up(f"{_ASSERTION}private.key.file")
    if file is None and key_file is None:
        raise ValueError(f"neither {_ASSERTION}file nor {_ASSERTION}private.key.file is set")
    claims = {name: look_up(f"{_ASSERTION}claim.{name}") for name in ("aud", "iss", "sub")}
    return SignedAssertion(
        _endpoint(look_up, module, url),
        look_up(f"{_PREFIX}scope"),
        file,
        key_file,
        look_up(f"{_ASSERTION}private.key.passphrase"),
        (look_up(f"{_ASSERTION}algorithm") or "RS256").upper(),
        {name: value for name, value in claims.items() if value is not None},
        look_up(f"{_ASSERTION}template.file"),
        parse_int(look_up(f"{_ASSERTION}claim.exp.seconds") or "300"),
        parse_int(look_up(f"{_ASSERTION}claim.nbf.seconds") or "60"),
        (look_up(f"{_ASSERTION}claim.jti.include") or "").lower() == "true",
    )


def _endpoint(look_up: LookUp, module: LoginModule, url: str) -> Endpoint:
    from urllib.parse import urlsplit

    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(
            f"{_PREFIX}token.endpoint.url is {without_logins(url)}: expected http://…, https://… or file:/…"
        )
    timeout_ms = look_up("sasl.login.read.timeout.ms")
    tls = None
    if any(name.startswith("ssl.") for name in module.options):
        # As in Kafka, the login module may name the stores for the token endpoint.
        from kcli.security.tls.contexts import client_tls

        tls = client_tls(module.options.get)
    return Endpoint(url, parse_int(trim(timeout_ms)) / 1000 if timeout_ms else TIMEOUT_S, tls)
