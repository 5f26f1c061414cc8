"""Checks every length in a message against the bytes of the message, before kio's native reader uses the lengths.

The native reader allocates an array of the size that it finds in the message. So a count of two billion in a frame of
twenty bytes would end the process. The native reader also accepts a null that the schema forbids. So this module first
visits the fields of the frame (the *walk*), by the same schema, and compares each length with the bytes left. The walk
builds no values and costs a fraction of reading.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from functools import cache

from kcli.errors import ProtocolError
from kcli.protocol.wire.packing import INT16, INT32, read_uvarint

Walk = Callable[[bytes, int], int]
"""A function from the position of a value to the position after it. Raises ProtocolError, IndexError or
struct.error."""

_FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_STRING = "string"
_SIZED = ("bytes", "records")


def check(cls: type, frame: bytes, at: int) -> None:
    """Raises ProtocolError, IndexError or struct.error if a length in `frame[at:]` exceeds the frame."""
    end = walk_of(cls)(frame, at)
    if end > len(frame):
        raise ProtocolError(f"the message ends {end - len(frame)} bytes after its frame")


@cache
def walk_of(cls: type) -> Walk:
    """The walk over one kio struct."""
    hints = typing.get_type_hints(cls)
    flexible: bool = cls.__flexible__  # type: ignore[attr-defined]
    steps: list[Walk | int] = []
    tagged: dict[int, Walk] = {}
    for field in dataclasses.fields(cls):
        step = _field(hints[field.name], field.metadata.get("kafka_type"), flexible)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = _fixed(step) if isinstance(step, int) else step
        elif isinstance(step, int) and steps and isinstance(steps[-1], int):
            steps[-1] += step
        else:
            steps.append(step)
    walks = [_fixed(step) if isinstance(step, int) else step for step in steps]
    if flexible:
        walks.append(_tags(tagged))

    def walk(frame: bytes, at: int) -> int:
        for each in walks:
            at = each(frame, at)
        return at

    return walk


def _field(hint: object, kafka_type: str | None, flexible: bool) -> Walk | int:
    """The walk over one field, or its size if it is fixed."""
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    core = next(part for part in parts if part is not type(None))
    nullable = len(parts) > 1
    if typing.get_origin(core) is tuple:
        return _array(_one(typing.get_args(core)[0], kafka_type, flexible, False), flexible, nullable)
    one = _one(core, kafka_type, flexible, nullable)
    # A nullable struct begins with a byte that tells whether the struct is present.
    if not isinstance(one, int) and dataclasses.is_dataclass(core) and nullable:
        return _nullable(one)
    return one


def _one(core: object, kafka_type: str | None, flexible: bool, nullable: bool) -> Walk | int:
    if dataclasses.is_dataclass(core) and isinstance(core, type):
        return walk_of(core)
    assert kafka_type is not None, core
    if kafka_type in _FIXED_SIZES:
        return _FIXED_SIZES[kafka_type]
    assert kafka_type == _STRING or kafka_type in _SIZED, kafka_type
    if flexible:
        return _sized(_read_compact_length, nullable)
    return _sized(_read_short_length if kafka_type == _STRING else _read_long_length, nullable)


def _fixed(size: int) -> Walk:
    return lambda _frame, at: at + size


def _read_short_length(frame: bytes, at: int) -> tuple[int, int]:
    return INT16.unpack_from(frame, at)[0], at + 2


def _read_long_length(frame: bytes, at: int) -> tuple[int, int]:
    return INT32.unpack_from(frame, at)[0], at + 4


def _read_compact_length(frame: bytes, at: int) -> tuple[int, int]:
    length, at = read_uvarint(frame, at)
    return length - 1, at


def _sized(read_length: Callable[[bytes, int], tuple[int, int]], nullable: bool) -> Walk:
    def walk(frame: bytes, at: int) -> int:
        length, at = read_length(frame, at)
        if length < 0:
            _check_null(length, at, nullable)
            return at
        return _past(frame, at, length)

    return walk


def _past(frame: bytes, at: int, length: int) -> int:
    if length > len(frame) - at:
        raise ProtocolError(f"{length} bytes at byte {at} run past the end of the message")
    return at + length


def _check_null(length: int, at: int, nullable: bool) -> None:
    if not nullable:
        raise ProtocolError(f"null (length {length}) at byte {at}, where null is not allowed")


def _array(one: Walk | int, flexible: bool, nullable: bool) -> Walk:
    read_length = _read_compact_length if flexible else _read_long_length
    # Every element has at least one byte.
    size_min = one if isinstance(one, int) else 1

    def walk(frame: bytes, at: int) -> int:
        count, at = read_length(frame, at)
        if count < 0:
            _check_null(count, at, nullable)
            return at
        if count * size_min > len(frame) - at:
            raise ProtocolError(f"an array of {count} elements at byte {at} runs past the end of the message")
        if isinstance(one, int):
            return at + count * one
        for _ in range(count):
            at = one(frame, at)
        return at

    return walk


def _nullable(one: Walk) -> Walk:
    return lambda frame, at: at + 1 if frame[at] >= 0x80 else one(frame, at + 1)


def _tags(known: dict[int, Walk]) -> Walk:
    def walk(frame: bytes, at: int) -> int:
        if frame[at] == 0:
            return at + 1
        count, at = read_uvarint(frame, at)
        for _ in range(count):
            tag, at = read_uvarint(frame, at)
            size, at = read_uvarint(frame, at)
            end = _past(frame, at, size)
            if tag in known and known[tag](frame, at) != end:
                raise ProtocolError(
                    f"tagged field {tag} at byte {at} does not have the {size} bytes it states"
                )
            at = end
        return at

    return walk
