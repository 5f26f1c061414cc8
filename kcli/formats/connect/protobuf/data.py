"""The mapping between Connect's data model and Protobuf, for one converter."""

from __future__ import annotations

from collections.abc import Callable

from kcli.formats.codec import FormatError
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.protobuf.decoding import MessageReaders
from kcli.formats.connect.protobuf.encoding import MessageWriters
from kcli.formats.connect.protobuf.settings import ProtobufSettings
from kcli.formats.connect.protobuf.to_connect import SchemaReader
from kcli.formats.connect.protobuf.to_proto import proto_file, root_name
from kcli.formats.connect.schema import Schema
from kcli.formats.protobuf.language import ProtobufSchema, parse
from kcli.formats.protobuf.messages import message_indexes, message_name, message_type
from kcli.formats.protobuf.printer import print_file
from kcli.formats.registry.framing import path_bytes, read_path


class ProtobufData:
    """Maps schemas and values by the settings of a converter."""

    def __init__(self, settings: ProtobufSettings) -> None:
        self._settings = settings

    def text_of(self, schema: Schema | None) -> str:
        """Returns the text of the .proto file. Raises DataException for a schema that Protobuf does not express."""
        try:
            text = print_file(proto_file(_present(schema), self._settings))
            return parse(text, {}, is_new=True).canonical
        except FormatError as error:
            raise DataException(f"Invalid protobuf schema definition: {error}") from None
        except RecursionError:
            raise DataException("The schema is nested too deeply") from None

    def encoder(
        self, schema: Schema | None, proto: ProtobufSchema
    ) -> tuple[Callable[[object], bytes], bytes]:
        """Returns the function that encodes values of a schema, and the path of their message in the file."""
        from google.protobuf.message import EncodeError

        present = _present(schema)
        full_name = root_name(present, self._settings)
        make = message_type(proto, full_name)
        fill = MessageWriters(self._settings).root(present, make.DESCRIPTOR)

        def encode(value: object) -> bytes:
            message = make()
            try:
                fill(message, value)
                return bytes(message.SerializeToString(deterministic=True))
            except (TypeError, ValueError, EncodeError) as error:
                raise DataException(f"The value does not fit {full_name}: {error}") from error
            except RecursionError:
                raise DataException("The value is nested too deeply") from None

        return encode, path_bytes(message_indexes(proto, full_name))

    def decoder(
        self, writer: ProtobufSchema, reader: ProtobufSchema | None, version: int | None
    ) -> Callable[[bytes, bytes | None], SchemaAndValue]:
        """Returns the function that decodes payloads of `writer`, as messages of the same name in `reader` if there is
        one. A payload begins with the path of its message, unless the path is given."""
        target = reader or writer
        decoders: dict[tuple[int, ...], Callable[[bytes], SchemaAndValue]] = {}

        def decode(payload: bytes, path: bytes | None) -> SchemaAndValue:
            place, at = read_path(payload if path is None else path)
            known = decoders.get(place)
            if known is None:
                known = decoders[place] = self._of_message(target, message_name(writer, place), version)
            return known(payload[at:] if path is None else payload)

        return decode

    def _of_message(
        self, proto: ProtobufSchema, full_name: str, version: int | None
    ) -> Callable[[bytes], SchemaAndValue]:
        make = message_type(proto, full_name)
        schema = SchemaReader(self._settings, proto).schema(make.DESCRIPTOR, version)
        read = MessageReaders(self._settings).root(schema, make.DESCRIPTOR)
        parse_message = make.FromString

        def decode(payload: bytes) -> SchemaAndValue:
            try:
                return SchemaAndValue(schema, read(parse_message(payload)))
            except RecursionError:
                raise DataException("The value is nested too deeply") from None

        return decode


def _present(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataException("ProtobufConverter cannot write values without a schema")
    return schema
