"""The differences between the keywords of arrays."""

from __future__ import annotations

from kcli.formats.json_schema.kinds import Difference
from kcli.formats.json_schema.nodes import ArrayRules, Node
from kcli.formats.json_schema.steps import (
    IsCompatible,
    Steps,
    bound_differences,
    compared_at,
    rest_differences,
    under,
)


def array_differences(original: ArrayRules, update: ArrayRules, is_compatible: IsCompatible) -> Steps:
    """Compares the keywords of arrays, in the order of Confluent's registry."""
    result = yield from compared_at("items", original.every_item, update.every_item)
    for index in range(max(len(original.items), len(update.items))):
        path = f"items/{index}"
        if index >= len(update.items):
            result += yield from _removed_item(path, original.items[index], update, is_compatible)
        elif index >= len(original.items):
            result += yield from _added_item(path, update.items[index], original, is_compatible)
        else:
            result += yield from compared_at(path, original.items[index], update.items[index])
    result += yield from _additional_differences(original, update)
    result += yield from rest_differences(
        "unevaluatedItems", "UNEVALUATED_ITEMS", original.content.unevaluated, update.content.unevaluated
    )
    return result + _attribute_differences(original, update)


def _removed_item(path: str, before: Node, update: ArrayRules, is_compatible: IsCompatible) -> Steps:
    if update.content.is_open:
        return [Difference("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", path)]
    cover = update.content.cover
    if cover is None:
        kind = "ITEM_WITH_FALSE_REMOVED_FROM" if before.is_false else "ITEM_REMOVED_FROM"
        return [Difference(f"{kind}_CLOSED_CONTENT_MODEL", path)]
    inner = under(path, (yield before, cover))
    is_covered = "IS" if is_compatible(inner) else "NOT"
    return [*inner, Difference(f"ITEM_REMOVED_{is_covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)]


def _added_item(path: str, after: Node, original: ArrayRules, is_compatible: IsCompatible) -> Steps:
    if original.content.is_open:
        kind = "ITEM_WITH_EMPTY_SCHEMA" if after.is_empty else "ITEM"
        return [Difference(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", path)]
    cover = original.content.cover
    if cover is None:
        return [Difference("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", path)]
    inner = under(path, (yield cover, after))
    is_covered = "IS" if is_compatible(inner) else "NOT"
    return [*inner, Difference(f"ITEM_ADDED_{is_covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)]


def _additional_differences(original: ArrayRules, update: ArrayRules) -> Steps:
    before, after = original.content, update.content
    path = "additionalItems"
    if before.is_permitted != after.is_permitted:
        return [Difference(f"ADDITIONAL_ITEMS_{'ADDED' if after.is_permitted else 'REMOVED'}", path)]
    if (before.schema is None) != (after.schema is None):
        return [Difference(f"ADDITIONAL_ITEMS_{'NARROWED' if before.schema is None else 'EXTENDED'}", path)]
    return (yield from compared_at(path, before.schema, after.schema))


def _attribute_differences(original: ArrayRules, update: ArrayRules) -> list[Difference]:
    result = [
        *bound_differences("maxItems", "MAX_ITEMS", original.max_items, update.max_items),
        *bound_differences("minItems", "MIN_ITEMS", original.min_items, update.min_items),
    ]
    if original.is_unique != update.is_unique:
        result.append(
            Difference(f"UNIQUE_ITEMS_{'REMOVED' if original.is_unique else 'ADDED'}", "uniqueItems")
        )
    return [
        *result,
        *bound_differences("maxContains", "MAX_CONTAINS", original.max_contains, update.max_contains),
        *bound_differences("minContains", "MIN_CONTAINS", original.min_contains, update.min_contains),
    ]
