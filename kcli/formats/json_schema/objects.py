"""The differences between the keywords of objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from kcli.formats.json_schema.kinds import Difference
from kcli.formats.json_schema.nodes import Node, ObjectRules
from kcli.formats.json_schema.patterns import finds
from kcli.formats.json_schema.steps import (
    IsCompatible,
    Steps,
    bound_differences,
    compared_at,
    rest_differences,
    under,
)
from kcli.model.java_order import map_order, string_hash

_HASHES_MAX = 10_000
"""The most hashes of names that are kept, because a comparison meets each property many times."""
_hash = lru_cache(maxsize=_HASHES_MAX)(string_hash)


def object_differences(original: ObjectRules, update: ObjectRules, is_compatible: IsCompatible) -> Steps:
    """Compares the keywords of objects, in the order of Confluent's registry."""
    result = _required_differences(original, update)
    for name in _names(original.properties, update.properties):
        result += yield from _property_differences(name, original, update, is_compatible)
    result += _array_dependency_differences(original, update)
    for name in _names(original.schema_dependencies, update.schema_dependencies):
        result += yield from _schema_dependency_differences(name, original, update)
    result += yield from _additional_differences(original, update)
    result += yield from rest_differences(
        "unevaluatedProperties",
        "UNEVALUATED_PROPERTIES",
        original.content.unevaluated,
        update.content.unevaluated,
    )
    result += bound_differences(
        "maxProperties", "MAX_PROPERTIES", original.max_properties, update.max_properties
    )
    result += bound_differences(
        "minProperties", "MIN_PROPERTIES", original.min_properties, update.min_properties
    )
    return result


def _required_differences(original: ObjectRules, update: ObjectRules) -> list[Difference]:
    result = []
    for name in original.properties:
        property_schema = update.properties.get(name)
        if property_schema is None or (name in original.required) == (name in update.required):
            continue
        if name in original.required:
            change = "REMOVED"
        else:
            change = "ADDED" if property_schema.annotations.default is None else "WITH_DEFAULT_ADDED"
        result.append(Difference(f"REQUIRED_ATTRIBUTE_{change}", f"required/{name}"))
    return result


def _property_differences(
    name: str, original: ObjectRules, update: ObjectRules, is_compatible: IsCompatible
) -> Steps:
    path = f"properties/{name}"
    before, after = original.properties.get(name), update.properties.get(name)
    if before is None:
        assert after is not None, "a property is in one of the schemas"
        return (yield from _added_property(path, name, after, original, update, is_compatible))
    if after is None:
        return (yield from _removed_property(path, name, before, update, is_compatible))
    return (yield from compared_at(path, before, after))


def _removed_property(
    path: str, name: str, before: Node, update: ObjectRules, is_compatible: IsCompatible
) -> Steps:
    """Compares a property that the update does not name, so only the content model of the update matters."""
    if update.content.is_open:
        return [Difference("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", path)]
    cover = _cover(update, name)
    if cover is None:
        kind = "PROPERTY_WITH_FALSE_REMOVED_FROM" if before.is_false else "PROPERTY_REMOVED_FROM"
        return [Difference(f"{kind}_CLOSED_CONTENT_MODEL", path)]
    inner = under(path, (yield before, cover))
    is_covered = "IS" if is_compatible(inner) else "NOT"
    return [
        *inner,
        Difference(f"PROPERTY_REMOVED_{is_covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path),
    ]


def _added_property(
    path: str,
    name: str,
    after: Node,
    original: ObjectRules,
    update: ObjectRules,
    is_compatible: IsCompatible,
) -> Steps:
    """Compares a property that the original does not name, so only the content model of the original matters."""
    kind = "OPTIONAL_PROPERTY"
    if name in update.required:
        is_filled = after.annotations.default is not None
        kind = "REQUIRED_PROPERTY_WITH_DEFAULT" if is_filled else "REQUIRED_PROPERTY"
    if original.content.is_open:
        kind = "PROPERTY_WITH_EMPTY_SCHEMA" if after.is_empty else kind
        return [Difference(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", path)]
    result: list[Difference] = []
    cover = _cover(original, name)
    if cover is not None:
        result = under(path, (yield cover, after))
        is_covered = "IS" if is_compatible(result) else "NOT"
        result.append(
            Difference(f"PROPERTY_ADDED_{is_covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
        )
    return [*result, Difference(f"{kind}_ADDED_TO_UNOPEN_CONTENT_MODEL", path)]


def _cover(rules: ObjectRules, name: str) -> Node | None:
    """Returns the schema of a property that is not named, in a partially open content model."""
    for pattern, schema in rules.patterns.items():
        if finds(pattern, name):
            return schema
    return rules.content.cover


def _array_dependency_differences(original: ObjectRules, update: ObjectRules) -> list[Difference]:
    result = []
    for name in _names(original.property_dependencies, update.property_dependencies):
        before, after = original.property_dependencies.get(name), update.property_dependencies.get(name)
        if before == after:
            continue
        if after is None:
            change = "REMOVED"
        elif before is None:
            change = "ADDED"
        elif before <= after:
            change = "EXTENDED"
        else:
            change = "NARROWED" if after <= before else "CHANGED"
        result.append(Difference(f"DEPENDENCY_ARRAY_{change}", f"dependencies/{name}"))
    return result


def _schema_dependency_differences(name: str, original: ObjectRules, update: ObjectRules) -> Steps:
    path = f"dependencies/{name}"
    before, after = original.schema_dependencies.get(name), update.schema_dependencies.get(name)
    if before is None or after is None:
        return [Difference(f"DEPENDENCY_SCHEMA_{'ADDED' if before is None else 'REMOVED'}", path)]
    return (yield from compared_at(path, before, after))


def _additional_differences(original: ObjectRules, update: ObjectRules) -> Steps:
    before, after = original.content, update.content
    path = "additionalProperties"
    if before.is_permitted != after.is_permitted:
        return [Difference(f"ADDITIONAL_PROPERTIES_{'ADDED' if after.is_permitted else 'REMOVED'}", path)]
    if (before.schema is None) != (after.schema is None):
        return [
            Difference(f"ADDITIONAL_PROPERTIES_{'NARROWED' if before.schema is None else 'EXTENDED'}", path)
        ]
    return (yield from compared_at(path, before.schema, after.schema))


def _names(original: Mapping[str, object], update: Mapping[str, object]) -> Iterable[str]:
    """Returns the names of both, in the order of a hash set of Java that was made from the first names."""
    capacity = max(16, 4 * len(original) // 3 + 1)
    return map_order([*original, *update], _hash, capacity=capacity)
