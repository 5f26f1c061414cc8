"""Reads the fields of a version from a record class of `wire_records`.

These fields are the input of both prototype codecs.

The classes are declared like those of `kcli.protocol.records.schema`. Wire messages need three more annotations: the
last version of a field (`until`), the first version in which it may be null (`null_since`), and error codes (`Error`).
"""

from __future__ import annotations

import dataclasses
import importlib
import typing
import uuid
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated

from kcli.errors import ErrorCode
from kcli.protocol.records.schema import Number, only, since, tag
from kcli.protocol.wire.api import ApiKey

Error = Annotated[ErrorCode, Number("h")]
UInt32 = Annotated[int, Number("I")]


@dataclass(frozen=True, slots=True)
class until:
    """Annotates a field with the last version that has it."""

    version: int


@dataclass(frozen=True, slots=True)
class null_since:
    """Annotates a field with the first version in which it may be null.

    Without it, `X | None` is valid for all versions.
    """

    version: int


@dataclass(frozen=True, slots=True)
class WireField:
    """One field in one version.

    `kind` is the struct code of a number or of a bool, or one of "error", "uuid", "string", "bytes", "struct".
    """

    name: str
    kind: str
    struct: type | None
    is_array: bool
    nullable: bool
    tag: int | None
    default: object


_KINDS = {str: "string", bytes: "bytes", bool: "?", float: "d", uuid.UUID: "uuid", ErrorCode: "error"}


def message_class(key: ApiKey, kind: str) -> type:
    """Returns the record class of a request or response."""
    from wire_records import MESSAGES  # written at run time

    module, name = MESSAGES[key.value, kind]
    found: type = getattr(importlib.import_module(f"wire_records.{module}"), name)
    return found


def wire_fields(cls: type, version: int) -> list[WireField]:
    """Returns the fields of `version` in wire order. Tagged fields are at the place where the class declares them."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return [
        _wire_field(declared, hints[declared.name], version)
        for declared in dataclasses.fields(cls)
        if _is_in(version, _marks(hints[declared.name]))
    ]


def _is_in(version: int, marks: tuple[object, ...]) -> bool:
    for mark in marks:
        match mark:
            case since(first) if version < first:
                return False
            case until(last) if version > last:
                return False
            case only(single) if version != single:
                return False
    return True


def _wire_field(declared: dataclasses.Field[object], hint: object, version: int) -> WireField:
    marks = _marks(hint)
    core, nullable = _without_null(_plain(hint))
    is_array = typing.get_origin(core) is tuple
    item = typing.get_args(core)[0] if is_array else hint
    kind, struct = _kind(item)
    first_null = next((mark.version for mark in marks if isinstance(mark, null_since)), 0)
    return WireField(
        name=declared.name,
        kind=kind,
        struct=struct,
        is_array=is_array,
        nullable=nullable and version >= first_null and (is_array or kind != "uuid"),
        tag=next((mark.number for mark in marks if isinstance(mark, tag)), None),
        default=declared.default,
    )


def _kind(hint: object) -> tuple[str, type | None]:
    core, _ = _without_null(_plain(hint))
    assert isinstance(core, type), hint
    if core is int:
        return next(mark.code for mark in _marks(hint) if isinstance(mark, Number)), None
    kind = _KINDS.get(core)
    return (kind, None) if kind else ("struct", core)


def _marks(hint: object) -> tuple[object, ...]:
    return typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()


def _plain(hint: object) -> object:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def _without_null(hint: object) -> tuple[object, bool]:
    if typing.get_origin(hint) not in (typing.Union, UnionType):
        return hint, False
    (core,) = (part for part in typing.get_args(hint) if part is not NoneType)
    return _plain(core), True
