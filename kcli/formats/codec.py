"""The codec of a value format, and the error of an invalid schema."""

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
"""A decoded value. A record is a dict by field name, and an entry of a Protobuf map is a pair of key and value."""


class FormatError(KcliError):
    """Raised if a schema is invalid. The message is one line for the user."""


def missing_library(error: ImportError) -> FormatError:
    """The error of a schema or a value that needs a library of the extra `schemas`."""
    return FormatError(f"{error.name} is missing: pip install 'kcli-streaming[schemas]'")


@dataclass(frozen=True, slots=True)
class ValueCodec:
    """The codec of one schema.

    For values that do not fit the schema, `decode` and `encode` raise the errors of the Avro or Protobuf library.
    """

    decode: Callable[[bytes], Value]
    encode: Callable[[Value], bytes]
