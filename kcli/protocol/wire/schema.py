"""Finds the classes of messages, and the fields of a struct in one version.

The classes in `kcli.protocol.messages` have the fields of all versions. The annotations of a class state how each field
is encoded, and in which versions (kcli.protocol.fields).
"""

from __future__ import annotations

import dataclasses
import importlib
import types
import typing
import uuid
from dataclasses import dataclass
from functools import cache
from typing import Annotated, TypeVar

from kcli.errors import ErrorCode
from kcli.protocol.fields import Number, null_since, since, tag, until
from kcli.protocol.wire.api import ApiSpec

T = TypeVar("T")

KINDS = ("request", "response")
"""The two messages of an API."""

_FORMATS = {bool: "?", float: "d", ErrorCode: "h", uuid.UUID: "16s"}
"""The struct format of the types of fixed size that are no annotated numbers."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct in one version.

    `type` is the class of its value, or of one element if it is an array. `form` is the format of a value of fixed size
    in Python's module `struct`. Strings, bytes and structs have no such format. `tag` is the number of a tagged field
    (KIP-482). A field of the type `UUID` is never nullable, because the zero uuid stands for None.
    """

    name: str
    type: type
    form: str | None
    is_array: bool
    nullable: bool
    default: object
    tag: int | None

    @property
    def is_struct(self) -> bool:
        return self.form is None and self.type not in (str, bytes)


def messages(spec: ApiSpec) -> types.ModuleType:
    """The module with the classes for the messages of one API."""
    return importlib.import_module(f"kcli.protocol.messages.{spec.module}")


@cache
def message_class(spec: ApiSpec, kind: str) -> type:
    """The class of the request or the response of one API. `kind` is one of KINDS."""
    cls: type = getattr(messages(spec), spec.name + kind.capitalize())
    return cls


@cache
def fields(cls: type, version: int) -> tuple[Field, ...]:
    """The fields of a struct in one version, in the order of Kafka's schema, tagged fields included."""
    made = (_field(field, hint, version) for field, hint in _hints(cls))
    return tuple(field for field in made if field is not None)


@cache
def _hints(cls: type) -> list[tuple[dataclasses.Field[object], object]]:
    """The declared fields of a struct with their annotations, which are text until here."""
    scope = vars(importlib.import_module(cls.__module__))
    return [(field, eval(str(field.type), scope)) for field in dataclasses.fields(cls)]


def _field(declared: dataclasses.Field[object], hint: object, version: int) -> Field | None:
    """The field that an annotation declares, or None if the version has no such field."""
    hint, marks = _split(hint)
    first, last = _mark(marks, since), _mark(marks, until)
    if (first and version < first.version) or (last and version > last.version):
        return None
    hint, may_be_null = _without_none(hint)
    null, place = _mark(marks, null_since), _mark(marks, tag)
    is_array = typing.get_origin(hint) is tuple
    if is_array:
        hint, marks = _split(typing.get_args(hint)[0])
        hint, _ = _without_none(hint)
    assert isinstance(hint, type), f"no wire type for the annotation {hint!r}"
    number = _mark(marks, Number)
    return Field(
        name=declared.name,
        type=hint,
        form=number.code if number else _FORMATS.get(hint),
        is_array=is_array,
        nullable=may_be_null
        and (is_array or hint is not uuid.UUID)
        and (not null or version >= null.version),
        default=declared.default,
        tag=place.number if place else None,
    )


def _split(hint: object) -> tuple[object, tuple[object, ...]]:
    """The plain annotation, and what `Annotated` adds to it."""
    if typing.get_origin(hint) is Annotated:
        plain, *marks = typing.get_args(hint)
        return plain, tuple(marks)
    return hint, ()


def _without_none(hint: object) -> tuple[object, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (plain,) = (argument for argument in typing.get_args(hint) if argument is not types.NoneType)
        return plain, True
    return hint, False


def _mark(marks: tuple[object, ...], kind: type[T]) -> T | None:
    return next((mark for mark in marks if isinstance(mark, kind)), None)
