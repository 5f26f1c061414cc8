"""Names of schemas and fields that Avro accepts, in the modes of schema.name.adjustment.mode of Debezium."""

from __future__ import annotations

import re

ADJUSTMENTS = ("none", "avro", "avro_unicode")
_NOT_IN_FIELDS = re.compile(r"[^a-zA-Z0-9_]")
_NOT_IN_SCHEMAS = re.compile(r"[^a-zA-Z0-9_.]")
_ESCAPED_IN_FIELDS = re.compile(r"[^a-zA-Z0-9]|^[0-9]")
_ESCAPED_IN_SCHEMAS = re.compile(r"[^a-zA-Z0-9.]|^[0-9.]")


def adjusted_schema_name(name: str, mode: str) -> str:
    match mode:
        case "avro":
            adjusted = _NOT_IN_SCHEMAS.sub("_", name)
            return f"_{adjusted[1:]}" if adjusted[0].isdecimal() or adjusted[0] == "." else adjusted
        case "avro_unicode":
            return _ESCAPED_IN_SCHEMAS.sub(_escaped, name)
    return name


def adjusted_field_name(name: str, mode: str) -> str:
    match mode:
        case "avro":
            adjusted = _NOT_IN_FIELDS.sub("_", name)
            return f"_{adjusted}" if adjusted[0].isdecimal() else adjusted
        case "avro_unicode":
            return _ESCAPED_IN_FIELDS.sub(_escaped, name)
    return name


def _escaped(match: re.Match[str]) -> str:
    """The number of a character, or of each half of a pair in UTF-16."""
    units = match[0].encode("utf-16-be")
    return "".join(f"_u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
