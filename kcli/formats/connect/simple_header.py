"""The default converter of headers (org.apache.kafka.connect.storage.SimpleHeaderConverter)."""

from __future__ import annotations

import logging

from kcli.config.definition import ConfigDef
from kcli.formats.connect.converter import NULL, HeaderConverter, SchemaAndValue
from kcli.formats.connect.header_text import value_text
from kcli.formats.connect.header_values import parse_value
from kcli.formats.connect.schema import BYTES_SCHEMA, Schema
from kcli.model.java_utf8 import decode_utf8

log = logging.getLogger(__name__)


class SimpleHeaderConverter(HeaderConverter):
    """Writes values as text, and finds the values of texts. So the text `007` comes back as the number 7."""

    java_class = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    config_def = ConfigDef(())

    def from_connect_header(
        self, topic: str, header: str, schema: Schema | None, value: object
    ) -> bytes | None:
        return None if value is None else value_text(value).encode("utf-8", "replace")

    def to_connect_header(self, topic: str, header: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            return parse_value(decode_utf8(data))
        except (ValueError, RecursionError, ArithmeticError) as error:
            log.warning(
                "Failed to deserialize value for header '%s' on topic '%s', so using byte array: %s",
                header,
                topic,
                error,
            )
            return SchemaAndValue(BYTES_SCHEMA, data)
