"""Copies a schema and all schemas that it refers to to one document, for the validation of values.

Each reference of the copy is a pointer, so the library that validates never looks for another document. Schemas that
the library could not apply safely are refused: those whose expressions RE2 cannot run, and those that apply themselves
to the same value without end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from kcli.formats.codec import FormatError
from kcli.formats.json_schema.documents import Document, Documents, Place
from kcli.formats.json_schema.patterns import check_runs
from kcli.formats.json_schema.text import Json

DEPTH_MAX = 50
"""The most schemas within each other that apply to one value, because the library uses a few frames for each."""

# The keywords whose schemas apply to the same value as the schema that has them.
_SAME_VALUE = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependencies", "dependentSchemas", "$ref"}
)
_SETS = frozenset({"dependencies", "dependentSchemas", "patternProperties", "properties"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "items", "prefixItems"})
_SINGLE = frozenset(
    {
        *("not", "if", "then", "else", "propertyNames", "additionalProperties", "unevaluatedProperties"),
        *("items", "additionalItems", "contains", "unevaluatedItems"),
    }
)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Copies have no names, and only the schemas that are referred to are copied from the sets of definitions.
_NAMES = frozenset(
    {"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$schema", "$defs", "definitions"}
)


def bundled(documents: Documents) -> Json:
    """Returns the copy. Raises FormatError."""
    copier = _Copier(documents)
    copy = copier.copied()
    copier.check_depth()
    return copy


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a document that is being copied. `owner` is the definition that contains the part.

    `depth` counts the schemas around the part that apply to the same value. It is None inside of a property or an item.
    """

    document: Document
    owner: str
    depth: int | None

    def inner(self, keyword: str) -> _Part:
        depth = None if self.depth is None or keyword not in _SAME_VALUE else self.depth + 1
        return _Part(self.document, self.owner, depth)


@dataclass(slots=True)
class _Copier:
    """Copies schemas to definitions. `_applied` has the definitions that a definition applies to the same value."""

    documents: Documents
    _names: dict[int, str] = field(default_factory=dict)
    _pending: deque[tuple[str, Place]] = field(default_factory=deque)
    _keywords: set[str] = field(default_factory=set)
    _applied: dict[str, dict[str, int]] = field(default_factory=dict)

    def copied(self) -> Json:
        main = self.documents.main
        definitions: dict[str, Json] = {}
        root = self._name(Place(main.root, main, "#"))
        while self._pending:
            name, place = self._pending.popleft()
            self._applied[name] = {}
            definitions[name] = self._copy(place.schema, _Part(place.document, name, 0))
        if {"unevaluatedProperties", "patternProperties"} <= self._keywords:
            # The library runs these expressions on an engine that may take exponential time.
            raise FormatError(
                "values of a schema with unevaluatedProperties and patternProperties are not validated"
            )
        return {"$ref": _pointer(root), "$defs": definitions}

    def check_depth(self) -> None:
        """Raises FormatError if too many schemas apply to one value within each other."""
        depths: dict[str, int] = {}
        try:
            order = list(TopologicalSorter(self._applied).static_order())
        except CycleError:
            raise FormatError(
                "values of a schema that applies itself to the same value are not validated"
            ) from None
        for name in order:
            depths[name] = max(
                [depth + depths[other] for other, depth in self._applied[name].items()], default=0
            )
            if depths[name] > DEPTH_MAX:
                raise FormatError(
                    f"values are not validated: more than {DEPTH_MAX} schemas apply within each other"
                )

    def _name(self, place: Place) -> str:
        """Returns the name of the copy of a schema."""
        name = self._names.get(id(place.schema))
        if name is None:
            name = self._names[id(place.schema)] = str(len(self._names))
            self._pending.append((name, place))
        return name

    def _copy(self, schema: Json, part: _Part) -> Json:
        if not isinstance(schema, dict):
            return schema
        is_modern = part.document.draft.is_modern
        if "$ref" in schema and not is_modern:
            return self._reference(schema, "$ref", part)
        self._keywords |= schema.keys()
        _check_patterns(schema)
        copy: dict[str, Json] = {}
        for keyword, value in schema.items():
            inner = part.inner(keyword)
            if keyword in _SETS and isinstance(value, dict):
                copy[keyword] = {name: self._copy(item, inner) for name, item in value.items()}
            elif keyword in _LISTS and isinstance(value, list):
                copy[keyword] = [self._copy(item, inner) for item in value]
            elif keyword in _SINGLE:
                copy[keyword] = self._copy(value, inner)
            elif keyword not in _NAMES and keyword not in _REFERENCES:
                copy[keyword] = value
        names = [name for name in _REFERENCES if is_modern and name in schema]
        return _with_references(copy, [self._reference(schema, name, part) for name in names])

    def _reference(self, schema: dict[str, Json], keyword: str, part: _Part) -> dict[str, Json]:
        reference = schema[keyword]
        if not isinstance(reference, str):
            raise FormatError(f"Invalid JSON: {keyword}: expected a text")
        name = self._name(self.documents.target(reference, schema, part.document))
        if part.depth is not None:
            known = self._applied[part.owner].get(name, 0)
            self._applied[part.owner][name] = max(known, part.depth + 1)
        return {"$ref": _pointer(name)}


def _pointer(name: str) -> str:
    return f"#/$defs/{name}"


def _with_references(copy: dict[str, Json], references: list[dict[str, Json]]) -> dict[str, Json]:
    """Adds references to a copy. A schema has one `$ref`, so other references become members of `allOf`."""
    if len(references) == 1:
        return {**copy, **references[0]}
    members = copy.get("allOf", [])
    if not references or not isinstance(members, list):
        return copy
    return {**copy, "allOf": [*members, *references]}


def _check_patterns(schema: dict[str, Json]) -> None:
    """Raises FormatError if a schema has an expression that cannot run, so that no value needs it first."""
    pattern, patterns = schema.get("pattern"), schema.get("patternProperties")
    if isinstance(pattern, str):
        check_runs(pattern)
    if isinstance(patterns, dict):
        for name in patterns:
            check_runs(name)
