"""ReplaceField: leaves out or renames fields."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, invalid_value
from kcli.connectors.records import ConnectRecord, R
from kcli.connectors.transforms.shared import (
    PACKAGE,
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    Checked,
    PartTransformation,
    Plans,
    field_value,
    java_split,
    required_map,
    required_struct,
    struct_of,
    struct_schema_like,
    text_key,
    values_of,
)
from kcli.formats.connect.schema import Field, Schema
from kcli.formats.connect.structs import Struct
from kcli.model.java_order import hash_order

_EXCLUDE, _INCLUDE, _RENAMES = "exclude", "include", "renames"
_PURPOSE = "field replacement"


def _parsed_renames(items: tuple[str, ...]) -> dict[str, str]:
    """The new name by the old name, in the order of a Java map. Raises ConfigError."""
    renames: dict[str, str] = {}
    for item in items:
        parts = java_split(item, ":")
        if len(parts) != 2:
            raise invalid_value(_RENAMES, items, f"Invalid rename mapping: {item}")
        renames[parts[0]] = parts[1]
    return {name: renames[name] for name in hash_order(renames)}


@dataclass(frozen=True, slots=True)
class _Plan:
    """The new schema, and for each of its fields the name of the old field.

    `positions` has the positions of the old fields. It is None if a value must be checked, because a rename gives a
    field the value of another field with another schema.
    """

    schema: Schema
    names: tuple[str, ...]
    positions: tuple[int, ...] | None


class ReplaceField(PartTransformation[R]):
    """Leaves out or renames fields of a struct or a map."""

    config_def = ConfigDef(
        (
            ConfigKey(
                _EXCLUDE,
                ConfigType.LIST,
                "",
                importance=Importance.MEDIUM,
                documentation="The fields to leave out, even if <code>include</code> has them too.",
            ),
            ConfigKey(
                _INCLUDE,
                ConfigType.LIST,
                "",
                importance=Importance.MEDIUM,
                documentation="The fields to keep. An empty list means all fields.",
            ),
            ConfigKey(
                _RENAMES,
                ConfigType.LIST,
                "",
                Checked(_parsed_renames, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"),
                Importance.MEDIUM,
                "Pairs of an old and a new name.",
            ),
            REPLACE_NULL_KEY,
        )
    )

    def prepare(self) -> None:
        self._exclude = frozenset(self.texts(_EXCLUDE))
        self._include = frozenset(self.texts(_INCLUDE))
        self._renames = _parsed_renames(self.texts(_RENAMES))
        self._old_names = {new: old for old, new in self._renames.items()}
        self._with_defaults = bool(self.config[REPLACE_NULL])
        self._plans = Plans(self._plan)

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: object
    ) -> tuple[Schema | None, object]:
        if value is None:
            return schema, value
        if schema is None:
            fields = required_map(value, _PURPOSE)
            named = ((text_key(key), item) for key, item in fields.items())
            return None, {
                name if name is None else self._renames.get(name, name): item
                for name, item in named
                if self._keeps(name)
            }
        struct = required_struct(value, _PURPOSE)
        plan = self._plans.of(struct.schema)
        return plan.schema, self._replaced(struct, plan)

    def _keeps(self, name: str | None) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _plan(self, schema: Schema) -> _Plan:
        fields = [
            Field(self._renames.get(field.name, field.name), field.schema)
            for field in schema.fields
            if self._keeps(field.name)
        ]
        new = struct_schema_like(schema, fields)
        names = tuple(self._old_names.get(field.name, field.name) for field in fields)
        old = [schema.field(name) for name in names]
        fits = all(
            field is not None and field.schema is item.schema for field, item in zip(old, fields, strict=True)
        )
        return _Plan(new, names, tuple(schema.positions[name] for name in names) if fits else None)

    def _replaced(self, struct: Struct, plan: _Plan) -> Struct:
        if plan.positions is not None:
            values = values_of(struct, with_defaults=self._with_defaults)
            return struct_of(plan.schema, [values[position] for position in plan.positions])
        made = Struct(plan.schema)
        for field, name in zip(plan.schema.fields, plan.names, strict=True):
            made.put(field.name, field_value(struct, name, with_defaults=self._with_defaults))
        return made


class ReplaceFieldKey(ReplaceField[R]):
    is_key = True
    java_classes = (f"{PACKAGE}ReplaceField$Key",)


class ReplaceFieldValue(ReplaceField[R]):
    java_classes = (f"{PACKAGE}ReplaceField$Value",)
