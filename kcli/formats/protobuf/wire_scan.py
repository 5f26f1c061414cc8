"""Finds the fields of many Protobuf messages at once.

The messages are rows, and each row has a position in its bytes. A step moves all rows that are at one field behind it.
Writers write fields in the order of their numbers, so one pass over the fields of the schema reads most messages whole.
A row that needs more than a few passes, or whose bytes are unusual, is left to the Protobuf library.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.formats.protobuf.codec import is_map
from kcli.formats.protobuf.column_types import Kind, Path, kind_of, value_type
from kcli.formats.protobuf.wire_arrays import fixed, varints

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from numpy.typing import NDArray

    from kcli.formats.protobuf.wire_arrays import Bytes, Flags, Integers

MAX_PASSES = 16
"""Passes over the fields of a message, for rows whose fields are in another order."""

FEW_ROWS, MANY_STEPS = 128, 64
"""If fewer rows than the first have more elements than the second, the Protobuf library is faster."""

MAX_SPAN = 1 << 40
"""More bytes than any value has. A longer span ends here, so that its end is a number of 64 bits."""

VARINT, FIXED64, SPAN, FIXED32 = 0, 1, 2, 5
_GROUP_TYPE = 10
_WIRE_TYPES = {
    _GROUP_TYPE: SPAN,
    1: FIXED64,
    2: FIXED32,
    6: FIXED64,
    7: FIXED32,
    15: FIXED32,
    16: FIXED64,
    9: SPAN,
    11: SPAN,
    12: SPAN,
}
"""The wire types of the types of FieldDescriptorProto. Other types are varints. No tag of a group is read."""


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How a field is read. `oneof` is the index of its oneof, or -1. `child` is the plan of a message."""

    field: FieldDescriptor
    kind: Kind
    type: pa.DataType
    wire: int
    is_map: bool
    is_single_message: bool
    has_null: bool
    oneof: int
    child: MessagePlan | None


@dataclass(frozen=True, slots=True)
class Tag:
    """The bytes of a tag, the index of its field, and the wire type of what follows."""

    content: bytes
    index: int
    wire: int


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """The fields of a message in the order of their numbers, and their tags."""

    fields: tuple[FieldPlan, ...]
    tags: tuple[Tag, ...]
    oneofs: int
    is_entry: bool
    """Whether the message is an entry of a map. The Protobuf library drops an entry with an unknown field."""


@dataclass(slots=True)
class Chunk:
    """Values of a field in some rows, at positions. A span has its end in `end`, other values are in `value`."""

    rows: Integers
    position: Integers
    value: NDArray[np.generic]
    end: Integers | None = None


@dataclass(slots=True)
class Scan:
    """The chunks of each field, the field that is set in each oneof, and the rows that were not read."""

    chunks: list[list[Chunk]]
    cases: list[Integers]
    is_bad: Flags
    _case_positions: list[Integers] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.is_bad)


def message_plan(descriptor: Descriptor, path: Path = (), *, is_entry: bool = False) -> MessagePlan:
    """Returns the plan of a message. The fields of a map entry are never null."""
    inner = (*path, descriptor.full_name)
    fields = sorted(descriptor.fields, key=lambda one: one.number)
    plans = tuple(_field_plan(one, inner, is_entry=is_entry) for one in fields)
    tags: list[Tag] = []
    for index, plan in enumerate(plans):
        if plan.field.type != _GROUP_TYPE:
            tags.append(Tag(_tag(plan.field.number, plan.wire), index, plan.wire))
        if plan.field.is_repeated and plan.wire != SPAN:
            tags.append(Tag(_tag(plan.field.number, SPAN), index, SPAN))
    return MessagePlan(plans, (*tags,), len(descriptor.oneofs), is_entry)


def _field_plan(one: FieldDescriptor, path: Path, *, is_entry: bool) -> FieldPlan:
    kind, has_map = kind_of(one, path), is_map(one)
    has_child = one.message_type is not None and kind is not Kind.JSON
    child = message_plan(one.message_type, path, is_entry=has_map) if has_child else None
    return FieldPlan(
        one,
        kind,
        value_type(one, path),
        _WIRE_TYPES.get(one.type, VARINT),
        has_map,
        one.message_type is not None and not one.is_repeated,
        one.has_presence and not is_entry,
        one.containing_oneof.index if one.containing_oneof is not None else -1,
        child,
    )


def _tag(number: int, wire: int) -> bytes:
    value = number << 3 | wire
    content = bytearray()
    while value >= 0x80:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*content, value])


def scan(plan: MessagePlan, content: Bytes, start: Integers, end: Integers) -> Scan:
    """Finds the fields of the messages in the spans from `start` to `end` of `content`."""
    import numpy as np

    count = len(start)
    result = Scan(
        [[] for _ in plan.fields],
        [np.full(count, -1) for _ in range(plan.oneofs)],
        np.zeros(count, np.bool_),
        [np.full(count, -1) for _ in range(plan.oneofs)],
    )
    rows = _Rows(content, start.copy(), end, np.where(start < end, content[start], 0).astype(np.uint8))
    for _ in range(MAX_PASSES):
        for tag in plan.tags:
            _read_field(plan.fields[tag.index], tag, rows, result)
        if not (rows.position < end).any():
            return result
        _skip_unknown(plan, rows, result)
    result.is_bad |= rows.position < end
    return result


@dataclass(slots=True)
class _Rows:
    """The positions of rows. `first` has the byte at each position, or 0 at the end of a row."""

    content: Bytes
    position: Integers
    end: Integers
    first: NDArray[np.uint8]

    def move(self, rows: Integers, behind: Integers) -> NDArray[np.uint8]:
        """Moves rows, and returns the bytes at their positions."""
        first = self.content.take(behind)
        first[behind >= self.end.take(rows)] = 0
        self.position[rows] = behind
        self.first[rows] = first
        return first

    def give_up(self, rows: Integers, result: Scan) -> None:
        """Leaves rows to the Protobuf library."""
        result.is_bad[rows] = True
        self.position[rows] = self.end[rows]
        self.first[rows] = 0


def _read_field(plan: FieldPlan, tag: Tag, state: _Rows, result: Scan) -> None:
    """Reads the field in all rows that are at its tag, until no row is."""
    import numpy as np

    rows = np.flatnonzero(state.first == tag.content[0])
    steps = 0
    while rows.size:
        for nth, byte in enumerate(tag.content[1:], 1):
            rows = rows[state.content[state.position[rows] + nth] == byte]
        steps += 1
        if rows.size == 0:
            return
        if steps > MANY_STEPS and rows.size < FEW_ROWS:
            state.give_up(rows, result)
            return
        position, end = state.position.take(rows) + len(tag.content), state.end.take(rows)
        chunk, behind = _values(state.content, rows, position, end, tag.wire)
        over = behind > end
        if over.any():
            state.give_up(rows[over], result)
            chunk, behind, rows = _without(chunk, over), behind[~over], rows[~over]
        _add(plan, tag.index, chunk, result)
        rows = rows[state.move(rows, behind) == tag.content[0]]


def _values(
    content: Bytes, rows: Integers, position: Integers, end: Integers, wire: int
) -> tuple[Chunk, Integers]:
    """Returns the values at positions, and the positions behind them, which are behind `end` for broken rows."""
    if wire == FIXED32:
        return Chunk(rows, position, fixed(content, position, 4)), position + 4
    if wire == FIXED64:
        return Chunk(rows, position, fixed(content, position, 8)), position + 8
    value, behind = varints(content, position)
    if wire == VARINT:
        return Chunk(rows, position, value), _behind_varint(position, behind, end)
    stop = _span_end(value, _behind_varint(position, behind, end), end)
    return Chunk(rows, position, behind, stop), stop


def _behind_varint(position: Integers, behind: Integers, end: Integers) -> Integers:
    """Returns positions behind varints. A varint of 11 bytes ends behind its row, because no number is so long."""
    import numpy as np

    return np.where(behind - position > 10, end + 1, behind)


def _span_end(length: NDArray[np.uint64], start: Integers, end: Integers) -> Integers:
    import numpy as np

    stop = start + np.minimum(length, np.uint64(MAX_SPAN)).astype(np.int64)
    return np.minimum(stop, end + 1)


def _without(chunk: Chunk, removed: Flags) -> Chunk:
    return Chunk(
        chunk.rows[~removed],
        chunk.position[~removed],
        chunk.value[~removed],
        None if chunk.end is None else chunk.end[~removed],
    )


def _add(plan: FieldPlan, index: int, chunk: Chunk, result: Scan) -> None:
    """Adds a chunk to its field, and notes the last field of each oneof."""
    if plan.is_single_message:
        # A message that is written twice is merged, which the Protobuf library does.
        for before in result.chunks[index]:
            again = before.rows[_is_in(before.rows, chunk.rows, result.count)]
            result.is_bad[again] = True
    result.chunks[index].append(chunk)
    if plan.oneof >= 0:
        positions, cases = result._case_positions[plan.oneof], result.cases[plan.oneof]
        later = chunk.position > positions[chunk.rows]
        positions[chunk.rows[later]] = chunk.position[later]
        cases[chunk.rows[later]] = index


def _is_in(rows: Integers, others: Integers, count: int) -> Flags:
    import numpy as np

    flags = np.zeros(count, np.bool_)
    flags[others] = True
    return flags[rows]


def _skip_unknown(plan: MessagePlan, state: _Rows, result: Scan) -> None:
    """Moves rows that are at an unknown field behind it. A row at a known field waits for the next pass."""
    import numpy as np

    rows = np.flatnonzero(state.position < state.end)
    position = state.position[rows]
    tag, behind = varints(state.content, position)
    known = np.isin(tag, np.array([_value(one.content) for one in plan.tags], np.uint64))
    # A tag with more bytes than it needs is not found by its bytes, and the library refuses some of these tags.
    is_odd = behind - position != _varint_size(tag)
    wire, number = tag & 7, tag >> 3
    is_broken = (number == 0) | (number >= 1 << 29) | ~np.isin(wire, (VARINT, FIXED64, SPAN, FIXED32))
    wrong = is_odd | (~known & (is_broken | plan.is_entry))
    state.give_up(rows[wrong], result)
    for kind in (VARINT, FIXED64, SPAN, FIXED32):
        chosen = ~known & ~wrong & (wire == kind)
        if chosen.any():
            of = rows[chosen]
            _, after = _values(state.content, of, behind[chosen], state.end[of], kind)
            over = after > state.end[of]
            state.give_up(of[over], result)
            state.move(of[~over], after[~over])


def _value(content: bytes) -> int:
    return sum((byte & 0x7F) << 7 * nth for nth, byte in enumerate(content))


def _varint_size(value: NDArray[np.uint64]) -> Integers:
    import numpy as np

    size = np.ones(len(value), np.int64)
    for shift in range(7, 70, 7):
        size += (value >> np.uint64(min(shift, 63))) != 0 if shift < 64 else 0
    return size
