"""The sources of a client's tokens for OAUTHBEARER: claims of the login module, a file, or a token endpoint.

The keys are the same as in Java's clients (KIP-255, KIP-768, KIP-1139). A source blocks, so asyncio code calls it in a
thread. Errors and the texts of `repr` contain no tokens or secrets.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from kcli.model.java_text import parse_double
from kcli.security.allowed_sources import AllowedSources
from kcli.security.jaas import LoginModule
from kcli.security.token_source import LookUp, TokenSource, read_text

REFRESH_FACTOR = 0.8
"""The fraction of its lifetime during which a token is used again (sasl.login.refresh.window.factor)."""

LIFETIME_S = 3600
"""The lifetime of an unsecured token in seconds, if the login module does not set one."""

_HANDLER = "sasl.login.callback.handler.class"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_URL = "sasl.oauthbearer.token.endpoint.url"
_FILES = tuple(f"sasl.oauthbearer.assertion.{name}" for name in ("file", "private.key.file", "template.file"))
_CLAIM = "unsecuredLogin{}Claim_"
_EXTENSION, _UNSECURED_EXTENSION = "extension_", "unsecuredLoginExtension_"


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    """Makes tokens without a signature from the options of the login module, for tests of a cluster."""

    claims: Mapping[str, object]
    lifetime_s: float = LIFETIME_S

    def token(self) -> str:
        now = int(time.time())  # a server with whole milliseconds would refuse a token of the future
        claims = {"iat": now, "exp": now + self.lifetime_s, **self.claims}
        return f"{_part({'alg': 'none'})}.{_part(claims)}."


@dataclass(frozen=True, slots=True)
class TokenFile:
    """Reads the token from a file for each login, because another program replaces the token in the file."""

    path: str

    def token(self) -> str:
        return read_text(self.path, _URL)


@dataclass(slots=True)
class Renewed:
    """Requests a token from another source, and uses it again until most of its lifetime is over."""

    source: TokenSource
    _token: str = field(default="", repr=False)
    _renew_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __reduce__(self) -> tuple[type[Renewed], tuple[TokenSource]]:
        # Spark copies the settings to other processes. Each process asks for its own token.
        return Renewed, (self.source,)

    def token(self) -> str:
        with self._lock:
            now = time.time()
            if now >= self._renew_at:
                self._token = self.source.token()
                self._renew_at = now + (expiry(self._token, now) - now) * REFRESH_FACTOR
            return self._token


def token_source(look_up: LookUp, module: LoginModule, allowed: AllowedSources) -> TokenSource:
    """Chooses the source that the properties name. Raises ValueError if a property is missing or invalid, or if a URL
    or a file is not allowed."""
    handler = (look_up(_HANDLER) or "").rpartition(".")[2]
    retriever = (look_up(_RETRIEVER) or "").rpartition(".")[2]
    url = look_up(_URL)
    if not handler and not retriever and url is None:
        return _unsecured(module)
    if handler not in ("", "OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler"):
        raise ValueError(f"{_HANDLER} is {handler}: a Java class of the user cannot be loaded here")
    if handler == "OAuthBearerUnsecuredLoginCallbackHandler":
        return _unsecured(module)
    if url is None:
        raise ValueError(f"{_URL} is not set: expected the URL of a token endpoint, or file:/path of a token")
    allowed.check_url(_URL, url)
    if url.startswith("file:"):
        return TokenFile(_path(url))
    if retriever not in ("", "DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "JwtBearerJwtRetriever"):
        raise ValueError(
            f"{_RETRIEVER} is {retriever}: expected ClientCredentialsJwtRetriever or JwtBearerJwtRetriever"
        )
    from kcli.security import token_endpoint

    make = (
        token_endpoint.jwt_bearer
        if retriever == "JwtBearerJwtRetriever"
        else token_endpoint.client_credentials
    )
    for key in _FILES:
        if (path := look_up(key)) is not None:
            allowed.check_file(key, path)
    return Renewed(make(look_up, module, url))


def extensions(module: LoginModule) -> dict[str, str]:
    """The SASL extensions that the options of the login module set (KIP-342)."""
    return {
        name.removeprefix(prefix): value
        for name, value in module.options.items()
        for prefix in (_EXTENSION, _UNSECURED_EXTENSION)
        if name.startswith(prefix)
    }


def expiry(token: str, now: float) -> float:
    """The time when a JWT expires, in seconds since the epoch. Returns `now` for a token that is not a JWT, so that
    such a token is used only once.
    """
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        expires_at = claims["exp"]
        return float(expires_at) if isinstance(expires_at, int | float) else now
    except (RecursionError, OverflowError, IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return now


def _unsecured(module: LoginModule) -> UnsecuredTokens:
    claims: dict[str, object] = {}
    lifetime_s = float(LIFETIME_S)
    for name, value in module.options.items():
        if name.startswith(prefix := _CLAIM.format("String")):
            claims[name.removeprefix(prefix)] = value
        elif name.startswith(prefix := _CLAIM.format("Number")):
            claims[name.removeprefix(prefix)] = parse_double(value)
        elif name.startswith(prefix := _CLAIM.format("List")):
            # As in Kafka, the first character separates the items.
            separator = value[:1]
            claims[name.removeprefix(prefix)] = value[1:].split(separator) if separator else []
        elif name == "unsecuredLoginLifetimeSeconds":
            lifetime_s = parse_double(value)
    principal = module.options.get("unsecuredLoginPrincipalClaimName", "sub")
    if principal not in claims:
        raise ValueError(
            f'sasl.jaas.config has no {_CLAIM.format("String")}{principal}="…", and {_URL} is not set: no token can '
            "be made"
        )
    return UnsecuredTokens(claims, lifetime_s)


def _path(url: str) -> str:
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(url).path)


def _part(content: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
