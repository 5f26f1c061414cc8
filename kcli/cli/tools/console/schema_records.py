"""Converts records between the bytes of a registry's serializers and lines of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.console import formatters
from kcli.cli.tools.console.envelope import JsonBytes
from kcli.cli.tools.console.line_reader import Line
from kcli.cli.tools.console.schema_formats import Formats, PartFormat
from kcli.formats.codec import FormatError
from kcli.formats.registry.blocking import waited
from kcli.formats.registry.deserializer import Deserializer
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.registry.errors import RegistryError
from kcli.formats.registry.framing import Header
from kcli.formats.registry.payloads import json_decode, json_encoder, record_name
from kcli.formats.registry.schemas import LoadedSchema, Schemas
from kcli.formats.registry.serializer import Prepared, Serializer
from kcli.rdkafka.objects import ClientError, Headers, Message


class RecordEncoder:
    """Encodes the keys and the values of lines. Raises CommandError."""

    def __init__(self, formats: Formats, topic: str) -> None:
        self._key = _prepared(formats.schemas, formats.key, topic)
        self._value = _prepared(formats.schemas, formats.value, topic)

    @property
    def has_key(self) -> bool:
        """Whether keys are encoded."""
        return self._key is not None

    @property
    def has_value(self) -> bool:
        return self._value is not None

    def encode(self, line: Line, number: int) -> Line:
        """Encodes the JSON of a line. `number` is the line number from 1. A null stays null."""
        headers = list(line.headers)
        key = self._part(self._key, line.key, headers, f"standard input, line {number}: the key")
        value = self._part(self._value, line.value, headers, f"standard input, line {number}: the value")
        return Line(key, value, headers)

    def _part(
        self, prepared: Prepared[str] | None, text: bytes | None, headers: list[Header], place: str
    ) -> bytes | None:
        if prepared is None or text is None:
            return text
        try:
            raw = prepared.serialize(text.decode())
        except UnicodeDecodeError:
            raise CommandError(f"{place} is not UTF-8") from None
        except FormatError as error:
            raise CommandError(f"{place}: {error}") from None
        if prepared.header is not None:
            headers.append(prepared.header)
        return raw


def _prepared(schemas: Schemas, part: PartFormat | None, topic: str) -> Prepared[str] | None:
    """Chooses or registers the schema before the first line is read."""
    if part is None:
        return None
    serializer = Serializer(
        schemas,
        part.settings,
        lambda schema: json_encoder(
            _of_format(schema, part), part.message, validates=part.settings.validates
        ),
        own=part.own,
        subject=part.subject,
        record_name=lambda schema: record_name(schema, part.message),
    )
    try:
        return waited(serializer.prepare(topic))
    except (FormatError, RegistryError) as error:
        raise CommandError(f"the schema of {_part_name(part)}s: {error}") from None


def _of_format(schema: LoadedSchema, part: PartFormat) -> LoadedSchema:
    if schema.type is not part.type:
        raise FormatError(f"{schema.name} is {schema.type}, and the format is {part.type}")
    return schema


def _part_name(part: PartFormat) -> str:
    return "key" if part.settings.is_key else "value"


class DecodedMessage:
    """A record of librdkafka whose key and value are JSON."""

    __slots__ = ("_key", "_message", "_value")

    def __init__(self, message: Message, key: bytes | None, value: bytes | None) -> None:
        self._message, self._key, self._value = message, key, value

    def error(self) -> ClientError | None:
        return self._message.error()

    def topic(self) -> str:
        return self._message.topic()

    def partition(self) -> int:
        return self._message.partition()

    def offset(self) -> int:
        return self._message.offset()

    def leader_epoch(self) -> int | None:
        return self._message.leader_epoch()

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Headers | None:
        return self._message.headers()

    def timestamp(self) -> tuple[int, int]:
        return self._message.timestamp()

    def latency(self) -> float | None:
        return self._message.latency()

    def __len__(self) -> int:
        return len(self._value or b"")


class RecordDecoder:
    """Decodes the keys and the values of records to JSON.

    With `print.schema.ids`, the id of the schema follows the JSON.
    """

    def __init__(self, formats: Formats, properties: Mapping[str, str]) -> None:
        self._key = _deserializer(formats.schemas, formats.key)
        self._value = _deserializer(formats.schemas, formats.value)
        prints_ids = properties.get("print.schema.ids", "").lower() == "true"
        self._id_separator = properties.get("schema.id.separator", "\t") if prints_ids else None

    def decode(self, message: Message) -> Message:
        """Decodes a record. Raises UndecodableRecord, and CommandError if the registry does not answer."""
        (decoded,) = self.decode_all([message])
        if isinstance(decoded, formatters.UndecodableRecord):
            raise decoded
        return decoded

    def decode_all(self, messages: Sequence[Message]) -> list[Message | formatters.UndecodableRecord]:
        """Decodes records. An error is in the place of its record.

        Raises CommandError if the registry does not answer.
        """
        keys = self._parts(self._key, messages, [message.key() for message in messages], "key")
        values = self._parts(self._value, messages, [message.value() for message in messages], "value")
        decoded: list[Message | formatters.UndecodableRecord] = []
        for message, key, value in zip(messages, keys, values, strict=True):
            if isinstance(key, formatters.UndecodableRecord):
                decoded.append(key)
            elif isinstance(value, formatters.UndecodableRecord):
                decoded.append(value)
            else:
                decoded.append(DecodedMessage(message, key, value))
        return decoded

    def _parts(
        self,
        deserializer: Deserializer[str] | None,
        messages: Sequence[Message],
        raws: Sequence[bytes | None],
        part: str,
    ) -> Sequence[bytes | formatters.UndecodableRecord | None]:
        if deserializer is None:
            return raws
        headers = [message.headers() for message in messages]
        topics = [message.topic() for message in messages]
        try:
            texts = deserializer.deserialize_all([*zip(topics, raws, headers, strict=True)])
        except RegistryError as error:
            raise CommandError(str(error)) from None
        parts: list[bytes | formatters.UndecodableRecord | None] = []
        for nth, text in enumerate(texts):
            if isinstance(text, str):
                if self._id_separator is None:
                    parts.append(JsonBytes(text.encode()))
                    continue
                raw = raws[nth]
                assert raw is not None, "only null becomes null"
                schema = deserializer.split(raw, headers[nth]).schema
                parts.append(f"{text}{self._id_separator}{schema}".encode())
            else:
                parts.append(None if text is None else _undecodable(messages[nth], part, text))
        return parts


def _undecodable(message: Message, part: str, error: Exception) -> formatters.UndecodableRecord:
    place = f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
    return formatters.UndecodableRecord(f"{place}, {part}: {error}")


def _deserializer(schemas: Schemas, part: PartFormat | None) -> Deserializer[str] | None:
    if part is None:
        return None
    reader = None if part.own is None else _reader(schemas, part.own, _part_name(part))
    return Deserializer(schemas, part.settings, json_decode, reader=reader, record_name=record_name)


def _reader(schemas: Schemas, own: SchemaDefinition, part: str) -> LoadedSchema:
    """The schema to which values are converted. Raises CommandError if it is invalid."""
    try:
        reader = waited(schemas.with_references(own))
        _ = reader.parsed
    except (FormatError, RegistryError) as error:
        raise CommandError(f"the schema of {part}s: {error}") from None
    return reader
