"""JSON pointers (RFC 6901)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcli.model.java_text import natural


def resolve(pointer: str, document: object) -> object:
    """The value at a pointer, or None if there is no such value. An empty pointer is the document itself."""
    if not pointer:
        return document
    value = document
    for part in pointer.removeprefix("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            position = natural(name)
            value = value[position] if position is not None and position < len(value) else None
        else:
            return None
    return value
