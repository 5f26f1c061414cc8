"""The mapping between Connect's data model and Avro, for one converter."""

from __future__ import annotations

from collections.abc import Callable

from kcli.formats.avro.language import AvroSchema, parse
from kcli.formats.avro.schema import Kind, Part, Primitive
from kcli.formats.avro.writing import java_text
from kcli.formats.codec import FormatError
from kcli.formats.connect.avro.anything import write_anything
from kcli.formats.connect.avro.decoding import ConnectReaders
from kcli.formats.connect.avro.encoding import ConnectWriters
from kcli.formats.connect.avro.settings import AvroSettings
from kcli.formats.connect.avro.to_avro import avro_part
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import Schema


class AvroData:
    """Maps schemas and values by the settings of a converter."""

    def __init__(self, settings: AvroSettings) -> None:
        self._settings = settings
        self._readers = ConnectReaders(settings)

    def text_of(self, schema: Schema | None) -> str:
        """Returns the text of the Avro schema. Raises DataException for a schema that Avro does not express."""
        try:
            text = java_text(avro_part(schema, self._settings))
            return parse(text, {}, is_new=True).canonical
        except FormatError as error:
            raise DataException(str(error)) from None
        except RecursionError:
            raise DataException("The schema is nested too deeply") from None

    def encoder(self, schema: Schema | None, avro: AvroSchema) -> Callable[[object], bytes]:
        """Returns the function that encodes values of a schema. The function raises DataException."""
        write = write_anything if schema is None else ConnectWriters(self._settings).of(schema, avro.root)
        # Confluent's serializers write bytes that are no part of another value without their length.
        skips_length = _is_bytes(avro.root)

        def encode(value: object) -> bytes:
            out = bytearray()
            try:
                write(value, out)
            except RecursionError:
                raise DataException("The value is nested too deeply") from None
            return _without_length(out) if skips_length else bytes(out)

        return encode

    def decoder(
        self, writer: AvroSchema, reader: AvroSchema | None, version: int | None
    ) -> Callable[[bytes], SchemaAndValue]:
        """Returns the function that decodes values of `writer`, as values of `reader` if there is one."""
        return self._readers.of(writer, reader, version)


def _is_bytes(part: Part) -> bool:
    return isinstance(part, Primitive) and part.kind is Kind.BYTES


def _without_length(out: bytearray) -> bytes:
    start = next(position for position, byte in enumerate(out) if byte < 0x80) + 1
    return bytes(out[start:])
