"""Metadata and rule sets of schemas: their checks, and how a registration inherits them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from kcli.formats.registry.documents import ConfigDocument, SchemaDefinition
from kcli.formats.registry.rule_sets import Metadata, Rule, RuleMode, RuleSet
from kcli.model.java_order import text_order
from kcli.model.java_text import parse_int
from kcli.registry.decisions.errors import invalid_rule_set

V = TypeVar("V")

RULE_NAME_LENGTH_MAX = 256

VERSION_PROPERTY = "confluent:version"
"""The property with the number of the version. A new version that differs only in it is not a new schema."""

_MIGRATION_MODES = (RuleMode.UPGRADE, RuleMode.DOWNGRADE, RuleMode.UPDOWN)
_VALUE_MODES = (RuleMode.WRITE, RuleMode.READ, RuleMode.WRITEREAD)
# A rule with one of these modes is applied in two directions, and may have an action for each.
_MODES_OF_TWO_ACTIONS = (RuleMode.UPDOWN, RuleMode.WRITEREAD)


def check_rule_set(rule_set: RuleSet | None) -> None:
    """Raises RegistryError if a rule has an invalid name, no type, or the mode of another phase."""
    if rule_set is None:
        return
    names: set[str | None] = set()
    for rules, modes, phase in (
        (rule_set.migration_rules, _MIGRATION_MODES, "Migration"),
        (rule_set.domain_rules, _VALUE_MODES, "Domain"),
        (rule_set.encoding_rules, _VALUE_MODES, "Encoding"),
    ):
        for rule in rules:
            if rule.name in names:
                raise invalid_rule_set(f"Found rule with duplicate name '{rule.name}'")
            names.add(rule.name)
            _check_rule(rule)
            if rule.mode not in modes:
                raise invalid_rule_set(f"{phase} rules can only be {', '.join(modes)}")


def _check_rule(rule: Rule) -> None:
    _check_name(rule.name)
    if rule.type is None:
        raise invalid_rule_set("Missing rule type")
    if rule.mode not in _MODES_OF_TWO_ACTIONS and "," in f"{rule.on_success}{rule.on_failure}":
        raise invalid_rule_set("Multiple actions only valid with WRITEREAD and UPDOWN")


def _check_name(name: str | None) -> None:
    if name is None:
        raise invalid_rule_set("Missing rule name")
    if not name:
        raise invalid_rule_set("Empty rule name")
    if len(name) > RULE_NAME_LENGTH_MAX:
        raise invalid_rule_set("Rule name too long")
    if not (name[0].isalpha() or name[0] == "_"):
        raise invalid_rule_set(f"Illegal initial character in rule name: {name}")
    if not all(character.isalpha() or character.isdecimal() or character in "_-" for character in name[1:]):
        raise invalid_rule_set(f"Illegal character in rule name: {name}")


def inherited(
    definition: SchemaDefinition, previous: SchemaDefinition | None, config: ConfigDocument
) -> tuple[Metadata | None, RuleSet | None]:
    """Returns the metadata and the rules of a registration.

    They are those of the request, or else those of the previous version. The defaults of the config come before them,
    and the overrides of the config after them.
    """
    metadata, rule_set = definition.metadata, definition.rule_set
    if previous is not None:
        metadata = previous.metadata if metadata is None else metadata
        rule_set = previous.rule_set if rule_set is None else rule_set
    metadata = _merged_metadata(_merged_metadata(config.default_metadata, metadata), config.override_metadata)
    rule_set = _merged_rule_sets(
        _merged_rule_sets(config.default_rule_set, rule_set), config.override_rule_set
    )
    return metadata, rule_set


def version_of(metadata: Metadata | None) -> int | None:
    """Returns the number in the version property. A text that is not a number counts as missing."""
    try:
        return parse_int((metadata or Metadata()).properties.get(VERSION_PROPERTY, ""))
    except ValueError:
        return None


def has_version(metadata: Metadata | None) -> bool:
    return metadata is not None and VERSION_PROPERTY in metadata.properties


def with_version(metadata: Metadata | None, version: int) -> Metadata:
    metadata = metadata or Metadata()
    return replace(metadata, properties=_sorted({**metadata.properties, VERSION_PROPERTY: str(version)}))


def without_version(metadata: Metadata) -> Metadata:
    properties = {name: value for name, value in metadata.properties.items() if name != VERSION_PROPERTY}
    return replace(metadata, properties=properties)


def _merged_metadata(old: Metadata | None, new: Metadata | None) -> Metadata | None:
    if old is None or new is None:
        return old or new
    return Metadata(
        tags=_sorted({**old.tags, **new.tags}),
        properties=_sorted({**old.properties, **new.properties}),
        sensitive=tuple(sorted({*old.sensitive, *new.sensitive}, key=text_order)),
    )


def _merged_rule_sets(old: RuleSet | None, new: RuleSet | None) -> RuleSet | None:
    if old is None or new is None:
        return old or new
    return RuleSet(
        migration_rules=_merged_rules(old.migration_rules, new.migration_rules),
        domain_rules=_merged_rules(old.domain_rules, new.domain_rules),
        encoding_rules=_merged_rules(old.encoding_rules, new.encoding_rules),
        enable_at=new.enable_at or old.enable_at,
    )


def _merged_rules(old: tuple[Rule, ...], new: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """A new rule replaces the old rule with its name."""
    names = {rule.name for rule in new}
    return (*(rule for rule in old if rule.name not in names), *new)


def _sorted(values: Mapping[str, V]) -> dict[str, V]:
    return {name: values[name] for name in sorted(values, key=text_order)}
