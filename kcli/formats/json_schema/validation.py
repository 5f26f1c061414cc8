"""Validates values against a schema, with the library jsonschema.

Keywords with expressions run on RE2, and the steps are counted, because a value or a schema may be hostile.
"""

from __future__ import annotations

import decimal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, cast

from kcli.formats.json_schema.bundle import bundled
from kcli.formats.json_schema.documents import Documents
from kcli.formats.json_schema.drafts import Draft
from kcli.formats.json_schema.patterns import finds
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


_STEPS = _Steps()


@dataclass(frozen=True, slots=True)
class ValueValidator:
    """Validates the values of one schema."""

    _validator: Validator

    def check(self, value: object, size_bytes: int) -> None:
        """Raises InvalidValueError if the schema does not permit the value, whose text has `size_bytes`."""
        _STEPS.depth = 0
        _STEPS.left = min(STEPS_MAX, STEPS_AT_LEAST + STEPS_PER_BYTE * size_bytes)
        try:
            error = next(self._validator.iter_errors(value), None)
        except InvalidValueError:
            raise
        except Exception as failure:
            # The library fails for schemas that a draft forbids and Confluent's registry accepts.
            raise InvalidValueError(
                f"the validation failed: {type(failure).__name__}: {failure}"[:MESSAGE_MAX]
            ) from None
        if error is not None:
            place = "/".join(["#", *map(str, error.absolute_path)])
            raise InvalidValueError(f"{place}: {error.message[:MESSAGE_MAX]}")


def value_validator(documents: Documents) -> ValueValidator:
    """Returns the validator of a schema. Raises FormatError for a schema whose values cannot be validated safely."""
    return ValueValidator(_validator_class(documents.main.draft)(bundled(documents)))


@cache
def _validator_class(draft: Draft) -> Callable[[Json], Validator]:
    """Returns the library's validator of a draft, with the keywords of this module."""
    import jsonschema  # imported late, because few values are validated

    base = getattr(jsonschema, _CLASSES[draft])
    keywords = {**base.VALIDATORS, **_KEYWORDS}
    keywords |= {name: _STEPS.counted(keyword) for name, keyword in keywords.items() if name in _COUNTED}
    types = base.TYPE_CHECKER
    if draft is not Draft.DRAFT_4:
        types = types.redefine("integer", _is_integer)
    made: Callable[[Json], Validator] = jsonschema.validators.extend(base, keywords, type_checker=types)
    return made


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
