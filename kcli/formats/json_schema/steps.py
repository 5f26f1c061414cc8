"""The language of a comparison: the pairs that it yields, and its differences."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from decimal import Decimal

from kcli.formats.json_schema.kinds import Difference
from kcli.formats.json_schema.nodes import Node

Pair = tuple[Node, Node]
"""An original and an update."""
Steps = Generator[Pair, list[Difference], list[Difference]]
"""Yields pairs to compare, gets their differences, and returns the differences of its own pair."""
IsCompatible = Callable[[Iterable[Difference]], bool]


def under(path: str, found: Iterable[Difference]) -> list[Difference]:
    """Returns differences with their paths in an outer schema."""
    return [Difference(kind, f"{path}/{inner}" if inner else path) for kind, inner in found]


def compared_at(path: str, original: Node | None, update: Node | None) -> Steps:
    """Compares two schemas that a keyword may have."""
    if original is None and update is None:
        return []
    if original is None:
        return [Difference("SCHEMA_ADDED", path)]
    if update is None:
        return [Difference("SCHEMA_REMOVED", path)]
    return under(path, (yield original, update))


def bound_differences(
    keyword: str, kind: str, original: int | Decimal | None, update: int | Decimal | None
) -> list[Difference]:
    """Compares a keyword with a number."""
    if original == update:
        return []
    if original is None:
        return [Difference(f"{kind}_ADDED", keyword)]
    if update is None:
        return [Difference(f"{kind}_REMOVED", keyword)]
    return [Difference(f"{kind}_{'INCREASED' if original < update else 'DECREASED'}", keyword)]


def rest_differences(keyword: str, kind: str, original: Node | None, update: Node | None) -> Steps:
    """Compares the schemas of unevaluated properties or items. A missing schema permits everything."""
    if original is None and update is None:
        return []
    was_false, is_false = original is not None and original.is_false, update is not None and update.is_false
    if was_false != is_false:
        return [Difference(f"{kind}_{'ADDED' if was_false else 'REMOVED'}", keyword)]
    if original is None or (original.is_empty and update is not None and not update.is_empty):
        return [Difference(f"{kind}_NARROWED", keyword)]
    if update is None or (update.is_empty and not original.is_empty):
        return [Difference(f"{kind}_EXTENDED", keyword)]
    return (yield from compared_at(keyword, original, update))
