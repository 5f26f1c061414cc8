"""Parses ids on the command line as Kafka's `Uuid.fromString` does, with the same errors."""

from __future__ import annotations

import base64
import re
import uuid

ID_BYTES = 16
LONGEST_TEXT = 24
_ILLEGAL = re.compile(r"[^A-Za-z0-9_=-]")


def java_uuid(text: str) -> uuid.UUID:
    """Parses an id in URL-safe base64.

    Raises ValueError for an invalid id. As in Kafka, the length is checked first.
    """
    if len(text) > LONGEST_TEXT:
        shown = text[:LONGEST_TEXT]
        raise ValueError(f"Input string with prefix `{shown}` is too long to be decoded as a base64 UUID")
    illegal = _ILLEGAL.search(text)
    if illegal is not None:
        raise ValueError(f"Illegal base64 character {ord(illegal[0]):x}")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_")
    except ValueError:
        raise ValueError(f"'{text}' is not URL-safe base64") from None
    if len(raw) != ID_BYTES:
        raise ValueError(
            f"Input string `{text}` decoded as {len(raw)} bytes, which is not equal to the expected {ID_BYTES} bytes "
            "of a base64-encoded UUID"
        )
    return uuid.UUID(bytes=raw)
