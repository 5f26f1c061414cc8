"""The text form of Kafka's ids: 22 characters of URL-safe base64 without padding."""

from __future__ import annotations

import base64
import binascii
import uuid

TEXT_LENGTH = 22


def uuid_to_text(value: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes)[:TEXT_LENGTH].decode("ascii")


def uuid_from_text(text: str) -> uuid.UUID:
    """Parses the text form of an id. Raises ValueError unless the text encodes 16 bytes."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 16:
        raise ValueError(f"'{text}' is not an id: expected {TEXT_LENGTH} characters of URL-safe base64")
    return uuid.UUID(bytes=raw)
