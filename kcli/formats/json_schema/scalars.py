"""The differences between the keywords of strings, numbers and permitted values."""

from __future__ import annotations

import decimal
from decimal import Decimal

from kcli.formats.json_schema.kinds import Difference
from kcli.formats.json_schema.nodes import EnumValues, NumberRules, StringRules
from kcli.formats.json_schema.steps import bound_differences

# A quotient with more digits than this is no reason for a long calculation: the two numbers are then just different.
_DIVISION = decimal.Context(prec=2_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def string_differences(original: StringRules, update: StringRules) -> list[Difference]:
    """Compares the keywords of strings."""
    result = [
        *bound_differences("maxLength", "MAX_LENGTH", original.max_length, update.max_length),
        *bound_differences("minLength", "MIN_LENGTH", original.min_length, update.min_length),
    ]
    if original.pattern != update.pattern:
        change = "ADDED" if original.pattern is None else "REMOVED" if update.pattern is None else "CHANGED"
        result.append(Difference(f"PATTERN_{change}", "pattern"))
    return result


def number_differences(original: NumberRules, update: NumberRules) -> list[Difference]:
    """Compares the keywords of numbers."""
    result = [
        *bound_differences("maximum", "MAXIMUM", original.maximum, update.maximum),
        *bound_differences("minimum", "MINIMUM", original.minimum, update.minimum),
        *bound_differences(
            "exclusiveMaximum", "EXCLUSIVE_MAXIMUM", original.exclusive_maximum, update.exclusive_maximum
        ),
        *bound_differences(
            "exclusiveMinimum", "EXCLUSIVE_MINIMUM", original.exclusive_minimum, update.exclusive_minimum
        ),
        *_multiple_differences(original.multiple_of, update.multiple_of),
    ]
    if original.is_integer != update.is_integer:
        result.append(Difference("TYPE_EXTENDED" if original.is_integer else "TYPE_NARROWED", ""))
    return result


def _multiple_differences(original: Decimal | None, update: Decimal | None) -> list[Difference]:
    if original == update:
        return []
    if original is None:
        change = "ADDED"
    elif update is None:
        change = "REMOVED"
    elif is_multiple(update, original):
        change = "EXPANDED"
    elif is_multiple(original, update):
        change = "REDUCED"
    else:
        change = "CHANGED"
    return [Difference(f"MULTIPLE_OF_{change}", "multipleOf")]


def is_multiple(number: Decimal, divisor: Decimal) -> bool:
    """Whether a number is a multiple of another one. Numbers of very different sizes are none."""
    try:
        return not _DIVISION.remainder(number, divisor)
    except decimal.InvalidOperation:
        return False


def enum_differences(original: EnumValues, update: EnumValues) -> list[Difference]:
    """Compares the permitted values."""
    if original.values == update.values:
        return []
    if original.values <= update.values:
        change = "EXTENDED"
    elif original.values >= update.values:
        change = "NARROWED"
    else:
        change = "CHANGED"
    return [Difference(f"ENUM_ARRAY_{change}", "enum")]
