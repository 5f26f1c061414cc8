"""The metadata and the rules of a schema, which a registry stores and only clients apply."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

from kcli.formats.registry.members import (
    InvalidDocument,
    JsonObject,
    Members,
    sorted_texts,
    text_item,
    without_empty,
)

E = TypeVar("E", bound=enum.StrEnum)

NO_TEXTS: Mapping[str, str] = {}
NO_TAGS: Mapping[str, tuple[str, ...]] = {}


class RuleKind(enum.StrEnum):
    TRANSFORM = "TRANSFORM"
    CONDITION = "CONDITION"


class RuleMode(enum.StrEnum):
    """When clients apply a rule."""

    UPGRADE = "UPGRADE"
    DOWNGRADE = "DOWNGRADE"
    UPDOWN = "UPDOWN"
    WRITE = "WRITE"
    READ = "READ"
    WRITEREAD = "WRITEREAD"


class ExecutionEnvironment(enum.StrEnum):
    """Where rules are applied."""

    ALL = "ALL"
    CLIENT = "CLIENT"
    GATEWAY = "GATEWAY"
    SERVER = "SERVER"
    NONE = "NONE"


@dataclass(frozen=True, slots=True)
class Metadata:
    """Tags of places in the schema, properties, and the names of sensitive properties. All are sorted as in Java."""

    tags: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: NO_TAGS)
    properties: Mapping[str, str] = field(default_factory=lambda: NO_TEXTS)
    sensitive: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: object, path: str = "metadata") -> Self:
        members = Members.of(value, path)
        sensitive = members.object_of("sensitive", sorted_texts) or ()
        return cls(members.map_of("tags", sorted_texts), members.map_of("properties", text_item), sensitive)

    def to_json(self) -> JsonObject:
        return without_empty(
            {
                "tags": {path: list(tags) for path, tags in self.tags.items()} or None,
                "properties": dict(self.properties) or None,
                "sensitive": list(self.sensitive),
            }
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that clients apply to values. A registry does not execute it."""

    name: str | None
    type: str | None
    doc: str | None = None
    kind: RuleKind = RuleKind.TRANSFORM
    mode: RuleMode = RuleMode.WRITEREAD
    tags: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=lambda: NO_TEXTS)
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool = False

    @classmethod
    def from_json(cls, value: object, path: str = "rule") -> Self:
        members = Members.of(value, path)
        return cls(
            name=members.text("name"),
            doc=members.text("doc"),
            kind=members.object_of("kind", _enum_parser(RuleKind)) or RuleKind.TRANSFORM,
            mode=members.object_of("mode", _enum_parser(RuleMode)) or RuleMode.WRITEREAD,
            type=members.text("type"),
            tags=members.object_of("tags", sorted_texts) or (),
            params=members.map_of("params", text_item),
            expr=members.text("expr"),
            on_success=members.text("onSuccess"),
            on_failure=members.text("onFailure"),
            disabled=members.boolean("disabled") or False,
        )

    def to_json(self) -> JsonObject:
        return without_empty(
            {
                "name": self.name,
                "doc": self.doc,
                "kind": self.kind.value,
                "mode": self.mode.value,
                "type": self.type,
                "tags": list(self.tags),
                "params": dict(self.params) or None,
                "expr": self.expr,
                "onSuccess": self.on_success,
                "onFailure": self.on_failure,
                "disabled": self.disabled,
            }
        )


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a schema, by their phase."""

    migration_rules: tuple[Rule, ...] = ()
    domain_rules: tuple[Rule, ...] = ()
    encoding_rules: tuple[Rule, ...] = ()
    enable_at: ExecutionEnvironment | None = None

    @classmethod
    def from_json(cls, value: object, path: str = "ruleSet") -> Self:
        members = Members.of(value, path)
        return cls(
            migration_rules=members.list_of("migrationRules", Rule.from_json),
            domain_rules=members.list_of("domainRules", Rule.from_json),
            encoding_rules=members.list_of("encodingRules", Rule.from_json),
            enable_at=members.object_of("enableAt", _enum_parser(ExecutionEnvironment)),
        )

    def to_json(self) -> JsonObject:
        return without_empty(
            {
                "migrationRules": [rule.to_json() for rule in self.migration_rules],
                "domainRules": [rule.to_json() for rule in self.domain_rules],
                "encodingRules": [rule.to_json() for rule in self.encoding_rules],
                "enableAt": None if self.enable_at is None else self.enable_at.value,
            }
        )


def _enum_parser(kind: type[E]) -> Callable[[object, str], E]:
    def parse(value: object, path: str) -> E:
        try:
            return kind(text_item(value, path))
        except ValueError:
            raise InvalidDocument(f"{path}: expected one of {', '.join(kind)}, found {value}") from None

    return parse
