"""JSON bodies as Jackson reads them into maps of text: numbers and booleans become their text."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kcli.errors import KcliError


class InvalidBody(KcliError):
    """The body is not JSON, or has not the expected form."""


class _Number(str):
    """A number that keeps its text."""

    __slots__ = ()


def _refuse(text: str) -> object:
    raise ValueError(f"{text} is not JSON")


_AS_TEXT = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_refuse)
_PLAIN = json.JSONDecoder(parse_constant=_refuse)
DECODERS = {True: _AS_TEXT, False: _PLAIN}
"""By whether numbers become texts."""

KEYS_MAX = 10_000
"""The most keys of a map of texts. A configuration with more keys takes too long to validate, and with keys of usual
length it does not fit into a record."""


def parse_json(body: bytes, *, numbers_as_text: bool = False) -> object:
    """Decodes a body. Bytes after the first value are ignored, and of two equal keys the last one counts.

    An empty body is None, as `null`. Raises InvalidBody.
    """
    try:
        text = body_text(body)
        if not text:
            return None
        value: object = DECODERS[numbers_as_text].raw_decode(text)[0]
        # A text with half of a surrogate pair cannot be written to a topic.
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidBody(f"the body is not valid JSON: {error}") from None
    return value


def body_text(body: bytes) -> str:
    """The text of a body from its first value. Raises ValueError."""
    return body.decode().lstrip(" \t\r\n\ufeff")


def json_bytes(value: object) -> bytes:
    """A value as compact JSON, as Jackson writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def object_of(value: object, known: tuple[str, ...], kind: str) -> Mapping[str, object]:
    """A JSON object that has only known fields. Raises InvalidBody."""
    if not isinstance(value, dict):
        raise InvalidBody(f"the body of {kind} is not a JSON object")
    for name in value:
        if name not in known:
            fields = ", ".join(f'"{item}"' for item in known)
            raise InvalidBody(f'Unrecognized field "{name}": {kind} has the fields {fields}')
    return value


def text_of(value: object, name: str) -> str | None:
    """A scalar as text, as Jackson reads a value into a String. Raises InvalidBody."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return json.dumps(value)
    raise InvalidBody(f"the value of {name} is not a text")


def texts_of(value: object, name: str) -> dict[str, str | None]:
    """A JSON object whose values are scalars, as a map of texts. Raises InvalidBody."""
    if not isinstance(value, dict):
        raise InvalidBody(f"{name} is not a JSON object")
    if len(value) > KEYS_MAX:
        raise InvalidBody(f"{name} has {len(value)} keys: expected at most {KEYS_MAX}")
    return {key: text_of(item, key) for key, item in value.items()}
