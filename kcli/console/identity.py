"""Decides which user's permissions a request has in a cluster.

A cluster whose clients need no login is open: every session has the same permissions as any client of that cluster. If
the clients need SASL, each person logs in with a user name and a password of the cluster. The session then has only the
permissions of this user.

The settings file of a cluster may contain a login or a client certificate of the person who started the console. A
session gets the permissions of this login or certificate on two conditions. First, the browser has opened the secret
address, which the console prints at its start. Second, the console listens on a loopback address. Without these two
conditions, other users of the machine or of the network could use this login.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from kcli.client.config import ClientConfig, ClientConfigError, client_config
from kcli.console.settings import READ_MECHANISMS, ClusterSettings
from kcli.model.java_text import trim
from kcli.security.mechanisms.client import Credentials

CALL_MAX_MS = 15_000
"""The longest call to a cluster with all its retries. A person does not wait longer for a page. A smaller
`default.api.timeout.ms` in the settings takes precedence."""

CLIENT_ID = "kcli-console"

_SASL_TO_PLAIN = {"SASL_SSL": "SSL", "SASL_PLAINTEXT": "PLAINTEXT"}
_JAAS = "sasl.jaas.config"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_KEY_STORES = ("ssl.keystore.location", "ssl.keystore.key")


class Given(StrEnum):
    """Whether the settings of a cluster contain a login, a client certificate, or neither."""

    NOTHING = "nothing"
    LOGIN = "login"
    CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True)
class Identity:
    """The properties of clients that act as one user. `name` is shown on the page."""

    name: str
    properties: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Identity({self.name!r})"

    def config(self) -> ClientConfig:
        """The settings of an admin client. Raises ClientConfigError."""
        config = client_config(self.properties, client_id=CLIENT_ID)
        longest = min(config.default_api_timeout_ms, CALL_MAX_MS)
        request = min(config.request_timeout_ms, longest)
        return replace(config, default_api_timeout_ms=longest, request_timeout_ms=request)


class LoginRules:
    """The rules for logins to one cluster, from its settings. Raises ClientConfigError if the settings are invalid."""

    def __init__(self, settings: ClusterSettings, *, is_loopback: bool) -> None:
        self.settings = settings
        properties = settings.properties
        protocol = trim(properties.get("security.protocol", "PLAINTEXT")).upper()
        self.needs_login = protocol in _SASL_TO_PLAIN
        self.mechanism = _typed_mechanism(properties.get("sasl.mechanism")) if self.needs_login else ""
        self._protocol = protocol
        self.given = self._given()
        self.serves_given = is_loopback and self.given is not Given.NOTHING
        if self.given is Given.CERTIFICATE and not is_loopback:
            raise ClientConfigError(
                f"the settings of {settings.name} have a client certificate, whose rights every user of the page "
                "would have: listen on 127.0.0.1, or set a security.protocol with SASL"
            )
        # Finds mistakes in the settings at the start.
        (self.given_identity() if self.serves_given else self._without_login()).config()

    def _given(self) -> Given:
        properties = self.settings.properties
        if self.needs_login:
            # OAUTHBEARER and GSSAPI may log in without the property.
            is_other = trim(properties.get("sasl.mechanism", "GSSAPI")) not in READ_MECHANISMS
            return Given.LOGIN if is_other or properties.get(_JAAS) else Given.NOTHING
        is_certificate = self._protocol == "SSL" and any(properties.get(key) for key in _KEY_STORES)
        return Given.CERTIFICATE if is_certificate else Given.NOTHING

    @property
    def is_open(self) -> bool:
        """Whether every session may use the cluster without a login."""
        return not self.needs_login and self.given is Given.NOTHING

    def given_identity(self) -> Identity:
        """The identity of the login or certificate in the settings."""
        config = client_config(self.settings.properties)
        sasl = config.security.sasl if config.security is not None else None
        name = sasl.username if isinstance(sasl, Credentials) else f"the {self.given} of the settings file"
        return Identity(name, self.settings.properties)

    def open_identity(self) -> Identity:
        """The identity of every session on an open cluster."""
        return Identity("anonymous", self.settings.properties)

    def user_identity(self, name: str, password: str, mechanism: str) -> Identity:
        """The identity of a user with this password. The password is not checked here."""
        login = f'{_MODULES[mechanism]} required username="{_quoted(name)}" password="{_quoted(password)}";'
        return Identity(name, {**self.settings.properties, "sasl.mechanism": mechanism, _JAAS: login})

    def _without_login(self) -> Identity:
        properties = {**self.settings.properties}
        properties["security.protocol"] = _SASL_TO_PLAIN.get(self._protocol, self._protocol)
        properties.pop(_JAAS, None)
        return Identity("", properties)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach a server on this host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _typed_mechanism(mechanism: str | None) -> str:
    """The mechanism that the login page offers first."""
    name = trim(mechanism or "")
    return name if name in READ_MECHANISMS else READ_MECHANISMS[0]


def _quoted(text: str) -> str:
    r"""Escapes a text for a string of JAAS: a backslash and its octal number for each control character, `"` and `\`.

    The number always has three digits, so a digit that follows is not read as a part of the number.
    """
    return "".join(
        f"\\{ord(character):03o}"
        if character in '"\\' or character < " " or character == "\x7f"
        else character
        for character in text
    )
