"""Finds the differences between two schemas, as Confluent's registry does.

A comparison of two nodes is a generator. It yields the pairs of nodes inside them, and gets their differences. One loop
runs the generators, because schemas refer to one another in chains that are longer than Python's stack. The loop
remembers the result of each pair. A pair that is inside itself, because schemas are recursive, is assumed to be
compatible. If the pair is then incompatible, the loop starts again with what it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kcli.formats.codec import FormatError
from kcli.formats.json_schema.arrays import array_differences
from kcli.formats.json_schema.combinations import combined_differences, not_differences, simplified_pairs
from kcli.formats.json_schema.kinds import Difference
from kcli.formats.json_schema.nodes import (
    ArrayRules,
    Combined,
    ConstValue,
    EnumValues,
    Node,
    Not,
    NumberRules,
    ObjectRules,
    StringRules,
)
from kcli.formats.json_schema.objects import object_differences
from kcli.formats.json_schema.scalars import enum_differences, number_differences, string_differences
from kcli.formats.json_schema.steps import IsCompatible, Pair, Steps

PAIRS_MAX = 100_000
"""The most pairs of schemas in a comparison, which takes about 20 µs a pair."""
DIFFERENCES_MAX = 1_000
"""The most differences of a pair. A recursive schema can have one difference on more paths than memory can keep."""
CHARACTERS_MAX = 100_000_000
"""The most characters of the paths in all lists of differences, because a path is copied for each schema around it."""
CHARACTERS_OF_DIFFERENCE = 100
"""A difference costs as much time as this many characters, although its path is short."""

_BYTES = "bytes"


def differences(original: Node, update: Node, compatible: frozenset[str]) -> list[Difference]:
    """Returns the differences, also the compatible ones. Raises FormatError for schemas that are too complex."""
    known: dict[Pair, list[Difference]] = {}
    budget = _Budget()
    while True:
        comparison = _Comparison(compatible, known, budget)
        result = comparison.run(original, update)
        incompatible = comparison.incompatible_pairs()
        if not comparison.assumes or incompatible.keys() == known.keys():
            return result
        known = incompatible


@dataclass(slots=True)
class _Budget:
    """The work that a comparison may still do, in all passes."""

    pairs: int = field(default_factory=lambda: PAIRS_MAX)
    characters: int = field(default_factory=lambda: CHARACTERS_MAX)

    def take_pair(self) -> None:
        self.pairs -= 1
        if self.pairs < 0:
            raise FormatError(
                f"the schemas are too complex: more than {PAIRS_MAX} pairs of schemas to compare"
            )

    def take_differences(self, found: Sequence[Difference]) -> None:
        if not found:
            return
        self.characters -= (
            sum([len(difference.path) for difference in found]) + len(found) * CHARACTERS_OF_DIFFERENCE
        )
        if self.characters < 0:
            raise FormatError("the schemas are too complex: too many differences on long paths")


@dataclass(slots=True)
class _Comparison:
    """One pass. `known` are the pairs that are incompatible for certain, from the passes before."""

    compatible: frozenset[str]
    known: dict[Pair, list[Difference]]
    budget: _Budget
    assumes: bool = False
    _results: dict[Pair, list[Difference]] = field(default_factory=dict)
    _running: set[Pair] = field(default_factory=set)

    def run(self, original: Node, update: Node) -> list[Difference]:
        stack = [self._started((original.referred, update.referred))]
        result: list[Difference] | None = None
        while stack:
            pair, steps = stack[-1]
            try:
                inner = next(steps) if result is None else steps.send(result)
            except StopIteration as stop:
                stack.pop()
                self._running.discard(pair)
                result = self._results[pair] = self._bounded(stop.value)
                continue
            inner = (inner[0].referred, inner[1].referred)
            result = self._result(inner)
            if result is None:
                stack.append(self._started(inner))
        assert result is not None, "the last pair of the stack has a result"
        return result

    def incompatible_pairs(self) -> dict[Pair, list[Difference]]:
        return {pair: found for pair, found in self._results.items() if not self._is_compatible(found)}

    def _started(self, pair: Pair) -> tuple[Pair, Steps]:
        self.budget.take_pair()
        self._running.add(pair)
        return pair, _pair_differences(pair[0], pair[1], self._is_compatible)

    def _result(self, pair: Pair) -> list[Difference] | None:
        """Returns the result of a pair, or None if the pair must be compared now."""
        result = self._results.get(pair)
        if result is None and pair in self._running:
            result = self.known.get(pair)
            if result is None:
                self.assumes = True
                return []
        return result

    def _is_compatible(self, found: Iterable[Difference]) -> bool:
        return all(difference.kind in self.compatible for difference in found)

    def _bounded(self, found: list[Difference]) -> list[Difference]:
        """Returns the differences, the incompatible ones first if there are too many."""
        self.budget.take_differences(found)
        if len(found) <= DIFFERENCES_MAX:
            return found
        return sorted(found, key=lambda difference: difference.kind in self.compatible)[:DIFFERENCES_MAX]


def _pair_differences(original: Node, update: Node, is_compatible: IsCompatible) -> Steps:
    pairs, kind = simplified_pairs(original, update)
    for pair in pairs:
        inner = yield pair
        if is_compatible(inner):
            return inner if kind is None else [*inner, Difference(kind, "")]
    if original.kind is not update.kind:
        types = (original.annotations.connect_type, update.annotations.connect_type)
        # Connect's converter writes decimals in several types, which stand for the same bytes.
        is_accepted = original.is_false or update.is_empty or types == (_BYTES, _BYTES)
        return [] if is_accepted else [Difference("TYPE_CHANGED", "")]
    result = _annotation_differences(original, update)
    match original.rules, update.rules:
        case ObjectRules() as before, ObjectRules() as after:
            result += yield from object_differences(before, after, is_compatible)
        case ArrayRules() as before, ArrayRules() as after:
            result += yield from array_differences(before, after, is_compatible)
        case Combined() as before, Combined() as after:
            result += yield from combined_differences(before, after, is_compatible)
        case Not() as before, Not() as after:
            result += yield from not_differences(before, after, is_compatible)
        case StringRules() as before, StringRules() as after:
            result += string_differences(before, after)
        case NumberRules() as before, NumberRules() as after:
            result += number_differences(before, after)
        case EnumValues() as before, EnumValues() as after:
            result += enum_differences(before, after)
        case ConstValue() as before, ConstValue() as after if before != after:
            result.append(Difference("ENUM_ARRAY_CHANGED", "const"))
    return result


def _annotation_differences(original: Node, update: Node) -> list[Difference]:
    before, after = original.annotations, update.annotations
    return [
        Difference(kind, "")
        for kind, is_changed in (
            ("ID_CHANGED", before.id != after.id),
            ("TITLE_CHANGED", before.title != after.title),
            ("DESCRIPTION_CHANGED", before.description != after.description),
            ("DEFAULT_CHANGED", before.default != after.default),
        )
        if is_changed
    ]
