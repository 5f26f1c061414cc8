"""The codec of a value format, and the error of a schema that cannot be used."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from kcli.errors import KcliError

Scalar = (
    bool
    | int
    | float
    | str
    | bytes
    | decimal.Decimal
    | datetime.date
    | datetime.time
    | datetime.timedelta
    | uuid.UUID
    | None
)
Value = Scalar | list["Value"] | tuple["Value", "Value"] | dict[str, "Value"]
"""A decoded value: a record is a dict by field name; an entry of a Protobuf map is a pair of key and value."""


class FormatError(KcliError):
    """The schema cannot be used: one line for the user."""


@dataclass(frozen=True, slots=True)
class ValueCodec:
    """The values of one schema. `decode` and `encode` raise what their library raises when a value does not fit."""

    decode: Callable[[bytes], Value]
    encode: Callable[[Value], bytes]
