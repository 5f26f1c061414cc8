"""The kinds of differences between two schemas, the compatible ones, and the sentences of Confluent's registry.

A kind is the error type of Confluent's registry. The original schema is the writer's, and the update is the reader's.
"""

from __future__ import annotations

from typing import NamedTuple

from kcli.formats.schemas import CompatibilityPolicy, Incompatibility

_UPPER = ("MAX_LENGTH", "MAXIMUM", "EXCLUSIVE_MAXIMUM", "MAX_PROPERTIES", "MAX_ITEMS", "MAX_CONTAINS")
_LOWER = ("MIN_LENGTH", "MINIMUM", "EXCLUSIVE_MINIMUM", "MIN_PROPERTIES", "MIN_ITEMS", "MIN_CONTAINS")
_RESTS = ("ADDITIONAL_PROPERTIES", "UNEVALUATED_PROPERTIES", "ADDITIONAL_ITEMS", "UNEVALUATED_ITEMS")

STRICT = frozenset(
    {
        *(f"{bound}_{change}" for bound in _UPPER for change in ("INCREASED", "REMOVED")),
        *(f"{bound}_{change}" for bound in _LOWER for change in ("DECREASED", "REMOVED")),
        *(f"{rest}_{change}" for rest in _RESTS for change in ("ADDED", "EXTENDED")),
        "ID_CHANGED",
        "DESCRIPTION_CHANGED",
        "TITLE_CHANGED",
        "DEFAULT_CHANGED",
        "SCHEMA_REMOVED",
        "TYPE_EXTENDED",
        "PATTERN_REMOVED",
        "MULTIPLE_OF_REDUCED",
        "MULTIPLE_OF_REMOVED",
        "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED",
        "REQUIRED_ATTRIBUTE_REMOVED",
        "DEPENDENCY_ARRAY_NARROWED",
        "DEPENDENCY_ARRAY_REMOVED",
        "DEPENDENCY_SCHEMA_REMOVED",
        "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "UNIQUE_ITEMS_REMOVED",
        "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
        "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL",
        "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "ENUM_ARRAY_EXTENDED",
        "COMBINED_TYPE_EXTENDED",
        "PRODUCT_TYPE_NARROWED",
        "SUM_TYPE_EXTENDED",
        "NOT_TYPE_NARROWED",
    }
)
"""The compatible kinds under the policy STRICT."""

LENIENT = STRICT | {
    "ADDITIONAL_PROPERTIES_NARROWED",
    "ADDITIONAL_PROPERTIES_REMOVED",
    "UNEVALUATED_PROPERTIES_NARROWED",
    "UNEVALUATED_PROPERTIES_REMOVED",
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
}
"""The compatible kinds under the policy LENIENT."""


class Difference(NamedTuple):
    """A difference between two schemas. `path` is relative to them, and empty for the schemas themselves."""

    kind: str
    path: str

    @property
    def full_path(self) -> str:
        return f"#/{self.path}"


def compatible_kinds(policy: CompatibilityPolicy) -> frozenset[str]:
    """Returns the kinds of differences that a policy permits."""
    return LENIENT if policy is CompatibilityPolicy.LENIENT else STRICT


def incompatibility(difference: Difference) -> Incompatibility:
    """Returns the message of Confluent's registry, which really ends with another quotation mark than it begins."""
    path = difference.full_path
    sentence = _SENTENCES.get(difference.kind, "").replace("%(path)s", path)
    text = f'{{errorType:"{difference.kind}", description:"{sentence}\'}}'
    return Incompatibility(difference.kind, path, text)


_KEYWORD = "The keyword at path '%(path)s' in the %(reader)s schema is not present in the %(writer)s schema"
_MORE = (
    "The value at path '%(path)s' in the %(reader)s schema is more than its value in the %(writer)s schema"
)
_LESS = (
    "The value at path '%(path)s' in the %(reader)s schema is less than its value in the %(writer)s schema"
)
_OTHER_VALUE = "The value at path '%(path)s' is different between the %(reader)s and %(writer)s schema"
_FEWER = (
    "An array or combined type at path '%(path)s' has fewer elements in the %(reader)s schema than the "
    "%(writer)s schema"
)
_LONGER = (
    "An array or combined type at path '%(path)s' has more elements in the %(reader)s schema than the "
    "%(writer)s schema"
)
_OTHER_TYPE = "A type at path '%(path)s' is different between the %(reader)s schema and the %(writer)s schema"
_OPEN = (
    "The %(reader)s schema has an open content model and has a property or item at path '%(path)s' which is missing "
    "in the %(writer)s schema"
)
_UNOPEN = (
    "The %(reader)s schema has an unopen content model and has a required property at path '%(path)s' which is "
    "missing in the %(writer)s schema"
)
_CLOSED = (
    "The %(reader)s has a closed content model and is missing a property or item present at path '%(path)s' in the "
    "%(writer)s schema"
)
_REMOVED_UNCOVERED = (
    "A property or item is missing in the %(reader)s schema but present at path '%(path)s' in the %(writer)s schema "
    "and is not covered by its partially open content model"
)
_ADDED_UNCOVERED = (
    "The %(reader)s schema has a property or item at path '%(path)s' which is missing in the %(writer)s schema and "
    "is not covered by its partially open content model"
)

_SENTENCES = {
    **{f"{bound}_ADDED": _KEYWORD for bound in (*_UPPER, *_LOWER)},
    **{f"{rest}_REMOVED": _KEYWORD for rest in _RESTS},
    "MULTIPLE_OF_ADDED": _KEYWORD,
    "PATTERN_ADDED": _KEYWORD,
    "REQUIRED_ATTRIBUTE_ADDED": _KEYWORD,
    "DEPENDENCY_ARRAY_ADDED": _KEYWORD,
    "DEPENDENCY_SCHEMA_ADDED": _KEYWORD,
    "UNIQUE_ITEMS_ADDED": _KEYWORD,
    **{f"{bound}_INCREASED": _MORE for bound in _LOWER},
    "MULTIPLE_OF_EXPANDED": _MORE,
    **{f"{bound}_DECREASED": _LESS for bound in _UPPER},
    "PATTERN_CHANGED": _OTHER_VALUE,
    "MULTIPLE_OF_CHANGED": _OTHER_VALUE,
    "DEPENDENCY_ARRAY_CHANGED": _OTHER_VALUE,
    **{f"{rest}_NARROWED": _FEWER for rest in _RESTS},
    "ENUM_ARRAY_NARROWED": _FEWER,
    "SUM_TYPE_NARROWED": _FEWER,
    "DEPENDENCY_ARRAY_EXTENDED": _LONGER,
    "PRODUCT_TYPE_EXTENDED": _LONGER,
    "NOT_TYPE_EXTENDED": _LONGER,
    "TYPE_CHANGED": _OTHER_TYPE,
    "TYPE_NARROWED": _OTHER_TYPE,
    "COMBINED_TYPE_CHANGED": _OTHER_TYPE,
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": _OTHER_TYPE,
    "ENUM_ARRAY_CHANGED": _OTHER_TYPE,
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": _UNOPEN,
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED_UNCOVERED,
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _REMOVED_UNCOVERED,
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED_UNCOVERED,
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _ADDED_UNCOVERED,
}
