"""ExtractNewRecordState: the row in place of the envelope of a change, as sinks need it.

A change has the row before and the row after it. A created or updated row replaces the envelope. The mode of deletes
chooses what becomes of the event of a delete, and of the tombstone after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kcli import VERSION
from kcli.config.definition import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, OneOf
from kcli.connectors.records import ConnectRecord, Header, R, copied
from kcli.connectors.transforms.shared import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    KafkaTransformation,
    Plans,
    java_split,
    required_struct,
    struct_of,
    struct_schema_like,
    values_of,
    with_headers,
    with_topic,
)
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import OPTIONAL_STRING_SCHEMA, STRING_SCHEMA, Field, Schema
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import java_class
from kcli.model.java_text import trim

_ENVELOPE_SUFFIX = ".Envelope"
_PURPOSE = "source field insertion"
_BEFORE, _AFTER, _OPERATION = "before", "after", "op"
_DELETE_CODE = "d"
_DELETED = Field("__deleted", OPTIONAL_STRING_SCHEMA)
_DROP, _TOMBSTONE, _TO_TOMBSTONE = "drop", "tombstone", "delete-to-tombstone"
_REWRITE, _REWRITE_WITH_TOMBSTONE = "rewrite", "rewrite-with-tombstone"
_MODES = (_DROP, _TOMBSTONE, _REWRITE, _REWRITE_WITH_TOMBSTONE, _TO_TOMBSTONE)
_STRUCTS = {
    **dict.fromkeys(("id", "total_order", "data_collection_order"), "transaction"),
    **dict.fromkeys((_OPERATION, "ts_ms", "ts_us", "ts_ns"), None),
    "updateDescription": "updateDescription",
}
"""The part of the envelope in which a field without the name of a part is. The others are in `source`."""


def is_envelope(schema: Schema | None) -> bool:
    """Whether a value with this schema is a change."""
    return schema is not None and (schema.name or "").endswith(_ENVELOPE_SUFFIX)


@dataclass(frozen=True, slots=True)
class Reference:
    """A field of the envelope that becomes a field or a header. `struct` is its part, or None for the envelope."""

    struct: str | None
    field: str
    name: str

    @classmethod
    def parse(cls, prefix: str, text: str) -> Reference:
        """Parses `field`, `part.field` or one of both with `:name`. Raises ConfigError."""
        parts = java_split(text, ":")
        if not parts or len(parts) > 2:
            raise ConfigError(f"Unexpected field name: {text}")
        path = java_split(parts[0], ".")
        if not path:
            raise ConfigError(f"Unexpected field name: {text}")
        field = path[0] if len(path) == 1 else path[1]
        struct = _STRUCTS.get(field, "source") if len(path) == 1 else path[0]
        own = field if len(path) == 1 else f"{struct}_{field}"
        return cls(struct, field, prefix + (parts[1] if len(parts) == 2 else own))

    def schema(self, envelope: Schema) -> Schema | None:
        """The schema of the new field, which is optional and has no default. None if the envelope lacks the field."""
        part = envelope
        if self.struct is not None:
            holder = envelope.field(self.struct)
            if holder is None:
                raise DataException(f"The field {self.struct}.{self.field}: the event has no {self.struct}")
            part = holder.schema
        item = part.field(self.field) or envelope.field(self.field)
        return None if item is None else replace(item.schema, optional=True, default=None)

    def value(self, envelope: Struct) -> object:
        part = envelope if self.struct is None else envelope.get_without_default(self.struct)
        if not isinstance(part, Struct):
            return None
        holder = part if self.field in part.schema.positions else envelope
        return holder.get_without_default(self.field)


@dataclass(frozen=True, slots=True)
class _Additions:
    """The references to fields that an envelope has, with the schemas of the new fields."""

    fields: tuple[tuple[Reference, Schema], ...]
    headers: tuple[tuple[Reference, Schema], ...]
    row_schemas: Plans[Schema]
    """The schemas of rows with the additional fields."""


def _with_schemas(references: Sequence[Reference], envelope: Schema) -> tuple[tuple[Reference, Schema], ...]:
    schemas = ((reference, reference.schema(envelope)) for reference in references)
    return tuple((reference, schema) for reference, schema in schemas if schema is not None)


def _key(
    name: str, kind: ConfigType, default: str | None, text: str, importance: Importance = Importance.LOW
) -> ConfigKey:
    return ConfigKey(name, kind, default, None, importance, text)


_ADDED = (
    "The fields of the event to add as {}: names, or part.field, each with :new-name if it gets another name."
)


class ExtractNewRecordState(KafkaTransformation[R]):
    """Replaces the envelope of a change with its row. Passes other records unchanged."""

    java_classes = ("io.debezium.transforms.ExtractNewRecordState",)
    version = VERSION
    config_def = ConfigDef(
        (
            ConfigKey(
                "delete.tombstone.handling.mode",
                ConfigType.STRING,
                _TOMBSTONE,
                OneOf(_MODES, ignore_case=True),
                Importance.MEDIUM,
                "What a delete leaves: nothing (drop), a null with the schema of the row (tombstone), a null"
                " (delete-to-tombstone), or the old row with the field __deleted (rewrite), also with the tombstone"
                " after it (rewrite-with-tombstone).",
            ),
            _key("add.fields", ConfigType.LIST, "", _ADDED.format("fields")),
            _key("add.fields.prefix", ConfigType.STRING, "__", "The prefix of the names of added fields."),
            _key("add.headers", ConfigType.LIST, "", _ADDED.format("headers")),
            _key("add.headers.prefix", ConfigType.STRING, "__", "The prefix of the names of added headers."),
            _key("route.by.field", ConfigType.STRING, "", "The field of the row that names the topic."),
            _key(
                "drop.fields.header.name",
                ConfigType.STRING,
                None,
                "The header with the list of the fields to leave out.",
            ),
            _key(
                "drop.fields.from.key",
                ConfigType.BOOLEAN,
                "false",
                "Whether these fields are left out of the key too.",
            ),
            _key(
                "drop.fields.keep.schema.compatible",
                ConfigType.BOOLEAN,
                "true",
                "Whether only optional fields may be left out.",
            ),
            REPLACE_NULL_KEY,
        )
    )

    def prepare(self) -> None:
        self._mode = trim(self.text("delete.tombstone.handling.mode")).lower()
        self._fields = self._references("add.fields")
        self._headers = self._references("add.headers")
        self._route_field = self.text("route.by.field")
        drop_header = self.config["drop.fields.header.name"]
        self._drop_header = trim(drop_header) if isinstance(drop_header, str) else ""
        self._drops_from_key = bool(self.config["drop.fields.from.key"])
        self._drops_optional_only = bool(self.config["drop.fields.keep.schema.compatible"])
        self._with_defaults = bool(self.config[REPLACE_NULL])
        self._additions = Plans(self._found)
        self._rewritten_schemas = Plans(lambda schema: struct_schema_like(schema, [*schema.fields, _DELETED]))

    def _references(self, key: str) -> tuple[Reference, ...]:
        prefix = self.text(f"{key}.prefix")
        return tuple(Reference.parse(prefix, item) for item in self.texts(key) if item)

    def _found(self, envelope: Schema) -> _Additions:
        fields = _with_schemas(self._fields, envelope)
        added = [Field(reference.name, schema) for reference, schema in fields]
        row_schemas = Plans(lambda row: struct_schema_like(row, [*row.fields, *added]))
        return _Additions(fields, _with_schemas(self._headers, envelope), row_schemas)

    def apply(self, record: R) -> R | None:
        if record.value is None:
            return self._tombstone(record)
        if not is_envelope(record.value_schema):
            return record
        envelope = required_struct(record.value, _PURPOSE)
        after, before = envelope.get(_AFTER), envelope.get(_BEFORE)
        additions = self._additions.of(envelope.schema)
        headers = [
            Header(reference.name, schema, reference.value(envelope))
            for reference, schema in additions.headers
        ]
        record = with_headers(record, [*record.headers, *headers]) if headers else record
        if after is not None:
            row = required_struct(after, _PURPOSE)
            routed = self._routed(record, row)
            return self._dropped(
                self._with_row(routed, self._added(self._rewritten(row, "false"), envelope, additions))
            )
        # A truncate has no row.
        return None if before is None else self._delete(record, envelope, required_struct(before, _PURPOSE))

    def _tombstone(self, record: R) -> R | None:
        if self._mode != _REWRITE_WITH_TOMBSTONE:
            return None
        names = [reference.name for reference in self._headers if reference.field == _OPERATION]
        headers = [Header(name, STRING_SCHEMA, _DELETE_CODE) for name in names]
        return with_headers(record, [*record.headers, *headers]) if headers else record

    def _delete(self, record: R, envelope: Struct, before: Struct) -> R | None:
        if self._mode == _DROP:
            return None
        routed = self._routed(record, before)
        if self._rewrites:
            dropped = self._dropped(self._with_row(routed, self._rewritten(before, "true")))
            row = required_struct(dropped.value, _PURPOSE)
            return self._with_row(dropped, self._added(row, envelope, self._additions.of(envelope.schema)))
        made = copied(routed)
        made.value = None
        row_field = envelope.schema.field(_AFTER)
        made.value_schema = None if self._mode == _TO_TOMBSTONE or row_field is None else row_field.schema
        return self._dropped(made)

    @property
    def _rewrites(self) -> bool:
        return self._mode in (_REWRITE, _REWRITE_WITH_TOMBSTONE)

    def _with_row(self, record: R, row: Struct) -> R:
        made = copied(record)
        made.value, made.value_schema = row, row.schema
        return made

    def _routed(self, record: R, row: Struct) -> R:
        """The record in the topic that the row names. A row without a name stays in its topic."""
        if not self._route_field:
            return record
        topic = row.get(self._route_field)
        if topic is not None and not isinstance(topic, str):
            raise DataException(f"Field '{self._route_field}' is not of type STRING")
        return with_topic(record, topic) if topic and trim(topic) else record

    def _rewritten(self, row: Struct, deleted: str) -> Struct:
        if not self._rewrites:
            return row
        schema = self._rewritten_schemas.of(row.schema)
        return struct_of(schema, [*values_of(row, with_defaults=self._with_defaults), deleted])

    def _added(self, row: Struct, envelope: Struct, additions: _Additions) -> Struct:
        values = [reference.value(envelope) for reference, _ in additions.fields]
        return struct_of(additions.row_schemas.of(row.schema), [*row.values, *values])

    def _dropped(self, record: R) -> R:
        """Leaves out the fields that a header lists."""
        names = self._names_to_drop(record)
        if not names:
            return record
        made = copied(record)
        if self._drops_from_key and isinstance(record.key, Struct):
            made.key = self._without(record.key, names)
            made.key_schema = made.key.schema
        if isinstance(record.value, Struct):
            made.value = self._without(record.value, names)
            made.value_schema = made.value.schema
        return made

    def _names_to_drop(self, record: ConnectRecord) -> Sequence[object]:
        if not self._drop_header:
            return ()
        names = next((header.value for header in record.headers if header.key == self._drop_header), None)
        if names is not None and not isinstance(names, list | tuple):
            raise DataException(
                f"The header {self._drop_header} has a {java_class(names)}: expected a list of the names of fields"
            )
        return names or ()

    def _without(self, row: Struct, names: Sequence[object]) -> Struct:
        remaining = [
            position
            for position, field in enumerate(row.schema.fields)
            if field.name not in names or (self._drops_optional_only and not field.schema.optional)
        ]
        if len(remaining) == len(row.values):
            return row
        schema = struct_schema_like(row.schema, [row.schema.fields[position] for position in remaining])
        values = values_of(row, with_defaults=True)
        return struct_of(schema, [values[position] for position in remaining])
