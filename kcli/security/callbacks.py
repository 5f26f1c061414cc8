"""Interfaces for operators' classes that check passwords, check tokens, or determine the principals of clients.

A package declares such a class as an entry point (plugins.py). A configuration key of the node names the entry point:

- `….plain.sasl.server.callback.handler.class` names a `PasswordChecker` of the entry points `kcli.password_checks`.
- `….oauthbearer.sasl.server.callback.handler.class` names a `TokenChecker` of the entry points `kcli.token_checks`.
- `principal.builder.class` names a `PrincipalBuilder` of the entry points `kcli.principal_builders`.

A checker may wait for other servers, because it runs in a thread. Several threads may call its methods at the same
time. A principal builder must not wait, because it runs on the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig
from kcli.security.mechanisms.oauthbearer import BearerToken
from kcli.security.plugins import made
from kcli.security.principal import Principal

PASSWORD_CHECKS, TOKEN_CHECKS = "kcli.password_checks", "kcli.token_checks"
PRINCIPAL_BUILDERS = "kcli.principal_builders"

BUILDER_KEY = "principal.builder.class"
DEFAULT_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


class PasswordChecker(Protocol):
    """Checks the passwords of clients that log in with PLAIN."""

    def check(self, username: str, password: str) -> bool:
        """Returns True if this is the password of this user. The login fails if the result is anything else, or if the
        method raises an exception.
        """


class TokenChecker(Protocol):
    """Checks the tokens of clients that log in with OAUTHBEARER."""

    def check(self, token: str, extensions: Mapping[str, str]) -> BearerToken:
        """Returns the content of a valid token. Raises TokenRefused for an invalid token."""


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """A client whose login is complete.

    `mechanism` is None without SASL. `name` is the user name of the login, or the name in the client's certificate, or
    ANONYMOUS. `certificate` is the client's certificate in DER, or None.
    """

    listener: str
    host: str
    mechanism: str | None
    name: str
    certificate: bytes | None = None


class PrincipalBuilder(Protocol):
    """Determines the principal of each client of a listener."""

    def build(self, client: LoggedIn) -> Principal:
        """Returns the principal of a client. If the method raises an exception, the connection is closed."""


def password_checker(
    config: ListenerConfig, key: str, name: str, options: Mapping[str, str]
) -> PasswordChecker:
    """Makes the password checker from the options of the login module. Raises ConfigError if the class is unusable."""
    return cast(PasswordChecker, _made(config, key, name, PASSWORD_CHECKS, "check", options))


def token_checker(config: ListenerConfig, key: str, name: str, options: Mapping[str, str]) -> TokenChecker:
    """Makes the token checker from the options of the login module. Raises ConfigError if the class is unusable."""
    return cast(TokenChecker, _made(config, key, name, TOKEN_CHECKS, "check", options))


def principal_builder(config: ListenerConfig) -> PrincipalBuilder | None:
    """The principal builder of a listener, or None for Kafka's default. Raises ConfigError if the class is unusable."""
    name = config.text(BUILDER_KEY)
    if name is None or name == DEFAULT_BUILDER:
        return None
    return cast(PrincipalBuilder, _made(config, BUILDER_KEY, name, PRINCIPAL_BUILDERS, "build", {}))


def _made(
    config: ListenerConfig, key: str, name: str, group: str, method: str, options: Mapping[str, str]
) -> object:
    try:
        # The options have the passwords of the login module.
        return made(key, name, group, dict(options), (method,), shows_reason=False)
    except ConfigError as error:
        raise config.refusal(key, str(error)) from error
