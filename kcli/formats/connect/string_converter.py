"""The converter of texts (org.apache.kafka.connect.storage.StringConverter)."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Width
from kcli.formats.connect.charsets import UTF_8, Charset, charset
from kcli.formats.connect.converter import CONVERTER_TYPE, GeneralConverter, SchemaAndValue
from kcli.formats.connect.errors import JavaException, SerializationException
from kcli.formats.connect.java_strings import java_string
from kcli.formats.connect.schema import OPTIONAL_STRING_SCHEMA, Schema

ENCODING = "converter.encoding"


class StringConverter(GeneralConverter):
    """Writes any value as its text in Java, and reads a text."""

    java_class = "org.apache.kafka.connect.storage.StringConverter"
    config_def = ConfigDef(
        (
            CONVERTER_TYPE,
            ConfigKey(
                ENCODING,
                ConfigType.STRING,
                "UTF-8",
                importance=Importance.HIGH,
                documentation="The Java charset of the bytes, such as UTF-8 or ISO-8859-1.",
                width=Width.MEDIUM,
                display_name="Encoding",
            ),
        )
    )

    def __init__(self) -> None:
        self._encode = UTF_8.encode
        self._decode = UTF_8.decode

    def configure(self, config: Mapping[str, str], *, is_key: bool = False) -> None:
        """Takes the configuration. Raises SerializationException for an unknown charset."""
        use = "key" if is_key else "value"
        values = self.config_def.parse({**config, CONVERTER_TYPE.name: use})
        encoding = values[ENCODING]
        assert isinstance(encoding, str), "the key has a default"
        # Kafka's serializers look for their own keys first.
        self._encode = _charset(config.get(f"{use}.serializer.encoding", encoding)).encode
        self._decode = _charset(config.get(f"{use}.deserializer.encoding", encoding)).decode

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        return None if value is None else self._encode(value if type(value) is str else java_string(value))

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(OPTIONAL_STRING_SCHEMA, None if data is None else self._decode(data))


def _charset(name: str) -> Charset:
    try:
        return charset(name)
    except JavaException as error:
        raise SerializationException(f"Unsupported encoding {name}") from error
