"""Documents of records: their index, id, version and body, and the mapping of a schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kcli.connectors.records import SinkRecord
from kcli.connectors.search.keys import DELETE, FAIL, SearchSettings
from kcli.formats.connect.charsets import UTF_8, whole_characters
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.java_strings import java_string
from kcli.formats.connect.json_converter import JsonConverter
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType

_INDEX_BYTES_MAX = 255
_NO_INDEX = re.compile(r"""^(?:[-_+]|$)|[\\/*?"<>| ,#:\x00-\x1f\ud800-\udfff]""")
_ID_BYTES_MAX = 512
"""The search engine refuses a whole request that has a longer id."""
_TYPES: Mapping[SchemaType, str] = {
    SchemaType.INT8: "byte",
    SchemaType.INT16: "short",
    SchemaType.INT32: "integer",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.BYTES: "binary",
}
_SHOWN_CHARACTERS = 100
_LOGICAL_TYPES = {DATE: "date", TIME: "date", TIMESTAMP: "date", DECIMAL: "double"}
_TEXT = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}


@dataclass(frozen=True, slots=True)
class Document:
    """A record as an action of the _bulk API."""

    record: SinkRecord
    index: str
    id: str
    lines: bytes
    """The line of the action, and the line of its body, with their ends."""


def index_name(topic: str) -> str:
    """The index of a topic: its name in lower case. Raises DataException if this is no name of an index."""
    name = topic.lower()
    # A transformation can make any name. A name such as * would stand for every index.
    if len(UTF_8.encode(name)) > _INDEX_BYTES_MAX or _NO_INDEX.search(name):
        raise DataException(f"The topic {topic!r} cannot be the name of an index")
    return {".": "dot", "..": "dotdot"}.get(name, name)


class DocumentMaker:
    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings
        self._converter = JsonConverter()
        self._converter.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"})

    def make(self, record: SinkRecord) -> Document | None:
        """None if the record is left out, because it has no value. Raises DataException."""
        if record.value is None and self._settings.null_values not in (DELETE, FAIL):
            return None
        if record.value is None and self._settings.null_values == FAIL:
            raise DataException("The record has no value, and behavior.on.null.values=fail")
        index, id = index_name(record.topic), self._id(record)
        target: dict[str, object] = {"_index": index, "_id": id}
        if record.value is not None and self._settings.upserts:
            # A conflict of two updates is tried again by the server, because an update has no external version.
            action, body = {"update": {**target, "retry_on_conflict": 3}}, self._body(record)
            return Document(record, index, id, _lines(action, b'{"doc":' + body + b',"doc_as_upsert":true}'))
        if not self._settings.ignores_key and not self._settings.upserts:
            # The server refuses an older version, so records that are sent again change nothing.
            target |= {"version": record.origin[2], "version_type": "external"}
        if record.value is None:
            return Document(record, index, id, _lines({"delete": target}))
        return Document(record, index, id, _lines({"index": target}, self._body(record)))

    def _id(self, record: SinkRecord) -> str:
        if self._settings.ignores_key:
            return "+".join(map(str, record.origin))
        key = record.key
        if key is None:
            raise DataException("The key is the id of the document, so it must not be null: see key.ignore")
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise DataException(f"A key that is no string and no integer cannot be an id: {java_string(key)}")
        id = whole_characters(str(key))
        if not 0 < len(id.encode()) <= _ID_BYTES_MAX:
            raise DataException(
                f"A key must have 1 to {_ID_BYTES_MAX} bytes to be an id: {id[:_SHOWN_CHARACTERS]!r}"
            )
        return id

    def _body(self, record: SinkRecord) -> bytes:
        body = self._converter.from_connect(record.topic, record.value_schema, record.value)
        if body is None or not body.startswith(b"{"):
            raise DataException("A document must be a struct or a map")
        return body


def _lines(action: object, *bodies: bytes) -> bytes:
    return b"\n".join([json.dumps(action, ensure_ascii=False, separators=(",", ":")).encode(), *bodies, b""])


def mapping(schema: Schema | None) -> dict[str, object]:
    """The types of fields of a schema, as the search engine wants them. Raises DataException without a schema."""
    if schema is None:
        raise DataException("A record without a schema gives no types of fields: set schema.ignore=true")
    if schema.name in _LOGICAL_TYPES:
        return {"type": _LOGICAL_TYPES[schema.name]}
    match schema.type:
        case SchemaType.STRUCT:
            return {"properties": {field.name: mapping(field.schema) for field in schema.fields}}
        case SchemaType.ARRAY:
            return mapping(schema.value_schema)  # each field may have several values
        case SchemaType.MAP:
            return {"type": "object"}
        case SchemaType.STRING:
            return dict(_TEXT)
        case kind:
            return {"type": _TYPES[kind]}
