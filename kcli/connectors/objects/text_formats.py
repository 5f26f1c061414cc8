"""JSON lines, CSV, and bytes with a separator, each with or without gzip."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import IO, Protocol

from kcli.connectors.objects.formats import CSV, JSON, Encoder, FormatSettings
from kcli.connectors.objects.store import Upload
from kcli.formats.connect.charsets import UTF_8
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.java_strings import java_string
from kcli.formats.connect.json_converter import JsonConverter
from kcli.formats.connect.schema import (
    BYTES_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    Schema,
    SchemaType,
    struct_schema,
)
from kcli.formats.connect.structs import Struct

RECORD_BYTES_MAX = 64 * 2**20
"""The longest line or record that is read, because an object may have no separator at all."""
_READ_BYTES = 2**20
_GZIP_MAGIC = b"\x1f\x8b"
_PLAIN_TYPES = frozenset(SchemaType) - {SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP, SchemaType.BYTES}


class Target(Protocol):
    def write(self, data: bytes, /) -> int: ...


def plain_json() -> JsonConverter:
    """A converter of JSON without schemas."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"})
    return converter


# Writing.


class _TextEncoder:
    """Writes each value as bytes that a function returns, through gzip if this is set."""

    def __init__(
        self, settings: FormatSettings, target: Upload, convert: Callable[[Sequence[object]], bytes]
    ) -> None:
        self._convert = convert
        level = settings.gzip_level
        # Name and time are empty, because a repeated object must have the same bytes.
        self._gzip = None if level is None else gzip.GzipFile("", "wb", level, _File(target), mtime=0)
        self._target: Target = target if self._gzip is None else self._gzip

    def add(self, values: Sequence[object]) -> None:
        self._target.write(self._convert(values))

    def finish(self) -> None:
        if self._gzip is not None:
            self._gzip.close()


class _File(io.RawIOBase):
    """An upload as the file that GzipFile wants."""

    def __init__(self, target: Upload) -> None:
        self._target = target

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        return self._target.write(data)


def text_encoder(settings: FormatSettings, schema: Schema | None, target: Upload) -> Encoder:
    if settings.kind == JSON:
        converter = plain_json()
        return _TextEncoder(settings, target, lambda values: _json_lines(converter, schema, values))
    if settings.kind == CSV:
        rows = _CsvRows(settings.csv_delimiter, schema)
        return _TextEncoder(settings, target, rows.write)
    return _TextEncoder(settings, target, lambda values: _separated(values, settings.separator))


def _json_lines(converter: JsonConverter, schema: Schema | None, values: Sequence[object]) -> bytes:
    lines = [converter.from_connect("", schema, value) or b"null" for value in values]
    return b"\n".join([*lines, b""])


def _separated(values: Sequence[object], separator: bytes) -> bytes:
    try:
        return separator.join([*values, b""])  # type: ignore[list-item]  # a TypeError is expected
    except TypeError:
        wrong = next(value for value in values if not isinstance(value, (bytes, memoryview)))
        raise DataException(
            f"The format of bytes needs values of bytes, not {type(wrong).__name__}:"
            " set value.converter to ByteArrayConverter"
        ) from None


class _CsvRows:
    """Writes structs as rows, after a first row with the names of the fields."""

    def __init__(self, delimiter: str, schema: Schema | None) -> None:
        if schema is None or schema.type is not SchemaType.STRUCT:
            raise ConnectException("CSV needs values that are structs with a schema")
        self._delimiter = delimiter
        self._header: list[list[str]] = [[field.name for field in schema.fields]]
        json = plain_json()
        self._columns = [_cell_writer(json, field.schema) for field in schema.fields]
        self._defaults = [field.schema.default for field in schema.fields]

    def write(self, values: Sequence[object]) -> bytes:
        text = io.StringIO()
        rows = csv.writer(text, delimiter=self._delimiter, lineterminator="\n")
        rows.writerows(self._header)
        self._header = []
        columns = zip(*[value.values for value in values], strict=True)  # type: ignore[attr-defined]
        cells = [
            [write(default if cell is None else cell) for cell in column]
            for column, write, default in zip(columns, self._columns, self._defaults, strict=True)
        ]
        rows.writerows(zip(*cells, strict=True))
        return UTF_8.encode(text.getvalue())


def _cell_writer(json: JsonConverter, schema: Schema) -> Callable[[object], str]:
    """Writes null as an empty cell, text as it is, and other values as JSON has them."""
    if schema.type is SchemaType.STRING:
        return lambda value: "" if value is None else str(value)
    if schema.type in _PLAIN_TYPES and schema.name is None:
        return lambda value: "" if value is None else java_string(value)

    def write(value: object) -> str:
        if value is None:
            return ""
        text = (json.from_connect("", schema, value) or b"").decode()
        return text.strip('"') if schema.type is SchemaType.BYTES else text

    return write


# Reading.


def read_text(settings: FormatSettings, file: IO[bytes], position: int) -> Iterator[SchemaAndValue]:
    content = _unpacked(file)
    if settings.kind == CSV:
        return _read_csv(settings.csv_delimiter, content, position)
    separator = b"\n" if settings.kind == JSON else settings.separator
    records = _split(content, separator)
    if settings.kind == JSON:
        return _read_json(islice(filter(bytes.strip, records), position, None))
    return (SchemaAndValue(BYTES_SCHEMA, record) for record in islice(records, position, None))


def _unpacked(file: IO[bytes]) -> IO[bytes]:
    """The content of a file that may be compressed. Its first bytes show it, because a name may not."""
    begin = file.read(len(_GZIP_MAGIC))
    file.seek(0)
    return gzip.GzipFile(fileobj=file) if begin == _GZIP_MAGIC else file  # type: ignore[return-value]


def _read_json(lines: Iterator[bytes]) -> Iterator[SchemaAndValue]:
    converter = plain_json()
    for line in lines:
        yield converter.to_connect("", line)


def _split(content: IO[bytes], separator: bytes) -> Iterator[bytes]:
    """The records between separators. A last record may have none after it."""
    rest = b""
    while block := content.read(_READ_BYTES):
        *records, rest = (rest + block).split(separator)
        yield from records
        if len(rest) > RECORD_BYTES_MAX:
            raise ConnectException(f"A record is longer than {RECORD_BYTES_MAX} bytes")
    if rest:
        yield rest


def _read_csv(delimiter: str, content: IO[bytes], position: int) -> Iterator[SchemaAndValue]:
    # Spreadsheets write a byte order mark.
    with io.TextIOWrapper(content, "utf-8-sig", newline="") as text:
        csv.field_size_limit(RECORD_BYTES_MAX)
        rows = csv.reader(text, delimiter=delimiter, strict=True)
        names = next(rows, None)
        if names is None:
            return
        schema = struct_schema(dict.fromkeys(names, OPTIONAL_STRING_SCHEMA))
        if len(schema.fields) != len(names):
            raise ConnectException("Two columns of the CSV have the same name")
        for number, row in enumerate(rows, 1):
            if number <= position:
                continue
            if len(row) != len(names):
                raise ConnectException(
                    f"Row {number} has {len(row)} cells, but there are {len(names)} columns"
                )
            yield SchemaAndValue(schema, Struct.of_checked(schema, [cell or None for cell in row]))
