"""Decodes many Protobuf values to Arrow columns, without a Python object for each value.

numpy reads the fields of all values at once (wire_scan.py). The Protobuf library decodes the few unusual values, and
decides whether a value is valid. So both ways have the same results, which are those of `row_of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.formats.codec import Value, ValueCodec
from kcli.formats.protobuf.codec import protobuf_codec
from kcli.formats.protobuf.column_types import Kind, column_types, json_of, row_of, value_of_row
from kcli.formats.protobuf.number_arrays import numbers, spans, times
from kcli.formats.protobuf.wire_arrays import PADDING, gathered, packed_varints, texts, validity
from kcli.formats.protobuf.wire_scan import (
    FIXED32,
    FIXED64,
    SPAN,
    Chunk,
    FieldPlan,
    MessagePlan,
    Scan,
    message_plan,
    scan,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from google.protobuf.message import Message
    from numpy.typing import NDArray

    from kcli.formats.protobuf.number_arrays import Marker
    from kcli.formats.protobuf.wire_arrays import Bytes, Flags, Integers

FEW_VALUES = 16
"""Fewer values are decoded faster one by one."""

MAX_BATCH_BYTES = 64 << 20
"""The bytes of the values that are decoded at once. Arrow's offsets have 32 bits."""


@dataclass(frozen=True, slots=True)
class DecodedValues:
    """Records, which are null for null values and for invalid ones, and the errors of the invalid ones."""

    records: pa.StructArray
    errors: pa.StringArray


class ColumnDecoder:
    """Decodes values of one message class to columns. Raises FormatError for a message with too many columns."""

    def __init__(self, message: type[Message]) -> None:
        self.message = message
        self.type: pa.StructType = column_types(message.DESCRIPTOR)
        self._plan = message_plan(message.DESCRIPTOR)

    @property
    def row_codec(self) -> ValueCodec:
        """The codec of single rows."""
        message, codec = self.message, protobuf_codec(self.message)

        def decode(value: bytes) -> Value:
            return row_of(message.FromString(value))

        def encode(row: Value) -> bytes:
            return codec.encode(value_of_row(row, message.DESCRIPTOR))

        return ValueCodec(decode, encode)

    def decode(self, values: pa.Array, skip_bytes: int | Integers = 0) -> DecodedValues:
        """Decodes an array of binary values, each without its first `skip_bytes`, a number for all or for each."""
        import numpy as np
        import pyarrow as pa

        values = values.cast(pa.large_binary())
        skips = np.broadcast_to(np.asarray(skip_bytes, np.int64), len(values))
        parts = []
        for first, behind in _slices(_offsets(values)):
            parts.append(self._decode(values.slice(first, behind - first), skips[first:behind]))
        if not parts:
            return DecodedValues(pa.array([], self.type), pa.array([], pa.string()))
        return DecodedValues(
            pa.concat_arrays([part.records for part in parts]),
            pa.concat_arrays([part.errors for part in parts]),
        )

    def _decode(self, values: pa.Array, skips: Integers) -> DecodedValues:
        import numpy as np
        import pyarrow as pa

        offsets = _offsets(values)
        base = int(offsets[0])
        content = np.zeros(int(offsets[-1]) - base + PADDING, np.uint8)
        if (data := values.buffers()[2]) is not None:
            content[:-PADDING] = np.frombuffer(data, np.uint8)[base : int(offsets[-1])]
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        end = offsets[1:] - base
        start = np.minimum(offsets[:-1] - base + skips, end)
        start = np.where(is_null, end, start)
        if len(values) < FEW_VALUES:
            return self._with_library(pa.nulls(len(values), self.type), ~is_null, content, start, end)
        arrays, is_bad = _columns(self._plan, content, start, end)
        records = _record(arrays, self.type, len(values), validity(~is_null) if is_null.any() else None)
        return self._with_library(records, is_bad & ~is_null, content, start, end)

    def _with_library(
        self, records: pa.Array, is_bad: Flags, content: Bytes, start: Integers, end: Integers
    ) -> DecodedValues:
        """Replaces the rows that were not read by what the Protobuf library reads."""
        import numpy as np
        import pyarrow as pa

        bad = np.flatnonzero(is_bad)
        if bad.size == 0:
            return DecodedValues(records, pa.nulls(len(records), pa.string()))
        rows: list[Value] = []
        errors = np.full(len(records), None, object)
        for row in bad.tolist():
            decoded, errors[row] = self._decode_one(content[start[row] : end[row]].tobytes())
            rows.append(decoded)
        order = np.arange(len(records))
        order[bad] = len(records) + np.arange(bad.size)
        both = pa.concat_arrays([records, self._array(rows, bad, errors)])
        return DecodedValues(both.take(pa.array(order)), pa.array(errors, pa.string()))

    def _decode_one(self, value: bytes) -> tuple[Value, str | None]:
        """Returns the row of a value, or None and the error."""
        try:
            return row_of(self.message.FromString(value)), None
        except Exception as error:  # the library may raise any exception for malformed bytes
            return None, _reason(error)

    def _array(self, rows: list[Value], places: Integers, errors: NDArray[np.object_]) -> pa.Array:
        """Returns rows as an array. A row that does not fit the type, such as a too long time span, is an error."""
        import pyarrow as pa

        try:
            return pa.array(rows, self.type)
        except (pa.ArrowException, ValueError, OverflowError):
            arrays = []
            for place, row in zip(places.tolist(), rows, strict=True):
                try:
                    arrays.append(pa.array([row], self.type))
                except (pa.ArrowException, ValueError, OverflowError) as error:
                    arrays.append(pa.nulls(1, self.type))
                    errors[place] = _reason(error)
            return pa.concat_arrays(arrays)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _offsets(values: pa.Array) -> Integers:
    """Returns the offsets of the values in their buffer."""
    import numpy as np

    buffer = values.buffers()[1]
    if buffer is None or len(values) == 0:
        return np.zeros(1, np.int64)
    return np.frombuffer(buffer, np.int64)[values.offset : values.offset + len(values) + 1]


def _slices(offsets: Integers) -> list[tuple[int, int]]:
    """Returns slices of values with at most MAX_BATCH_BYTES, or with one value."""
    slices = []
    first, count = 0, len(offsets) - 1
    while first < count:
        behind = int(offsets.searchsorted(offsets[first] + MAX_BATCH_BYTES, side="right")) - 1
        behind = min(max(behind, first + 1), count)
        slices.append((first, behind))
        first = behind
    return slices


def _columns(
    plan: MessagePlan, content: Bytes, start: Integers, end: Integers
) -> tuple[dict[str, pa.Array], Flags]:
    """Returns the columns of messages by name, and which messages were not read."""
    found = scan(plan, content, start, end)
    arrays = {}
    for index, one in enumerate(plan.fields):
        builder = _Builder(one, index, found, content)
        arrays[one.field.name] = builder.repeated() if one.field.is_repeated else builder.single()
    return arrays, found.is_bad


def _record(
    arrays: dict[str, pa.Array], kind: pa.StructType, count: int, valid: pa.Buffer | None
) -> pa.Array:
    """Returns columns as an array of structs, in the order of the type."""
    import pyarrow as pa

    children = [arrays[one.name] for one in kind]
    return pa.Array.from_buffers(kind, count, [valid], children=children)


@dataclass(slots=True)
class _Builder:
    """Builds the column of one field from its chunks. It marks rows whose values need the Protobuf library."""

    _plan: FieldPlan
    _index: int
    _scan: Scan
    _content: Bytes

    def single(self) -> pa.Array:
        """Returns a column with at most one value in each row, of which the last counts."""
        import numpy as np

        count = self._scan.count
        chunks = self._scan.chunks[self._index]
        present = np.zeros(count, np.bool_)
        for chunk in chunks:
            present[chunk.rows] = True
        if self._plan.field.type == self._plan.field.TYPE_STRING:
            self._mark_repeated_texts(chunks, present)
        if self._plan.oneof >= 0:
            present &= self._scan.cases[self._plan.oneof] == self._index
        if self._plan.child is not None or self._plan.kind is Kind.JSON:
            return self._single_messages(chunks, present)
        if not self._plan.has_null:
            return self._array(self._spread(chunks), None, None)
        return self._array(self._spread(chunks), present, None)

    def _mark_repeated_texts(self, chunks: list[Chunk], present: Flags) -> None:
        """Marks the rows with several texts. The last text counts, but all of them must be UTF-8."""
        import numpy as np

        if sum(len(chunk.rows) for chunk in chunks) > np.count_nonzero(present):
            rows = np.concatenate([chunk.rows for chunk in chunks])
            self._scan.is_bad[np.bincount(rows, minlength=self._scan.count) > 1] = True

    def _spread(self, chunks: list[Chunk]) -> Chunk:
        """Returns one value for each row: the last, or zero."""
        import numpy as np

        count = self._scan.count
        if len(chunks) == 1 and len(chunks[0].rows) == count:
            return chunks[0]
        is_span = self._plan.wire == SPAN
        value = np.zeros(
            count, np.int64 if is_span else np.uint32 if self._plan.wire == FIXED32 else np.uint64
        )
        end = np.zeros(count, np.int64) if is_span else None
        for chunk in chunks:
            value[chunk.rows] = chunk.value
            if end is not None and chunk.end is not None:
                end[chunk.rows] = chunk.end
        rows = np.arange(count)
        return Chunk(rows, rows, value, end)

    def _single_messages(self, chunks: list[Chunk], present: Flags) -> pa.Array:
        """Returns a column of messages, which is null where the field is not set."""
        import numpy as np
        import pyarrow as pa

        chunk = _joined(chunks, self._plan)
        if not self._plan.has_null:
            self._scan.is_bad[~present] = True  # a map entry without a value, which then has the default
        array = self._array(chunk, None, chunk.rows)
        if len(chunk.rows) == self._scan.count and present.all():
            return array.take(pa.array(np.argsort(chunk.rows))) if len(chunks) > 1 else array
        order = np.full(self._scan.count, -1)
        order[chunk.rows] = np.arange(len(chunk.rows))
        return array.take(pa.array(order, mask=~present))

    def repeated(self) -> pa.Array:
        """Returns a column of lists or maps."""
        import numpy as np
        import pyarrow as pa

        chunks = [self._unpacked(chunk) for chunk in self._scan.chunks[self._index]]
        chunk = _joined(chunks, self._plan)
        if len(chunks) > 1:
            order = np.lexsort((chunk.position, chunk.rows))
            chunk = Chunk(
                chunk.rows[order],
                chunk.position[order],
                chunk.value[order],
                chunk.end[order] if chunk.end is not None else None,
            )
        array = self._array(chunk, None, chunk.rows)
        offsets = np.zeros(self._scan.count + 1, np.int32)
        np.cumsum(np.bincount(chunk.rows, minlength=self._scan.count), out=offsets[1:])
        if not self._plan.is_map:
            return pa.ListArray.from_arrays(pa.array(offsets), array, type=pa.list_(self._plan.type))
        keys, items = array.field(0), array.field(1)
        self._mark_repeated_keys(keys, chunk.rows)
        return pa.MapArray.from_arrays(pa.array(offsets), keys, items)

    def _unpacked(self, chunk: Chunk) -> Chunk:
        """Returns the elements of packed values. The elements of a value have the position of the value."""
        import numpy as np

        if chunk.end is None or self._plan.wire == SPAN:
            return chunk
        start, end = chunk.value.astype(np.int64), chunk.end
        if self._plan.wire in (FIXED32, FIXED64):
            size = 4 if self._plan.wire == FIXED32 else 8
            broken = (end - start) % size != 0
            end = np.where(broken, start, end)
            content, _ = gathered(self._content, start, end)
            value, counts = content.view(f"<u{size}"), (end - start) // size
        else:
            value, counts, broken = packed_varints(self._content, start, end)
        self._scan.is_bad[chunk.rows[broken]] = True
        return Chunk(np.repeat(chunk.rows, counts), np.repeat(chunk.position, counts), value)

    def _mark_repeated_keys(self, keys: pa.Array, rows: Integers) -> None:
        """Marks the rows of a map in which a key occurs twice, of which the last counts."""
        import numpy as np

        indices = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
        order = np.lexsort((indices, rows))
        same = (np.diff(rows[order]) == 0) & (np.diff(indices[order]) == 0)
        self._scan.is_bad[rows[order][1:][same]] = True

    def _array(self, chunk: Chunk, present: Flags | None, rows: Integers | None) -> pa.Array:
        """Returns the values of a chunk as an array. `rows` has their rows, or None if value n is in row n."""
        if self._plan.wire != SPAN:
            return numbers(self._plan.field, self._plan.type, chunk.value, present, self._marker(rows))
        assert chunk.end is not None
        start = chunk.value.astype("i8")
        if self._plan.kind is Kind.SCALAR:
            is_text = self._plan.field.type == self._plan.field.TYPE_STRING
            array, broken = texts(self._content, start, chunk.end, present, is_text=is_text)
            if broken is not None:
                self._marker(rows)(broken)
                array = texts(
                    self._content, start, _emptied(start, chunk.end, broken), present, is_text=is_text
                )[0]
            return array
        return self._messages(start, chunk.end, self._marker(rows))

    def _marker(self, rows: Integers | None) -> Marker:
        def mark(broken: Flags) -> None:
            self._scan.is_bad[broken if rows is None else rows[broken]] = True

        return mark

    def _messages(self, start: Integers, end: Integers, mark: Marker) -> pa.Array:
        plan = self._plan
        if plan.child is None:
            return self._json(start, end, mark)
        arrays, is_bad = _columns(plan.child, self._content, start, end)
        mark(is_bad)
        match plan.kind:
            case Kind.TIME:
                return times(arrays, mark)
            case Kind.SPAN:
                return spans(arrays, mark)
            case Kind.WRAPPER:
                return arrays["value"]
            case _:
                return _record(arrays, plan.type, len(start), None)

    def _json(self, start: Integers, end: Integers, mark: Marker) -> pa.Array:
        """Returns messages as JSON text. Each becomes an object of the Protobuf library."""
        import numpy as np
        import pyarrow as pa
        from google.protobuf import message_factory

        message = message_factory.GetMessageClass(self._plan.field.message_type)
        rows: list[str | None] = []
        broken = np.zeros(len(start), np.bool_)
        for nth, (first, behind) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
            try:
                rows.append(json_of(message.FromString(self._content[first:behind].tobytes())))
            except Exception:  # the library decodes the whole row again, and reports the error
                rows.append(None)
                broken[nth] = True
        mark(broken)
        return pa.array(rows, pa.string())


def _joined(chunks: list[Chunk], plan: FieldPlan) -> Chunk:
    """Returns all chunks of a field as one."""
    import numpy as np

    if len(chunks) == 1:
        return chunks[0]
    if not chunks:
        none = np.zeros(0, np.int64)
        value = np.zeros(0, np.uint32 if plan.wire == FIXED32 else np.uint64)
        return Chunk(none, none, none, none) if plan.wire == SPAN else Chunk(none, none, value)
    ends = [chunk.end for chunk in chunks if chunk.end is not None]
    return Chunk(
        np.concatenate([chunk.rows for chunk in chunks]),
        np.concatenate([chunk.position for chunk in chunks]),
        np.concatenate([chunk.value for chunk in chunks]),
        np.concatenate(ends) if ends else None,
    )


def _emptied(start: Integers, end: Integers, broken: Flags) -> Integers:
    """Returns the ends of spans, of which the broken ones are empty."""
    import numpy as np

    return np.where(broken, start, end)
