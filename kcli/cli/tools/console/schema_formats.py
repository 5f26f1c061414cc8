"""The registry, the schemas and the formats that the options and properties of a console tool name.

Confluent's console tools have properties for this (`--property value.schema=…`). They have the same effect here as the
options, and an option takes precedence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from kcli.cli.output import warn
from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.console.schema_options import DEFAULT_URL, FormatOptions, WritingFormatOptions
from kcli.config.definition import ConfigError
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.documents import SchemaDefinition, reference_from_json
from kcli.formats.registry.members import InvalidDocument
from kcli.formats.registry.schemas import Schemas
from kcli.formats.registry.serde_settings import (
    AUTO_REGISTER,
    SCHEMA_ID,
    VALIDATE,
    SerdeSettings,
    is_registry_key,
    unused_registry_keys,
)
from kcli.formats.registry.settings import URL, RegistrySettings
from kcli.formats.schemas import SchemaReference, SchemaType

SCHEMA_BYTES_MAX = 16 << 20
"""The largest schema file. A registry refuses schemas that are far smaller."""

_TYPES = {"avro": SchemaType.AVRO, "protobuf": SchemaType.PROTOBUF, "json-schema": SchemaType.JSON}
_SCHEMA_KEYS = tuple(
    f"{part}.{name}" for part in ("key", "value") for name in ("schema", "schema.file", "refs")
)
_READING_KEYS = (*_SCHEMA_KEYS, "schema.id.separator", "print.schema.ids")
_WRITING_KEYS = (*_SCHEMA_KEYS, "auto.register", "key.schema.id", "value.schema.id", "key.serializer")
_RAW_SERIALIZERS = ("StringSerializer", "ByteArraySerializer")


def without_registry_keys(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a client without those of a registry, which the client does not know."""
    return {name: text for name, text in properties.items() if not is_registry_key(name)}


def is_known(options: FormatOptions, name: str) -> bool:
    """Whether a property of a reader or a formatter has a meaning for schemas."""
    tool_keys = _WRITING_KEYS if isinstance(options, WritingFormatOptions) else _READING_KEYS
    return name in tool_keys or name.startswith("sasl.") or is_registry_key(name)


@dataclass(frozen=True, slots=True)
class PartFormat:
    """The format of the keys or of the values, and all that the options say about their schema."""

    type: SchemaType
    settings: SerdeSettings
    own: SchemaDefinition | None
    subject: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Formats:
    """The registry, and the formats of keys and of values. None: this part of a record has no schema."""

    schemas: Schemas
    key: PartFormat | None
    value: PartFormat | None


def formats_of(options: FormatOptions, client: Mapping[str, str], properties: Mapping[str, str]) -> Formats:
    """Reads the options, the properties of the client, and the properties of the reader or formatter, which take
    precedence over those of the client. Raises CommandError.
    """
    merged = {**client, **properties}
    merged[URL] = options.schema_registry or merged.get(URL) or DEFAULT_URL
    if "auto.register" in properties:
        merged[AUTO_REGISTER] = properties["auto.register"]
    for sentence in unused_registry_keys(merged):
        warn(f"WARN {sentence}")
    try:
        schemas = Schemas(RegistryClient(RegistrySettings.of(merged)))
        return Formats(schemas, _part(options, merged, is_key=True), _part(options, merged, is_key=False))
    except ConfigError as error:
        raise CommandError(error.located()) from None


def _part(options: FormatOptions, properties: Mapping[str, str], *, is_key: bool) -> PartFormat | None:
    part = "key" if is_key else "value"
    chosen = options.key_format if is_key else options.value_format
    if chosen is None and is_key and _has_key_schema(properties):
        chosen = options.value_format
    if chosen is None:
        return None
    kind = _TYPES[chosen]
    writing = options if isinstance(options, WritingFormatOptions) else WritingFormatOptions()
    schema_id = writing.key_schema_id if is_key else writing.value_schema_id
    texts = dict(properties)
    text_id = properties.get(f"{part}.schema.id")
    if schema_id is not None or text_id is not None:
        texts[SCHEMA_ID] = str(schema_id) if schema_id is not None else text_id or ""
    texts.setdefault(VALIDATE, "true")
    settings = SerdeSettings.of(texts, is_key=is_key)
    text = _schema_text(options.key_schema if is_key else options.schema, properties, part)
    own = None if text is None else SchemaDefinition(text, kind.value, _references(properties, part))
    subject = writing.key_subject if is_key else writing.value_subject
    message = writing.key_message if is_key else writing.value_message
    return PartFormat(kind, settings, own, subject, message)


def _has_key_schema(properties: Mapping[str, str]) -> bool:
    """Whether the properties describe the schema of keys. Confluent's tools have one format for keys and values."""
    serializer = properties.get("key.serializer", "").rpartition(".")[2]
    has_schema = any(f"key.{name}" in properties for name in ("schema", "schema.file", "schema.id"))
    return has_schema and serializer not in _RAW_SERIALIZERS


def _schema_text(path: str | None, properties: Mapping[str, str], part: str) -> str | None:
    if path is None:
        text = properties.get(f"{part}.schema")
        if text is not None:
            return text
        path = properties.get(f"{part}.schema.file")
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            content = file.read(SCHEMA_BYTES_MAX + 1)
        if len(content) > SCHEMA_BYTES_MAX:
            raise CommandError(f"{path}: a schema has {SCHEMA_BYTES_MAX >> 20} MB at most")
        return content.decode()
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path}: the schema is not UTF-8") from None


def _references(properties: Mapping[str, str], part: str) -> tuple[SchemaReference, ...]:
    """The references of a property such as value.refs: a list in JSON."""
    key = f"{part}.refs"
    if key not in properties:
        return ()
    try:
        listed = json.loads(properties[key])
        if not isinstance(listed, list):
            raise InvalidDocument("expected a list")
        return tuple(reference_from_json(item, f"{key}[{nth}]") for nth, item in enumerate(listed))
    except (ValueError, RecursionError, InvalidDocument) as error:
        raise CommandError(f"{key}: {error}") from None
