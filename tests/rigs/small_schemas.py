"""A schema language for tests of the registry: an object of fields, and a registry of one node without Kafka.

`{"a":null}` has a field that readers require, and `{"a":1}` has a field with a default. `{"$n":"name"}` refers to the
schema of the reference `name`. In a new schema, no field may begin with an underscore. A schema with the field
`complex` can be neither compared, nor normalized, nor written in a format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from kcli.formats.codec import FormatError
from kcli.formats.registry.documents import RegisterRequest, RegisterResponse, SchemaDefinition
from kcli.formats.schemas import (
    CompatibilityPolicy,
    Incompatibility,
    SchemaLanguage,
    SchemaReference,
    SchemaType,
)
from kcli.registry.decisions.configs import Settings
from kcli.registry.decisions.decision import Decision
from kcli.registry.decisions.records import Entry
from kcli.registry.decisions.registration import register, registered
from kcli.registry.decisions.rules import Rules
from kcli.registry.decisions.state import RegistryState, Skipped

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SmallSchema:
    """A parsed schema. `canonical` keeps the order of the fields, and `fields` has those of all references too."""

    type: SchemaType
    canonical: str
    fields: tuple[tuple[str, object], ...]

    def normalized(self) -> SmallSchema:
        self._check()
        return SmallSchema(self.type, _text(json.loads(self.canonical), sort=True), self.fields)

    def in_format(self, name: str) -> str:
        self._check()
        return _text(dict(self.fields), sort=True) if name == "resolved" else self.canonical

    def is_equal(self, other: SmallSchema) -> bool:
        return self.fields == other.fields

    def incompatibilities(
        self, writer: SmallSchema, policy: CompatibilityPolicy
    ) -> tuple[Incompatibility, ...]:
        self._check()
        written = dict(writer.fields)
        missing = (name for name, default in self.fields if default is None and name not in written)
        text = "{field '%s' of the %%(reader)s schema is missing in the %%(writer)s schema, %s}"
        return tuple(Incompatibility("MISSING", f"/{name}", text % (name, policy)) for name in missing)

    def _check(self) -> None:
        if "complex" in dict(self.fields):
            raise FormatError("the schema is too complex")


@dataclass(frozen=True, slots=True)
class SmallLanguage:
    type: SchemaType

    def parse(self, text: str, resolved: Mapping[str, str], *, is_new: bool) -> SmallSchema:
        fields = _object(text)
        if is_new and any(name.startswith("_") for name in fields):
            raise FormatError("Illegal initial character: _")
        own = {name: value for name, value in fields.items() if not name.startswith("$")}
        for reference in (str(value) for name, value in fields.items() if name.startswith("$")):
            if reference not in resolved:
                raise FormatError(f"Undefined name: {reference}")
            inner = self.parse(resolved[reference], resolved, is_new=False)
            own = {**dict(inner.fields), **own}
        return SmallSchema(self.type, _text(fields), tuple(sorted(own.items())))


LANGUAGES = {kind: SmallLanguage(kind) for kind in SchemaType}


def small_language(schema_type: SchemaType) -> SchemaLanguage:
    """Takes the place of `language_of`."""
    return LANGUAGES[schema_type]


class Topic:
    """The topic `_schemas` and a registry that reads it."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.rules = Rules.of(self.settings)
        self.records: list[Entry] = []

    @property
    def state(self) -> RegistryState:
        return self.rules.state

    def write(self, *entries: Entry) -> list[Skipped | None]:
        first = len(self.records)
        self.records += entries
        return [
            self.state.replay(key, value, first + i, 1_000 + first + i)
            for i, (key, value) in enumerate(entries)
        ]

    def carry_out(self, decision: Decision[T]) -> T:
        assert not any(self.write(*decision.entries))
        return decision.answer

    def register(self, subject: str, text: str, **members: object) -> RegisterResponse:
        """Registers a text as a leader. The other members are those of the request's JSON."""
        return self.carry_out(register(self.rules, subject, request(text, **members)))

    def post(self, subject: str, text: str, **members: object) -> RegisterResponse:
        """Registers a text as a client does: the leader decides only if the subject does not have the schema."""
        known = registered(self.rules, subject, request(text, **members))
        return self.register(subject, text, **members) if known is None else known

    def restarted(self, *, compacted: bool = False) -> Topic:
        """A registry that reads the topic from its beginning."""
        other = Topic(self.settings)
        other.records = self.records
        last = {key: offset for offset, (key, _) in enumerate(self.records)}
        for offset, (key, value) in enumerate(self.records):
            is_kept = last[key] == offset and value is not None
            if is_kept or not compacted:
                other.state.replay(key, value, offset, 1_000 + offset)
        return other


def request(text: str, **members: object) -> RegisterRequest:
    return RegisterRequest.from_json({"schema": text, **members})


def definition(text: str, *references: SchemaReference) -> SchemaDefinition:
    return SchemaDefinition(text, references=references)


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise FormatError(str(error)) from None
    if not isinstance(value, dict):
        raise FormatError("No type")
    return value


def _text(value: object, *, sort: bool = False) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=sort)
