"""The bytes of source offsets, as the offsets topic has them: compact JSON, without a schema."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kcli.formats.connect.errors import DataException

_PRIMITIVES = (str, int, float, bool, type(None))


def offset_key(connector: str, partition: Mapping[str, object] | None) -> bytes:
    """The key of a source partition, such as `["C",{"file":"f"}]`. Raises DataException."""
    return _encoded([connector, _checked(partition)])


def offset_value(offset: Mapping[str, object] | None) -> bytes | None:
    """The value of an offset. None deletes the offset. Raises DataException."""
    return None if offset is None else _encoded(_checked(offset))


def read_offset(value: bytes | None) -> Mapping[str, object] | None:
    """The reverse of `offset_value`."""
    if value is None:
        return None
    offset = json.loads(value)
    return offset if isinstance(offset, dict) else None


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _checked(texts: Mapping[str, object] | None) -> Mapping[str, object] | None:
    for key, value in (texts or {}).items():
        if not isinstance(key, str):
            raise DataException("Offsets may only use String keys")
        if not isinstance(value, _PRIMITIVES):
            raise DataException(
                "Offsets may only contain primitive types as values, but field "
                f"{key} contains {type(value).__name__}"
            )
    return texts
