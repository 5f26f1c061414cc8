"""The error for a text of PostgreSQL in another form than expected."""

from __future__ import annotations

from kcli.formats.connect.errors import DataException

_SHOWN_MAX = 100


def invalid_text(kind: str, text: str) -> DataException:
    shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
    return DataException(f"PostgreSQL has sent a value of the type {kind} in an unknown form: {shown!r}")
