"""Validates values against a schema, with the library jsonschema.

The schema is copied to one document, in which each reference is a pointer, so the library never looks for a document.
Keywords with expressions run on RE2, and the steps are counted, because a value or a schema may be hostile.
"""

from __future__ import annotations

import decimal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, cast

from kcli.formats.codec import FormatError
from kcli.formats.json_schema.documents import Document, Documents, Place
from kcli.formats.json_schema.drafts import Draft
from kcli.formats.json_schema.patterns import check_runs, finds
from kcli.formats.json_schema.scalars import is_multiple
from kcli.formats.json_schema.text import Json, write_json

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

STEPS_MAX = 1_000_000
"""The most steps of a validation, of about 10 µs each."""
STEPS_AT_LEAST = 10_000
STEPS_PER_BYTE = 100
"""A value with more steps than this for each of its bytes has a schema that repeats its work."""
DEPTH_MAX = 100
"""The most keywords within each other, because each takes about five frames of Python's 1000."""
MESSAGE_MAX = 300
"""The most characters of a message of the library, which may contain the value."""

_SETS = frozenset({"dependencies", "dependentSchemas", "patternProperties", "properties"})
_SINGLE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "items", "prefixItems"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES = frozenset(
    {"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$schema", "$defs", "definitions"}
)
# These keywords apply schemas, so chains of them may repeat work or be as deep as the value.
_COUNTED = frozenset(
    {
        *("$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies"),
        *(
            "properties",
            "patternProperties",
            "additionalProperties",
            "propertyNames",
            "unevaluatedProperties",
        ),
        *("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"),
    }
)
_CLASSES = {
    Draft.DRAFT_4: "Draft4Validator",
    Draft.DRAFT_6: "Draft6Validator",
    Draft.DRAFT_7: "Draft7Validator",
    Draft.DRAFT_2019_09: "Draft201909Validator",
    Draft.DRAFT_2020_12: "Draft202012Validator",
}

_Keyword = Callable[["Validator", object, object, Mapping[str, object]], Iterator["ValidationError"]]


class InvalidValueError(ValueError):
    """Raised for a value that a schema does not permit. The message names the place and the reason."""


class _Steps(threading.local):
    """The steps that are left for a value, and the keywords that are being applied within each other, in a thread."""

    left = 0
    depth = 0

    def counted(self, keyword: _Keyword) -> _Keyword:
        """Returns a keyword of the library that takes a step."""

        def counted(
            validator: Validator, value: object, instance: object, schema: Mapping[str, object]
        ) -> Iterator[ValidationError]:
            self.left -= 1
            if self.left < 0:
                raise InvalidValueError("the validation takes too many steps")
            if self.depth == DEPTH_MAX:
                raise InvalidValueError("the value or its schema is nested too deeply")
            self.depth += 1
            try:
                yield from keyword(validator, value, instance, schema) or ()
            finally:
                self.depth -= 1

        return counted


@dataclass(frozen=True, slots=True)
class ValueValidator:
    """Validates the values of one schema."""

    _validator: Validator
    _steps: _Steps

    def check(self, value: object, size_bytes: int) -> None:
        """Raises InvalidValueError if the schema does not permit the value, whose text has `size_bytes`."""
        self._steps.left = min(STEPS_MAX, STEPS_AT_LEAST + STEPS_PER_BYTE * size_bytes)
        error = next(self._validator.iter_errors(value), None)
        if error is not None:
            place = "/".join(["#", *map(str, error.absolute_path)])
            raise InvalidValueError(f"{place}: {error.message[:MESSAGE_MAX]}")


def value_validator(documents: Documents) -> ValueValidator:
    """Returns the validator of a schema. Raises FormatError for a schema whose values cannot be validated safely."""
    import jsonschema  # imported late, because few values are validated

    draft = documents.main.draft
    steps = _Steps()
    base = getattr(jsonschema, _CLASSES[draft])
    keywords = {**base.VALIDATORS, **_KEYWORDS}
    keywords |= {name: steps.counted(keyword) for name, keyword in keywords.items() if name in _COUNTED}
    types = (
        base.TYPE_CHECKER if draft is Draft.DRAFT_4 else base.TYPE_CHECKER.redefine("integer", _is_integer)
    )
    validator = jsonschema.validators.extend(base, keywords, type_checker=types)
    return ValueValidator(validator(_Copier(documents).copied()), steps)


@dataclass(slots=True)
class _Copier:
    """Copies the schemas that a document reaches to one document."""

    documents: Documents
    _names: dict[int, str] = field(default_factory=dict)
    _pending: deque[tuple[str, Place]] = field(default_factory=deque)
    _keywords: set[str] = field(default_factory=set)

    def copied(self) -> Json:
        main = self.documents.main
        definitions: dict[str, Json] = {}
        root = self._pointer(Place(main.root, main, "#"))
        while self._pending:
            name, place = self._pending.popleft()
            definitions[name] = self._copy(place.schema, place.document)
        if {"unevaluatedProperties", "patternProperties"} <= self._keywords:
            # The library runs these expressions on an engine that may take exponential time.
            raise FormatError(
                "values of a schema with unevaluatedProperties and patternProperties are not validated"
            )
        return {"$ref": root, "$defs": definitions}

    def _pointer(self, place: Place) -> str:
        """Returns the pointer to the copy of a schema."""
        name = self._names.get(id(place.schema))
        if name is None:
            name = self._names[id(place.schema)] = str(len(self._names))
            self._pending.append((name, place))
        return f"#/$defs/{name}"

    def _copy(self, schema: Json, document: Document) -> Json:
        if not isinstance(schema, dict):
            return schema
        self._keywords |= schema.keys()
        _check_patterns(schema)
        copy: dict[str, Json] = {}
        for keyword, value in schema.items():
            if keyword in _REFERENCES and isinstance(value, str):
                self._add_reference(copy, self._pointer(self.documents.target(value, schema, document)))
            elif keyword in _SETS and isinstance(value, dict):
                copy[keyword] = {name: self._copy(item, document) for name, item in value.items()}
            elif keyword in _LISTS and isinstance(value, list):
                copy[keyword] = [self._copy(item, document) for item in value]
            elif keyword in _SINGLE:
                copy[keyword] = self._copy(value, document)
            elif keyword not in _NAMES:
                copy[keyword] = value
        return copy

    def _add_reference(self, copy: dict[str, Json], pointer: str) -> None:
        """Adds a reference. A second reference of a schema becomes a member of `allOf`."""
        if "$ref" not in copy:
            copy["$ref"] = pointer
        else:
            others = copy.setdefault("allOf", [])
            assert isinstance(others, list), "the builder has checked it"
            others.append({"$ref": pointer})


def _check_patterns(schema: dict[str, Json]) -> None:
    """Raises FormatError if a schema has an expression that cannot run, so that no value needs it first."""
    pattern, patterns = schema.get("pattern"), schema.get("patternProperties")
    if isinstance(pattern, str):
        check_runs(pattern)
    if isinstance(patterns, dict):
        for name in patterns:
            check_runs(name)


def _is_integer(_checker: object, value: object) -> bool:
    """Whether a number is an integer. Since draft 6 also 1.0 is one."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, Decimal) and _has_no_fraction(value))


def _has_no_fraction(value: Decimal) -> bool:
    exponent = value.normalize(_EXACT).as_tuple().exponent
    return isinstance(exponent, int) and exponent >= 0


_EXACT = decimal.Context(prec=2_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def _error(message: str) -> ValidationError:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)


def _pattern(
    _validator: Validator, pattern: object, instance: object, _schema: Mapping[str, object]
) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not finds(cast(str, pattern), instance):
        yield _error(f"the text does not match {pattern!r}")


def _pattern_properties(
    validator: Validator, patterns: object, instance: object, _schema: Mapping[str, object]
) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, subschema in cast(dict[str, object], patterns).items():
            for name, value in instance.items():
                if finds(pattern, name):
                    yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Validator, rest: object, instance: object, schema: Mapping[str, object]
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    named, patterns = (
        cast(dict[str, object], schema.get("properties", {})),
        schema.get("patternProperties", {}),
    )
    for name, value in instance.items():
        if name in named or any(finds(pattern, name) for pattern in cast(dict[str, object], patterns)):
            continue
        if rest is False:
            yield _error(f"the property {name!r} is not permitted")
        else:
            yield from validator.descend(value, rest, path=name)


def _unique_items(
    _validator: Validator, is_unique: object, instance: object, _schema: Mapping[str, object]
) -> Iterator[ValidationError]:
    if is_unique and isinstance(instance, list):
        texts = {write_json(_plain_numbers(item), is_sorted=True) for item in instance}
        if len(texts) < len(instance):
            yield _error("the array has an item twice")


def _plain_numbers(value: Json) -> Json:
    """Returns a value whose equal numbers have equal texts: 1.0 becomes 1."""
    match value:
        case Decimal():
            return value.normalize(_EXACT)
        case int() if not isinstance(value, bool):
            return Decimal(value).normalize(_EXACT)
        case list():
            return [_plain_numbers(item) for item in value]
        case dict():
            return {name: _plain_numbers(item) for name, item in value.items()}
        case _:
            return value


def _multiple_of(
    _validator: Validator, divisor: object, instance: object, _schema: Mapping[str, object]
) -> Iterator[ValidationError]:
    is_number = isinstance(instance, int | Decimal) and not isinstance(instance, bool)
    if is_number and not is_multiple(Decimal(cast(Decimal, instance)), Decimal(cast(Decimal, divisor))):
        yield _error(f"{instance} is not a multiple of {divisor}")


_KEYWORDS: dict[str, _Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
}
