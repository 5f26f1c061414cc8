"""Parses the option `--add-scram SCRAM-SHA-256=[name=alice,password=…]`, which gives a new cluster a user (KIP-900).

The password is not stored. The record in the metadata has only the keys that a server needs (RFC 5802).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from kcli.model.java_text import parse_int, trim
from kcli.protocol.records.metadata import UserScramCredentialRecord
from kcli.security.mechanisms.scram import (
    DEFAULT_ITERATIONS,
    HIDDEN,
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    Mechanism,
    new_salt,
    salted_password,
    server_keys,
)
from kcli.server.formatting.format import FormatError


def parse_scram_argument(argument: str) -> UserScramCredentialRecord:
    """Returns the credential record for one argument. Raises FormatError with Kafka's text, without the password."""
    name, equals, config = trim(argument).partition("=")
    if not equals:
        raise FormatError(f"Failed to find equals sign in SCRAM argument '{trim(argument)}'")
    mechanism = MECHANISMS.get(name)
    if mechanism is None:
        raise FormatError(f"The add-scram mechanism {name} is not supported.")
    if not config.startswith("["):
        raise FormatError("Expected configuration string to start with [")
    if not config.endswith("]"):
        raise FormatError("Expected configuration string to end with ]")
    return _credential(mechanism, _components(config[1:-1].split(",")))


def _components(texts: Iterable[str]) -> dict[str, str]:
    components: dict[str, str] = {}
    for text in texts:
        # A text after the password may be a part of the password, so it must not be shown.
        key, value = _component(text, HIDDEN if "password" in components else text)
        components[key] = value
    return components


def _component(text: str, shown: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise FormatError(f"No equals sign found in SCRAM component: {shown}")
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        value = value[1:-1]
    return key, value


def _credential(mechanism: Mechanism, parts: dict[str, str]) -> UserScramCredentialRecord:
    user = parts.pop("name", None)
    if user is None:
        raise FormatError("You must supply 'name' to add-scram")
    salt_text = parts.pop("salt", None)
    salt = None if salt_text is None else _decoded("salt", salt_text)
    iterations = _iterations(parts.pop("iterations", None))
    password, salted_text = parts.pop("password", None), parts.pop("saltedpassword", None)
    if password is None and salted_text is None:
        raise FormatError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password is None and salt is None:
        raise FormatError("You must supply 'salt' with 'saltedpassword' to add-scram")
    salted = _decoded("saltedPassword", salted_text) if password is None and salted_text is not None else None
    if parts:
        raise FormatError(f"Unknown SCRAM configurations: {', '.join(sorted(parts))}")
    if iterations < MIN_ITERATIONS:
        raise FormatError(
            f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using {mechanism.java_name}"
        )
    if iterations > MAX_ITERATIONS:
        raise FormatError(
            f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {mechanism.java_name}"
        )
    salt = new_salt() if salt is None else salt
    if salted is None:
        assert password is not None
        salted = salted_password(mechanism, password.encode(), salt, iterations)
    keys = server_keys(mechanism, salted)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism.number,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=iterations,
    )


def _iterations(text: str | None) -> int:
    if text is None:
        return DEFAULT_ITERATIONS
    try:
        return parse_int(text)
    except ValueError:
        raise FormatError(f"Failed to parse iterations count: {text}") from None


def _decoded(what: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise FormatError(f"Failed to decode given {what}: it is not base64") from None
