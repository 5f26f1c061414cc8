"""The converter of JSON (org.apache.kafka.connect.json.JsonConverter)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, OneOf, Width
from kcli.formats.connect.converter import CONVERTER_TYPE, NULL, GeneralConverter, SchemaAndValue
from kcli.formats.connect.errors import DataException, JavaException, SerializationException
from kcli.formats.connect.json_decoder import JsonDecoder
from kcli.formats.connect.json_encoder import JsonEncoder, java_escapes
from kcli.formats.connect.json_fast import FastDecoder, Unusual, scan_plain, scan_typed
from kcli.formats.connect.json_schema import schema_from_json, schema_to_json
from kcli.formats.connect.json_structs import Decode, Encode
from kcli.formats.connect.json_tree import read_tree
from kcli.formats.connect.schema import Schema

SCHEMAS_ENABLE = "schemas.enable"
SCHEMAS_CACHE_SIZE = "schemas.cache.size"
DECIMAL_FORMAT = "decimal.format"
REPLACE_NULL_WITH_DEFAULT = "replace.null.with.default"

_PAYLOAD = b'"payload":'
_FIELDS = {"schema", "payload"}
_KNOWN_BYTES_MAX = 16 * 2**20
"""The memory for schemas that records had, because a producer may send another schema in each record."""


class JsonConverter(GeneralConverter):
    """Writes and reads JSON, in an envelope with the schema if schemas.enable is true."""

    java_class = "org.apache.kafka.connect.json.JsonConverter"
    config_def = ConfigDef(
        (
            CONVERTER_TYPE,
            ConfigKey(
                SCHEMAS_ENABLE,
                ConfigType.BOOLEAN,
                "true",
                importance=Importance.HIGH,
                documentation="Whether each value has an envelope with its schema.",
                group="Schemas",
                order=0,
                width=Width.MEDIUM,
                display_name="Enable Schemas",
            ),
            ConfigKey(
                SCHEMAS_CACHE_SIZE,
                ConfigType.INT,
                "1000",
                importance=Importance.HIGH,
                documentation="The most schemas that the converter remembers.",
                group="Schemas",
                order=1,
                width=Width.MEDIUM,
                display_name="Schema Cache Size",
            ),
            ConfigKey(
                DECIMAL_FORMAT,
                ConfigType.STRING,
                "BASE64",
                OneOf(("BASE64", "NUMERIC"), ignore_case=True),
                Importance.LOW,
                "How decimals are written: BASE64 for the bytes of their digits, NUMERIC for JSON numbers.",
                group="Serialization",
                order=0,
                width=Width.MEDIUM,
                display_name="Decimal Format",
            ),
            ConfigKey(
                REPLACE_NULL_WITH_DEFAULT,
                ConfigType.BOOLEAN,
                "true",
                importance=Importance.LOW,
                documentation="Whether null becomes the default of its field, if the field has a default.",
                group="Serialization",
                order=1,
                width=Width.MEDIUM,
                display_name="Replace null with default",
            ),
        )
    )

    def configure(self, config: Mapping[str, str], *, is_key: bool = False) -> None:
        """Takes the configuration. Raises ConfigError."""
        values = self.config_def.parse({**config, CONVERTER_TYPE.name: "key" if is_key else "value"})
        replaces_null = values[REPLACE_NULL_WITH_DEFAULT] is True
        decimals = str(values[DECIMAL_FORMAT]).upper() == "NUMERIC"
        self._has_envelope = values[SCHEMAS_ENABLE] is True
        self._encoder = JsonEncoder(decimals_as_numbers=decimals, replaces_null=replaces_null)
        self._decoder = JsonDecoder(replaces_null=replaces_null)
        self._fast = FastDecoder(replaces_null=replaces_null)
        size = values[SCHEMAS_CACHE_SIZE]
        assert isinstance(size, int), "the key has a default"
        self._cache_size = size
        self._writer = lru_cache(size)(self._new_writer)
        self._known: dict[bytes, tuple[Schema | None, Decode | None]] = {}
        self._known_bytes = 0

    # Values to bytes.

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        if schema is None and value is None:
            return None
        prefix, encode, suffix = self._writer(schema)
        try:
            return prefix + java_escapes(encode(value)).encode() + suffix
        except RecursionError:
            raise DataException(
                "Converting Kafka Connect data to byte[] failed due to serialization error: "
            ) from SerializationException("The value is nested too deeply")

    def _new_writer(self, schema: Schema | None) -> tuple[bytes, Encode, bytes]:
        """The bytes before a value, the encoder of the value, and the bytes after it."""
        encode = self._encoder.encoder(schema)
        if not self._has_envelope:
            return b"", encode, b""
        text = java_escapes(schema_to_json(schema, self._encoder.encoder))
        return f'{{"schema":{text},"payload":'.encode(), encode, b"}"

    # Bytes to values.

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            return self._known_form(data) if self._has_envelope else _plain_form(data)
        except (Unusual, ValueError, StopIteration, RecursionError):
            return self._any_form(data)

    def _known_form(self, data: bytes) -> SchemaAndValue:
        """Reads an envelope whose bytes before the payload came before. Raises Unusual and what a scanner raises."""
        start = data.find(_PAYLOAD) + len(_PAYLOAD)
        schema, decode = self._known.get(data[:start], (None, None))
        if decode is None:
            raise Unusual
        text = data[start:].decode()
        node, end = scan_typed(text, 1 if text[:1] == " " else 0)
        if text[end:] != "}":
            raise Unusual
        return SchemaAndValue(schema, decode(node))

    def _any_form(self, data: bytes) -> SchemaAndValue:
        try:
            return self._from_tree(data, read_tree(data))
        except JavaException as error:
            cause = SerializationException(f"{error.java_class}: {error}")
            cause.__cause__ = error
            raise DataException(
                "Converting byte[] to Kafka Connect data failed due to serialization error: "
            ) from cause
        except RecursionError:
            raise DataException("The JSON value is nested too deeply") from None

    def _from_tree(self, data: bytes, tree: object) -> SchemaAndValue:
        if not self._has_envelope:
            return SchemaAndValue(None, self._decoder.decode(None, tree))
        if not isinstance(tree, dict) or tree.keys() != _FIELDS:
            raise DataException(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
                "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in "
                "your converter configuration."
            )
        schema = schema_from_json(tree["schema"], self._decoder.decode)
        self._remember(data, schema)
        return SchemaAndValue(schema, self._decoder.decode(schema, tree["payload"]))

    def _remember(self, data: bytes, schema: Schema | None) -> None:
        """Remembers the bytes before the payload, if they are the whole schema and nothing else."""
        end = data.find(_PAYLOAD) + len(_PAYLOAD)
        prefix = data[:end]
        try:
            before = read_tree(prefix + b"0}")
        except JavaException:
            return
        if schema is None or not isinstance(before, dict) or [*before] != ["schema", "payload"]:
            return
        if self._cache_size <= 0 or end > _KNOWN_BYTES_MAX:
            return
        self._known_bytes += end
        if len(self._known) >= self._cache_size or self._known_bytes > _KNOWN_BYTES_MAX:
            self._known.clear()
            self._known_bytes = end
        self._known[prefix] = schema, self._fast.decoder(schema)


def _plain_form(data: bytes) -> SchemaAndValue:
    text = data.decode()
    value, end = scan_plain(text, 0)
    if end != len(text):
        raise Unusual
    return SchemaAndValue(None, value)
