"""Avro container files through fastavro."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import IO, Any

from kcli.connectors.objects.avro_schemas import AvroReader, AvroWriter
from kcli.connectors.objects.libraries import library
from kcli.connectors.objects.store import Upload
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.errors import ConnectException
from kcli.formats.connect.schema import Schema

_SYNC_BYTES = 16


class AvroEncoder:
    def __init__(self, codec: str, schema: Schema | None, target: Upload, name: str) -> None:
        if schema is None:
            raise ConnectException(
                "Avro needs values with a schema: set value.converter.schemas.enable=true,"
                " or take a converter that has schemas"
            )
        declared, self._convert = AvroWriter().schema(schema)
        # The sync marker of Avro is random, but a repeated object must have the same bytes.
        marker = hashlib.sha256(name.encode()).digest()[:_SYNC_BYTES]
        fastavro = library("fastavro.write")
        self._writer = fastavro.Writer(_File(target), declared, codec, sync_marker=marker)

    def add(self, values: Sequence[object]) -> None:
        write, convert = self._writer.write, self._convert
        for value in values:
            write(convert(value))

    def finish(self) -> None:
        self._writer.flush()


class _File(io.RawIOBase):
    """An upload as the file that fastavro wants."""

    def __init__(self, target: Upload) -> None:
        self._target = target

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        return self._target.write(data)


def read_avro(file: IO[bytes], position: int) -> Iterator[SchemaAndValue]:
    reader: Any = library("fastavro").reader(file)
    schema, convert = AvroReader().schema(reader.writer_schema)
    for value in islice(reader, position, None):
        yield SchemaAndValue(schema, convert(value))
