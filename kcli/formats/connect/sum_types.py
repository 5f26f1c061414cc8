"""Enums and unions in Connect's data model, as Confluent's converters of all three formats describe them.

With `generalized.sum.type.support`, an enum is a text and a union is a struct, and a parameter of the schema has the
name of the type. Further parameters of an enum have its symbols.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kcli.formats.connect.schema import Schema

ENUM_PARAMETER: Final = "org.apache.kafka.connect.data.Enum"
UNION_PARAMETER: Final = "org.apache.kafka.connect.data.Union"


def is_sum_type(schema: Schema, parameter: str) -> bool:
    """Whether a schema has the parameter of an enum or a union."""
    return schema.parameters is not None and parameter in schema.parameters


def enum_parameters(name: str, numbers: Iterable[tuple[str, int]]) -> dict[str, str]:
    """Returns the parameters of an enum with its symbols and their numbers."""
    return {ENUM_PARAMETER: name} | {f"{ENUM_PARAMETER}.{symbol}": str(number) for symbol, number in numbers}


def symbols_of(schema: Schema, parameter: str) -> dict[str, str]:
    """Returns the symbols of an enum with the values of their parameters, in the order of the parameters."""
    prefix = f"{parameter}."
    parameters = schema.parameters or {}
    return {name.removeprefix(prefix): text for name, text in parameters.items() if name.startswith(prefix)}
