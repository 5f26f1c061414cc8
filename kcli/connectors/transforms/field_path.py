"""Paths to fields (KIP-821): `name` in the syntax V1, and `outer.inner` in the syntax V2.

In V2, a name that has dots is between backticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.config.definition import ConfigError, ConfigKey, ConfigType, Importance, OneOf
from kcli.connectors.transforms.shared import required_map, required_struct
from kcli.formats.connect.errors import JavaException
from kcli.formats.connect.schema import Field, Schema
from kcli.formats.connect.structs import Struct

SYNTAX_VERSION = "field.syntax.version"
SYNTAX_VERSION_KEY = ConfigKey(
    SYNTAX_VERSION,
    ConfigType.STRING,
    "V1",
    OneOf(("V1", "V2"), ignore_case=True),
    Importance.HIGH,
    "The syntax of names of fields. With <code>V1</code>, a name is a field of the struct or map itself. With "
    "<code>V2</code>, dots lead to the fields of a field. A name that has dots is then written between backticks, "
    "such as <code>`with.dots`.inner</code>.",
)
_NESTED = "nested field access"


@dataclass(frozen=True, slots=True)
class FieldPath:
    """The names of the fields that lead to a field. `steps` is empty only for an empty path in the syntax V2."""

    steps: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, syntax_version: str) -> FieldPath:
        """Raises ConfigError for a backtick without its pair."""
        return cls((text,) if syntax_version.upper() == "V1" else tuple(_steps(text)))

    def in_schema(self, schema: Schema) -> Field | None:
        """The field at this path in the schema of a struct. Raises DataException for a step into another type."""
        current = schema
        for step in self._before_last():
            field = current.field(step)
            if field is None:
                return None
            current = field.schema
        return current.field(self.steps[-1])

    def in_struct(self, struct: Struct, *, with_defaults: bool) -> object:
        """The value at this path. None if a field on the path does not exist, or is null."""
        current = struct
        for step in self._before_last():
            if current.schema.field(step) is None:
                return None
            inner = current.get(step)
            if inner is None:
                return None
            current = required_struct(inner, _NESTED)
        last = self.steps[-1]
        if current.schema.field(last) is None:
            return None
        return current.get(last) if with_defaults else current.get_without_default(last)

    def in_map(self, fields: Mapping[object, object]) -> object:
        """The value at this path. None if a key on the path does not exist, or is null."""
        current = fields
        for step in self._before_last():
            inner = current.get(step)
            if inner is None:
                return None
            current = required_map(inner, _NESTED)
        return current.get(self.steps[-1])

    def _before_last(self) -> tuple[str, ...]:
        if not self.steps:
            raise JavaException("java.lang.IllegalArgumentException", "fromIndex(0) > toIndex(-1)")
        return self.steps[:-1]


def _steps(path: str) -> list[str]:
    steps = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            step, at = _quoted(path, at)
        else:
            end = path.find(".", at)
            step = path[at:] if end < 0 else path[at:end]
            at += len(step) + 1
        steps.append(step)
    return [*steps, ""] if path.endswith(".") else steps


def _quoted(path: str, start: int) -> tuple[str, int]:
    """The name between backticks, and the index after it and its dot.

    A backtick ends the name only before a dot or at the end. A backslash before such a backtick makes it a part of the
    name.
    """
    name, begin, at = "", start + 1, start + 1
    while (at := path.find("`", at)) >= 0:
        is_escaped = path[at - 1] == "\\"
        if at == len(path) - 1:
            if is_escaped:
                break
            return name + path[begin:at], at + 1
        if path[at + 1] == ".":
            if not is_escaped:
                return name + path[begin:at], at + 2
            name += path[begin : at - 1] + "`"
            begin = at + 1
        at += 1
    raise ConfigError(
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position {start}"
        " to escape it"
    )
