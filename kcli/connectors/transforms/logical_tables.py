"""ByLogicalTableRouter: one topic for the changes of several tables, such as the shards of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kcli import VERSION
from kcli.config.definition import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    OneOf,
    Range,
    TopicPattern,
    Validator,
    invalid_value,
)
from kcli.connectors.avro_names import ADJUSTMENTS, adjusted_schema_name
from kcli.connectors.records import R, copied
from kcli.connectors.transforms.new_record_state import is_envelope
from kcli.connectors.transforms.shared import KafkaTransformation, Plans, required_struct, values_of
from kcli.formats.connect.errors import JavaException
from kcli.formats.connect.schema import STRING_SCHEMA, Field, Schema
from kcli.formats.connect.structs import Struct
from kcli.model.java_regex import compile_java
from kcli.model.java_regex.replacement import Replacement
from kcli.model.java_text import trim

_PURPOSE = "Updating schema"


def _key(
    name: str,
    kind: ConfigType,
    default: str | None,
    validator: Validator | None,
    text: str,
    *,
    required: bool = False,
) -> ConfigKey:
    return ConfigKey(name, kind, default, validator, Importance.LOW, text, required=required)


@dataclass(frozen=True, slots=True)
class _OptionalPattern(TopicPattern):
    """A regular expression, or none."""

    def check(self, key: str, value: ConfigValue) -> None:
        if value is not None:
            TopicPattern.check(self, key, value)


class _Rename:
    """Replaces a name that a regular expression fits. Remembers the new names."""

    def __init__(self, regex: str, replacement: str, names_max: int) -> None:
        self._regex = compile_java(regex, ascii_only=True)
        self._replacement = Replacement(replacement)
        self._names: dict[str, str | None] = {}
        self._names_max = names_max

    def of(self, name: str) -> str | None:
        """The new name, or None if the expression does not fit the whole name."""
        if name not in self._names:
            if len(self._names) >= self._names_max:
                self._names.clear()
            self._names[name] = self._renamed(name)
        return self._names[name]

    def _renamed(self, name: str) -> str | None:
        if self._regex.fullmatch(name) is None:
            return None
        try:
            return self._replacement.first(self._regex, name)
        except IndexError as error:
            raise JavaException("java.lang.IndexOutOfBoundsException", str(error)) from None
        except ValueError as error:
            raise JavaException("java.lang.IllegalArgumentException", str(error)) from None


class ByLogicalTableRouter(KafkaTransformation[R]):
    """Renames the topics of changes, and adds the table to their keys, because two tables may have the same keys."""

    java_classes = ("io.debezium.transforms.ByLogicalTableRouter",)
    version = VERSION
    config_def = ConfigDef(
        (
            _key("topic.regex", ConfigType.STRING, None, TopicPattern(),
                 "A Java regular expression for the whole name of a topic.", required=True),
            _key("topic.replacement", ConfigType.STRING, None, None,
                 "The new name. <code>$1</code> is the text of the first group.", required=True),
            _key("key.enforce.uniqueness", ConfigType.BOOLEAN, "true", None,
                 "Whether the keys of records get a field that tells the table."),
            _key("key.field.name", ConfigType.STRING, "__dbz__physicalTableIdentifier", None,
                 "The name of this field."),
            _key("key.field.regex", ConfigType.STRING, None, _OptionalPattern(),
                 "A Java regular expression for the whole name of the old topic, from which the field gets its value."
                 " Without one, the value is the old topic."),
            _key("key.field.replacement", ConfigType.STRING, None, None,
                 "The value of the field. <code>$1</code> is the text of the first group."),
            _key("schema.name.adjustment.mode", ConfigType.STRING, "none", OneOf(ADJUSTMENTS, ignore_case=True),
                 "Whether other characters than those of Avro's names are replaced in the names of schemas."),
            _key("logical.table.cache.size", ConfigType.INT, "16", Range(low=1),
                 "The topics whose new names and schemas are remembered."),
        )
    )  # fmt: skip

    def prepare(self) -> None:
        size = self.config["logical.table.cache.size"]
        assert isinstance(size, int), "the key is a number"
        self._cache_size = size
        self._topics = _Rename(self.text("topic.regex"), self.text("topic.replacement"), size)
        key_regex = _trimmed(self.config["key.field.regex"])
        key_replacement = _trimmed(self.config["key.field.replacement"])
        if key_regex and not key_replacement:
            raise invalid_value(
                "key.field.replacement",
                None,
                "key.field.replacement must be non-empty if key.field.regex is set.",
            )
        self._identifiers = _Rename(key_regex, key_replacement, size) if key_regex else None
        self._is_unique = bool(self.config["key.enforce.uniqueness"])
        self._mode = self.text("schema.name.adjustment.mode").lower()
        self._keys: dict[str, Plans[Schema]] = {}
        self._envelopes: dict[str, Plans[Schema]] = {}

    def apply(self, record: R) -> R:
        topic = self._topics.of(record.topic)
        if not topic:
            return record
        made = copied(record)
        made.topic = topic
        made.key_schema, made.key = None, None
        if record.key is not None:
            made.key = self._key(required_struct(record.key, _PURPOSE), record.topic, topic)
            made.key_schema = made.key.schema
        if record.value is not None and is_envelope(record.value_schema):
            made.value = self._envelope(required_struct(record.value, _PURPOSE), topic)
            made.value_schema = made.value.schema
        return made

    def _key(self, key: Struct, old_topic: str, topic: str) -> Struct:
        values = values_of(key, with_defaults=True)
        if self._is_unique:
            identifier = None if self._identifiers is None else self._identifiers.of(old_topic)
            values.append(old_topic if identifier is None else identifier)
        return Struct.of_checked(self._plans(self._keys, topic, self._key_schema).of(key.schema), values)

    def _key_schema(self, schema: Schema, topic: str) -> Schema:
        fields = schema.fields
        if self._is_unique:
            fields = (*fields, Field(self.text("key.field.name"), STRING_SCHEMA))
        return self._renamed(schema, topic, "Key", fields)

    def _envelope(self, envelope: Struct, topic: str) -> Struct:
        schema = self._plans(self._envelopes, topic, self._envelope_schema).of(envelope.schema)
        values = list(envelope.values)
        for place, field in enumerate(schema.fields):
            row = values[place]
            if field.name in ("before", "after") and isinstance(row, Struct):
                values[place] = Struct.of_checked(field.schema, row.values)
        return Struct.of_checked(schema, values)

    def _envelope_schema(self, schema: Schema, topic: str) -> Schema:
        fields = tuple(
            Field(field.name, self._renamed(field.schema, topic, "Value", field.schema.fields))
            if field.name in ("before", "after")
            else field
            for field in schema.fields
        )
        return self._renamed(schema, topic, "Envelope", fields)

    def _plans(
        self, by_topic: dict[str, Plans[Schema]], topic: str, make: Callable[[Schema, str], Schema]
    ) -> Plans[Schema]:
        """The schemas of records of a topic, which depend on its name."""
        plans = by_topic.get(topic)
        if plans is None:
            if len(by_topic) >= self._cache_size:
                by_topic.clear()
            plans = by_topic[topic] = Plans(lambda schema: make(schema, topic))
        return plans

    def _renamed(self, schema: Schema, topic: str, part: str, fields: tuple[Field, ...]) -> Schema:
        return replace(schema, name=adjusted_schema_name(f"{topic}.{part}", self._mode), fields=fields)


def _trimmed(value: ConfigValue) -> str:
    assert value is None or isinstance(value, str), "the key is a text"
    return trim(value or "")
