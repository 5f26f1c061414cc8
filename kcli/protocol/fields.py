"""Declares how the fields of a message or record are encoded: the annotations that both codecs read.

A field is annotated with its type: `Int32` and similar numbers, `str`, `bytes`, `bool`, `float`, `UUID`, a struct, or
`tuple[X, ...]` for an array. `X | None` is a nullable field. `Annotated` adds the versions that have the field, and
`tag(n)` for a tagged field (KIP-482). A field without versions exists in every version of its struct.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class Number:
    """A number of fixed width. `code` is its format character in Python's module `struct`. Numbers are big-endian."""

    code: str


Int8 = Annotated[int, Number("b")]
Int16 = Annotated[int, Number("h")]
UInt16 = Annotated[int, Number("H")]
Int32 = Annotated[int, Number("i")]
Int64 = Annotated[int, Number("q")]

SAME_AS_DEFAULT = object()


@dataclass(frozen=True, slots=True)
class tag:
    """Marks a tagged field. The field is not written if it has its default value. If `absent` is given, the field is
    not written if it has the value `absent` instead."""

    number: int
    absent: object = SAME_AS_DEFAULT


@dataclass(frozen=True, slots=True)
class since:
    """Marks the first version with a field. In an earlier version, writing a value other than the default raises an
    error, but only in a record. If the field of a record is `ignorable`, the value is dropped, as it is in a message.
    """

    version: int
    ignorable: bool = False


@dataclass(frozen=True, slots=True)
class until:
    """Marks the last version with a field of a message."""

    version: int


@dataclass(frozen=True, slots=True)
class only:
    """Marks the only version with a field of a record. In other versions, the value of the field is not written."""

    version: int


@dataclass(frozen=True, slots=True)
class null_since:
    """Marks the first version in which a nullable field of a message may be null."""

    version: int
