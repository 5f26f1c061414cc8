"""Splits a JWT into its parts, parses their JSON, and checks the types of claims."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping

from kcli.model.java_text import trim
from kcli.security.mechanisms.oauthbearer import TokenRefused

Claims = Mapping[str, object]

_BASE64_URL = re.compile(r"[-_a-zA-Z0-9]*")


def sections(token: str) -> tuple[str, str, str]:
    """The header, payload and signature of a token, still encoded. Raises TokenRefused if the token does not have three
    sections.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused("Malformed JWT provided; expected three sections (header, payload, and signature)")
    return parts[0], parts[1], parts[2]


def decoded(section: str, name: str) -> Claims:
    """The JSON object in an encoded section of a token. Raises TokenRefused if the section is invalid."""
    if not _BASE64_URL.fullmatch(section):
        raise TokenRefused(f"the {name} is not in base64url without padding")
    try:
        content = base64.urlsafe_b64decode(section + "=" * (-len(section) % 4))
    except binascii.Error:
        raise TokenRefused(f"the {name} is not in base64url without padding") from None
    return json_object(content, name)


def json_object(content: bytes, name: str) -> Claims:
    """Parses a JSON object. Raises TokenRefused if the content is not a JSON object, or if a name occurs twice."""
    try:
        claims = json.loads(content, parse_constant=_no_constant, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError):
        raise TokenRefused(f"the {name} is not JSON") from None
    if not isinstance(claims, dict):
        raise TokenRefused(f"the {name} is not a JSON object")
    return claims


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # Two parsers may choose different values of a repeated name, so such a token is ambiguous (RFC 7519, section 4).
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name occurs twice")
    return members


def text(claims: Claims, name: str) -> str:
    """Returns a claim that must be a string with a visible character. Raises TokenRefused if it is missing or invalid.

    A string that begins or ends with a space is refused. In Kafka, such a space is removed, so " admin" becomes
    "admin".
    """
    value = claims.get(name)
    if not isinstance(value, str) or not value or value != trim(value):
        raise TokenRefused(f"the claim {name} is missing, or is not a string, or is blank")
    return value


def time_ms(claims: Claims, name: str) -> int | None:
    """Returns a claim with a time, in milliseconds since the Unix epoch, or None if it is missing. Raises TokenRefused
    if the claim is not a time.
    """
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefused(f"the claim {name} is not a number")
    if not -_SECONDS_MAX < value < _SECONDS_MAX:
        raise TokenRefused(f"the claim {name} is not a time")
    return round(value * 1000)


# The largest number of seconds whose milliseconds fit into an int64.
_SECONDS_MAX = (2**63 - 1) // 1000


def required_time_ms(claims: Claims, name: str) -> int:
    value = time_ms(claims, name)
    if value is None:
        raise TokenRefused(f"the claim {name} is missing")
    return value


def texts(claims: Claims, name: str) -> tuple[str, ...]:
    """Returns the strings of a claim that is a string or a list of strings, or () if the claim is missing. Raises
    TokenRefused if the claim has another type.
    """
    value = claims.get(name)
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise TokenRefused(f"the claim {name} is not a string or a list of strings")
    return tuple(items)
