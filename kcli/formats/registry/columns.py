"""Decodes many values to Arrow columns at once: the values of each schema together, as values of one reader's schema.

The columns have the type of the reader's schema, so that all versions of a schema have the same columns. A value that
cannot be decoded becomes null, with a text that says why. It does not affect other values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kcli.formats.codec import FormatError, Value
from kcli.formats.registry.blocking import waited
from kcli.formats.registry.errors import NOT_FOUND, RegistryRefused
from kcli.formats.registry.expiring import Expiring
from kcli.formats.registry.framing import (
    GUID_BYTES,
    ID_BYTES,
    ID_MAGIC,
    SchemaKey,
    framed,
    header_of,
    header_parts,
    read_path,
)
from kcli.formats.registry.payloads import (
    avro_schema_of,
    json_schema_of,
    protobuf_schema_of,
    value_encoder,
)
from kcli.formats.registry.schemas import LoadedSchema, Schemas
from kcli.formats.schemas import SchemaType

if TYPE_CHECKING:
    from kcli.formats.json_schema.columns import ColumnDecoder as JsonColumnDecoder

FAILED_SECONDS = 10.0
"""The time for which an unknown schema is not requested again, so that each of its values does not cost a request."""

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """The values, which are null for null and for a value with an error, and the errors."""

    values: pa.Array
    errors: pa.StringArray


@dataclass(frozen=True, slots=True)
class Framing:
    """What values of one schema have in common: the key of the schema, the number of bytes before the payload, and the
    message path of Protobuf if a header has it."""

    schema: SchemaKey
    skip_bytes: int
    path: bytes | None = None


Decode = Callable[[pa.BinaryArray, Framing], DecodedColumns]
"""Decodes the payloads of values."""


class ColumnDeserializer:
    """Decodes the values of one topic. `type` is the Arrow type of the values.

    `message` is the full name of a Protobuf message, which is the first of the reader's schema by default. `subject`
    gives ids their meaning, if the registry has contexts.
    """

    def __init__(
        self,
        schemas: Schemas,
        reader: LoadedSchema,
        *,
        message: str | None = None,
        subject: str | None = None,
        is_key: bool = False,
    ) -> None:
        """Raises FormatError for a schema that has no columns."""
        self._schemas, self._reader, self._message = schemas, reader, message
        self._subject, self._header = subject, header_of(is_key=is_key)
        self._decoders: dict[SchemaKey, Decode] = {}
        self._failed: Expiring[SchemaKey, str] = Expiring(FAILED_SECONDS)
        self.type: pa.DataType = column_type(reader, message)

    def decode(self, values: pa.Array, headers: pa.Array | None = None) -> DecodedColumns:
        """Decodes an array of binary values. `headers` are lists of structs of `key` and `value`, as in Spark.

        Raises RegistryError if the registry does not answer.
        """
        values = values.cast(pa.binary())
        named = {} if headers is None else _header_contents(headers, self._header)
        parts: list[tuple[Rows, DecodedColumns]] = []
        for framing, rows in _by_schema(values, named, self._header):
            if isinstance(framing, str):
                parts.append((rows, failed_columns(self.type, len(rows), framing)))
                continue
            subset = values if len(rows) == len(values) else values.take(pa.array(rows))
            parts.append((rows, self._decoded(framing, subset)))
        return _joined(len(values), self.type, parts)

    def _decoded(self, framing: Framing, values: pa.BinaryArray) -> DecodedColumns:
        key = framing.schema
        reason = self._failed.get(key)
        if reason is None:
            try:
                return self._decoder(key)(values, framing)
            except RegistryRefused as error:
                if error.status != NOT_FOUND:
                    raise
                reason = str(error)
            except FormatError as error:
                reason = str(error)
            self._failed.put(key, reason)
        return failed_columns(self.type, len(values), reason)

    def _decoder(self, key: SchemaKey) -> Decode:
        decode = self._decoders.get(key)
        if decode is None:
            writer = waited(self._schemas.load(key, self._subject))
            decode = _decode_of(writer, self._reader, self._message)
            self._decoders[key] = decode
        return decode


def column_type(schema: LoadedSchema, message: str | None = None) -> pa.DataType:
    """Returns the Arrow type of the values of a schema. Raises FormatError for a schema that has no columns."""
    match schema.type:
        case SchemaType.AVRO:
            from kcli.formats.avro.arrow_types import arrow_type

            return arrow_type(avro_schema_of(schema).root)
        case SchemaType.JSON:
            return _json_decoder(schema).type
        case SchemaType.PROTOBUF:
            from kcli.formats.protobuf.column_types import column_types
            from kcli.formats.protobuf.messages import message_type

            return column_types(message_type(protobuf_schema_of(schema), message).DESCRIPTOR)


def row_encoder(
    schema: LoadedSchema, message: str | None = None, *, validates: bool = False
) -> Callable[[Value], bytes]:
    """Returns the function that encodes a row of such columns: the reverse of their decoding. With `validates`, a JSON
    value must be valid by its schema. Raises FormatError."""
    match schema.type:
        case SchemaType.AVRO:
            from kcli.formats.avro.column_rows import row_encoder as avro_row_encoder

            return avro_row_encoder(avro_schema_of(schema))
        case SchemaType.PROTOBUF:
            from kcli.formats.protobuf.columns import ColumnDecoder
            from kcli.formats.protobuf.messages import message_type

            return ColumnDecoder(message_type(protobuf_schema_of(schema), message)).row_codec.encode
        case SchemaType.JSON:
            return value_encoder(schema, validates=validates).encode


def _decode_of(writer: LoadedSchema, reader: LoadedSchema, message: str | None) -> Decode:
    if writer.type is not reader.type:
        raise FormatError(f"{writer.name} is {writer.type}, and its reader's schema is {reader.type}")
    match writer.type:
        case SchemaType.AVRO:
            from kcli.formats.avro.columns import ColumnDecoder

            decoder = ColumnDecoder(avro_schema_of(writer), avro_schema_of(reader))

            def decode(values: pa.BinaryArray, framing: Framing) -> DecodedColumns:
                decoded = decoder.decode(values, framing.skip_bytes)
                return DecodedColumns(decoded.values, decoded.errors)

            return decode
        case SchemaType.JSON:
            return _json_decode(reader)
        case SchemaType.PROTOBUF:
            return _protobuf_decode(writer, reader, message)


def _json_decode(reader: LoadedSchema) -> Decode:
    decoder = _json_decoder(reader)

    def decode(values: pa.BinaryArray, framing: Framing) -> DecodedColumns:
        skip = framing.skip_bytes
        decoded = decoder.decode([None if value is None else value[skip:] for value in values.to_pylist()])
        errors: list[str | None] = [None] * len(values)
        for error in decoded.errors:
            errors[error.row] = error.reason
        return DecodedColumns(decoded.array, pa.array(errors, pa.string()))

    return decode


def _json_decoder(schema: LoadedSchema) -> JsonColumnDecoder:
    from kcli.formats.json_schema.columns import column_decoder

    decoder = column_decoder(json_schema_of(schema))
    if decoder is None:
        raise FormatError(
            f"{schema.name} has no columns, because its values are not objects with fixed members"
        )
    return decoder


def _protobuf_decode(writer: LoadedSchema, reader: LoadedSchema, message: str | None) -> Decode:
    from kcli.formats.protobuf.columns import ColumnDecoder
    from kcli.formats.protobuf.messages import message_name, message_type

    written, read = protobuf_schema_of(writer), protobuf_schema_of(reader)
    expected = message or message_name(read)
    decoder = ColumnDecoder(message_type(read, expected))

    def decode(values: pa.BinaryArray, framing: Framing) -> DecodedColumns:
        parts: list[tuple[Rows, DecodedColumns]] = []
        for path, rows, skips in _by_path(values, framing):
            subset = values if len(rows) == len(values) else values.take(pa.array(rows))
            reason = path if isinstance(path, str) else None
            if not isinstance(path, str):
                try:
                    name = message_name(written, path)
                    reason = (
                        None if name == expected else f"the value is a message {name}, expected {expected}"
                    )
                except FormatError as error:
                    reason = str(error)
            if reason is not None:
                parts.append((rows, failed_columns(decoder.type, len(rows), reason)))
                continue
            decoded = decoder.decode(subset, skips)
            parts.append((rows, DecodedColumns(decoded.records, decoded.errors)))
        return _joined(len(values), decoder.type, parts)

    return decode


def _content(values: pa.BinaryArray) -> tuple[NDArray[np.uint8], Rows, Rows, NDArray[np.bool_]]:
    """The bytes of all values, the begin and the size of each, and whether it is not null."""
    _, offsets, buffer = values.buffers()
    places = np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1].astype(np.int64)
    data = np.frombuffer(buffer if buffer is not None else b"", np.uint8)
    is_set = ~values.is_null().to_numpy(zero_copy_only=False)
    return data, places[:-1], places[1:] - places[:-1], is_set


def _header_contents(headers: pa.ListArray, name: str) -> dict[bytes, Rows]:
    """The rows that have a header of this name, by its content. The first header that is not null counts."""
    entries = headers.flatten()
    contents = pc.struct_field(entries, "value")
    has_name = pc.and_(pc.equal(pc.struct_field(entries, "key"), name), pc.is_valid(contents))
    places = np.flatnonzero(has_name.fill_null(False).to_numpy(zero_copy_only=False))
    if not places.size:
        return {}
    parents = pc.list_parent_indices(headers).to_numpy()[places]
    rows, firsts = np.unique(parents, return_index=True)
    unique = contents.take(pa.array(places[firsts])).dictionary_encode()
    numbers = unique.indices.to_numpy()
    return {
        bytes(content): rows[numbers == number]
        for number, content in enumerate(unique.dictionary.to_pylist())
    }


def _by_schema(
    values: pa.BinaryArray, named: Mapping[bytes, Rows], header: str
) -> Iterable[tuple[Framing | str, Rows]]:
    """Yields the rows of each schema. In place of a framing, values without a schema have the reason."""
    data, begins, sizes, is_set = _content(values)
    for content, rows in named.items():
        rows = rows[is_set[rows]]
        is_set[rows] = False
        try:
            schema, path = header_parts(header, content)
            yield Framing(schema, 0, path), rows
        except FormatError as error:
            yield str(error), rows
    has_id = is_set & (sizes >= ID_BYTES)
    has_id[has_id] = data[begins[has_id]] == ID_MAGIC
    rows = np.flatnonzero(has_id)
    at = begins[rows]
    ids = np.zeros(len(rows), np.int64)
    for nth in range(1, ID_BYTES):
        ids = ids << 8 | data[at + nth]
    for schema_id in np.unique(ids).tolist():
        yield Framing(schema_id, ID_BYTES), rows[ids == schema_id]
    others: dict[Framing | str, list[int]] = {}
    for row in np.flatnonzero(is_set & ~has_id).tolist():
        try:
            framing: Framing | str = Framing(framed(values[row].as_py()).schema, GUID_BYTES)
        except FormatError as error:
            framing = str(error)
        others.setdefault(framing, []).append(row)
    for framing, listed in others.items():
        yield framing, np.array(listed, np.int64)


def _by_path(
    values: pa.BinaryArray, framing: Framing
) -> Iterable[tuple[tuple[int, ...] | str, Rows, int | Rows]]:
    """Yields the rows of each message path, and how many of their bytes come before the message. In place of a path,
    values without one have the reason."""
    path: tuple[int, ...] | str
    skip_bytes = framing.skip_bytes
    if framing.path is not None:
        try:
            path, _ = read_path(framing.path)
        except FormatError as error:
            path = str(error)
        yield path, np.arange(len(values)), skip_bytes
        return
    data, begins, sizes, is_set = _content(values)
    is_first = is_set & (sizes > skip_bytes)
    is_first[is_first] = data[begins[is_first] + skip_bytes] == 0
    if (rows := np.flatnonzero(is_first)).size:
        yield (0,), rows, skip_bytes + 1
    others: dict[tuple[int, ...] | str, list[tuple[int, int]]] = {}
    for row in np.flatnonzero(is_set & ~is_first).tolist():
        try:
            path, at = read_path(values[row].as_py()[skip_bytes:])
        except FormatError as error:
            path, at = str(error), 0
        others.setdefault(path, []).append((row, skip_bytes + at))
    for path, listed in others.items():
        pairs = np.array(listed, np.int64)
        yield path, pairs[:, 0], pairs[:, 1]


def failed_columns(type_: pa.DataType, count: int, reason: str) -> DecodedColumns:
    """The columns of values that have all the same error."""
    return DecodedColumns(pa.nulls(count, type_), pa.array([reason] * count, pa.string()))


def _joined(count: int, type_: pa.DataType, parts: Sequence[tuple[Rows, DecodedColumns]]) -> DecodedColumns:
    """Puts the values of all parts to their rows. A row without a part is null."""
    if len(parts) == 1 and len(parts[0][0]) == count:
        return parts[0][1]
    places = np.zeros(count, np.int64)
    is_null = np.ones(count, np.bool_)
    begin = 0
    for rows, part in parts:
        places[rows] = np.arange(begin, begin + len(part.values))
        is_null[rows] = False
        begin += len(rows)
    if not parts:
        return DecodedColumns(pa.nulls(count, type_), pa.nulls(count, pa.string()))
    indices = pa.array(places, mask=is_null)
    return DecodedColumns(
        pa.concat_arrays([part.values for _, part in parts]).take(indices),
        pa.concat_arrays([part.errors for _, part in parts]).take(indices),
    )
