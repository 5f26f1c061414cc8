"""The differences between schemas that combine others: `allOf`, `anyOf`, `oneOf` and `not`."""

from __future__ import annotations

from collections.abc import Iterable

from kcli.formats.json_schema.kinds import Difference
from kcli.formats.json_schema.matching import maximum_matching
from kcli.formats.json_schema.nodes import Combined, Criterion, Node, Not
from kcli.formats.json_schema.steps import IsCompatible, Pair, Steps, compared_at, under
from kcli.formats.json_schema.text import write_json


def simplified_pairs(original: Node, update: Node) -> tuple[Iterable[Pair], str | None]:
    """Returns the pairs of which one compatible pair is enough, and the kind of difference that the pair then has.

    This is for a combination and another schema: a value of a member of `anyOf` is a value of the combination.
    """
    match original.rules, update.rules:
        case Combined(), Combined():
            return (), None
        case _, Combined(members=(member,)):
            return ((original, member),), None
        case _, Combined(criterion=Criterion.ANY | Criterion.ONE, members=members):
            return [(original, member) for member in members], "SUM_TYPE_EXTENDED"
        case Combined(members=(member,)), _:
            return ((member, update),), None
        case Combined(criterion=Criterion.ALL, members=members), _:
            return [(member, update) for member in members], "PRODUCT_TYPE_NARROWED"
        case _:
            return (), None


def combined_differences(original: Combined, update: Combined, is_compatible: IsCompatible) -> Steps:
    """Compares two combinations, whose compatible members are matched as one pair each."""
    result = _criterion_differences(original, update)
    if any(difference.kind == "COMBINED_TYPE_CHANGED" for difference in result):
        return result
    originals, updates = _distinct(original.members), _distinct(update.members)
    result += _size_differences(original, update, len(originals), len(updates))
    fits: list[dict[int, list[Difference]]] = []
    for index, member in enumerate(originals):
        path = f"{original.criterion}/{index}"
        fits.append({})
        for position, other in enumerate(updates):
            inner = yield member, other
            if is_compatible(inner):
                fits[index][position] = under(path, inner)
    matching = maximum_matching([list(right) for right in fits])
    for left, right in matching.items():
        result += fits[left][right]
    if len(matching) < min(len(originals), len(updates)):
        result.append(Difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ""))
    return result


def not_differences(original: Not, update: Not, is_compatible: IsCompatible) -> Steps:
    """Compares the excluded schemas in reverse: a value that the new schema excludes must have been excluded before."""
    inner = yield from compared_at("not", update.schema, original.schema)
    return [Difference("NOT_TYPE_NARROWED" if is_compatible(inner) else "NOT_TYPE_EXTENDED", "not")]


def _criterion_differences(original: Combined, update: Combined) -> list[Difference]:
    if original.criterion is update.criterion:
        return []
    was_single, is_single = len(original.members) == 1, len(update.members) == 1
    is_extended = (
        update.criterion is Criterion.ANY
        or (was_single and is_single)
        or (was_single and update.criterion is Criterion.ONE)
        or (is_single and original.criterion is Criterion.ALL)
    )
    return [Difference("COMBINED_TYPE_EXTENDED" if is_extended else "COMBINED_TYPE_CHANGED", "")]


def _size_differences(original: Combined, update: Combined, before: int, after: int) -> list[Difference]:
    if before == after:
        return []
    if before < after:
        kind = "PRODUCT_TYPE_EXTENDED" if update.criterion is Criterion.ALL else "SUM_TYPE_EXTENDED"
    else:
        kind = "PRODUCT_TYPE_NARROWED" if original.criterion is Criterion.ALL else "SUM_TYPE_NARROWED"
    return [Difference(kind, "")]


def _distinct(members: tuple[Node, ...]) -> list[Node]:
    """Returns the members without those that repeat another one."""
    return list({write_json(member.source, is_sorted=True): member for member in reversed(members)}.values())[
        ::-1
    ]
