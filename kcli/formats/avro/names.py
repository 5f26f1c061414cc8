"""Which names are valid. A new schema has names of ASCII letters only, and an old one of letters of any script."""

from __future__ import annotations

import re

from kcli.formats.avro.schema import Enum, Fixed, Part, Record, all_parts
from kcli.formats.codec import FormatError

_STRICT_FIRST, _STRICT = re.compile(r"[A-Za-z_]"), re.compile(r"[A-Za-z0-9_]*")
_SUPPLEMENTARY = "\U00010000"
"""Java examines a character from here on as two halves, and no half is a letter."""


def check_strict_name(name: str) -> None:
    """Raises FormatError for a name that a new schema must not have. The name has no namespace."""
    if reason := _strict_error(name):
        raise FormatError(reason)


def check_strict_space(full_name: str) -> None:
    """Raises FormatError for a namespace that a new schema must not have."""
    for part in full_name.split(".")[:-1]:
        if reason := _strict_error(part):
            raise FormatError(f'Namespace part "{part}" is invalid: {reason}')


def check_names(root: Part) -> None:
    """Raises FormatError for a name that even an old schema must not have."""
    for part in all_parts(root):
        match part:
            case Record():
                _check_name(part.name.name)
                for item in part.fields:
                    _check_name(item.name)
            case Enum():
                _check_name(part.name.name)
                for symbol in part.symbols:
                    _check_name(symbol)
            case Fixed():
                _check_name(part.name.name)
            case _:
                pass


def _strict_error(name: str) -> str | None:
    if not name:
        return "Empty name"
    if _STRICT_FIRST.match(name) is None:
        return f"Illegal initial character: {name}"
    return None if _STRICT.fullmatch(name) else f"Illegal character in: {name}"


def _check_name(name: str) -> None:
    if not name:
        raise FormatError("Empty name")
    if not (_is_letter(name[0]) or name[0] == "_"):
        raise FormatError(f"Illegal initial character: {name}")
    if not all(_is_letter(char) or char.isdecimal() or char == "_" for char in name[1:]):
        raise FormatError(f"Illegal character in: {name}")


def _is_letter(char: str) -> bool:
    return char.isalpha() and char < _SUPPLEMENTARY
