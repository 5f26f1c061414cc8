"""Infers the columns of JSON values from a sample of records.

The types are those of Spark's own inference: bigint, double, decimal, boolean, string, struct and array. One record
must not change the columns that a query sees of all other records. So a value that is not a JSON object has no effect,
and these rules apply where Spark would fail or would change the type of a column:

* If at least SETTLED of the values of a field have one type, this is the type of the field. Records with a value of
  another type then do not parse. If no type has this share, the field is text.
* Names become unique by the rule of `column_names`. The name that most records have stays unchanged.
* At most MAX_COLUMNS names are in the schema: the names that most records have. Names inside other names count too.
* Objects and arrays inside MAX_DEPTH others are text.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from kcli.model.java_text import parse_long
from kcli.spark.jobs.records.column_names import folded
from kcli.spark.jobs.shared.errors import JobError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

SETTLED = 3 / 4
"""The share of values with one type from which on values of other types are errors. Below it, the field is text."""

MAX_COLUMNS = 1000
"""The most names in a schema, because Spark's planning time grows with the number of names."""

MAX_COUNTED = 50 * MAX_COLUMNS
"""The most names whose values are counted at a time. The rarest names are forgotten, to bound the memory."""

MAX_DEPTH = 32
"""The most objects and arrays inside each other that become columns. Spark's planner recurses once for each level."""

MAX_DIGITS = 1000
"""The most characters of a number, because Spark's JSON parser refuses longer numbers."""

DECIMAL_DIGITS = 38
"""The most digits of Spark's decimals."""

LONG_DECIMAL_DIGITS = 20
"""The digits of the decimal that holds every bigint."""


@dataclass(frozen=True, slots=True)
class _Integer:
    """An integer of a JSON text. `digits` is 0 if a bigint holds the integer."""

    digits: int


JsonValue: TypeAlias = "bool | float | str | _Integer | list[JsonValue] | dict[str, JsonValue] | None"


@dataclass(slots=True, eq=False)
class _Field:
    """The values that one field has in the sample: how many of each kind, and their parts."""

    kinds: Counter[str] = field(default_factory=Counter)
    digits: int = 0
    """The most digits of an integer that a bigint cannot hold."""
    fields: dict[str, _Field] = field(default_factory=dict)
    """The fields of all objects, by name."""
    items: _Field | None = None
    """The items of all arrays."""

    @property
    def count(self) -> int:
        return self.kinds.total()

    def objects(self) -> Iterator[_Field]:
        """Yields this field and the items of its arrays: the places that can have fields."""
        place: _Field | None = self
        while place is not None:
            yield place
            place = place.items


def inferred(values: Iterable[bytes]) -> StructType:
    """Returns the columns of JSON values. Raises JobError if no value is a JSON object with a field."""
    whole = _Field()
    counted = 0
    for value in values:
        root = _parsed(value)
        if isinstance(root, dict):
            counted += _add(whole, root, 0)
        if counted > MAX_COUNTED:
            counted = _forget_rare(whole)
    _forget_rare(whole)
    if not whole.fields:
        raise JobError("no schema can be inferred, because there is no JSON object: use --value-schema")
    return _struct(whole.fields)


def _parsed(value: bytes) -> JsonValue:
    """Parses a JSON text. Returns None for a text that is not JSON or that Spark's parser refuses."""
    try:
        document: JsonValue = json.loads(
            value.decode(), parse_int=_integer, parse_float=_float, parse_constant=_refused
        )
    except (ValueError, RecursionError):
        return None
    return document


def _integer(text: str) -> _Integer:
    digits = len(text.removeprefix("-"))
    if digits > MAX_DIGITS:
        raise ValueError
    return _Integer(0 if digits < LONG_DECIMAL_DIGITS and _is_long(text) else digits)


def _float(text: str) -> float:
    if len(text) > MAX_DIGITS:
        raise ValueError
    return 0.0  # only the type of a value matters


def _refused(constant: str) -> float:
    raise ValueError(constant)  # NaN and Infinity are not JSON


def _add(seen: _Field, value: JsonValue, depth: int) -> int:
    """Counts a value of a field, with its parts. Returns the number of names that are new."""
    kind = _kind(value, depth)
    seen.kinds[kind] += 1
    new = 0
    if isinstance(value, _Integer):
        seen.digits = max(seen.digits, value.digits)
    elif isinstance(value, dict) and kind == "object":
        before = len(seen.fields)
        for name, member in value.items():
            new += _add(seen.fields.setdefault(name, _Field()), member, depth + 1)
        new += len(seen.fields) - before
    elif isinstance(value, list) and kind == "array":
        seen.items = seen.items or _Field()
        for element in value:
            new += _add(seen.items, element, depth + 1)
    return new


def _kind(value: JsonValue, depth: int) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case _Integer():
            return "integer"
        case float():
            return "double"
        case dict() if depth < MAX_DEPTH:
            return "object"
        case list() if depth < MAX_DEPTH:
            return "array"
        case _:
            return "string"


def _forget_rare(whole: _Field) -> int:
    """Keeps the MAX_COLUMNS names that most records have. Returns the number of kept names.

    A name inside another name is kept only if the other name is kept.
    """
    survivors: set[_Field] = set()
    waiting = [(-child.count, 0, name, id(child), child) for name, child in whole.fields.items()]
    heapq.heapify(waiting)
    while waiting and len(survivors) < MAX_COLUMNS:
        rank, depth, _, _, leaf = heapq.heappop(waiting)
        survivors.add(leaf)
        for place in leaf.objects():
            for name, child in place.fields.items():
                # An array may have more items than there are records. So no name comes before the name around it.
                heapq.heappush(waiting, (max(rank, -child.count), depth + 1, name, id(child), child))
    _keep(whole, survivors)
    return len(survivors)


def _keep(seen: _Field, survivors: set[_Field]) -> None:
    for place in seen.objects():
        place.fields = {name: child for name, child in place.fields.items() if child in survivors}
        for child in place.fields.values():
            _keep(child, survivors)


def _struct(fields: Mapping[str, _Field]) -> StructType:
    """Returns the struct of an object, in the order of its names.

    Of names that differ only in case, the name that most records have is the first, so that it stays unchanged.
    """
    from pyspark.sql.types import StructField, StructType

    ordered = sorted(fields.items(), key=lambda item: (folded(item[0]), -item[1].count, item[0]))
    return StructType([StructField(name, _type(child)) for name, child in ordered])


def _type(seen: _Field) -> DataType:
    """Returns the type of a field. Text can hold every JSON value, as the record contains it."""
    from pyspark.sql.types import ArrayType, BooleanType, StringType

    match _settled(seen):
        case "number":
            return _number(seen)
        case "boolean":
            return BooleanType()
        case "object" if seen.fields:
            return _struct(seen.fields)
        case "array":
            assert seen.items is not None, "an array has items, which may be none"
            return ArrayType(_type(seen.items))
        case _:
            return StringType()


def _settled(seen: _Field) -> str:
    """Returns the kind that SETTLED of the values of a field have, or else `string`."""
    kinds = Counter(seen.kinds)
    kinds["number"] = kinds.pop("integer", 0) + kinds.pop("double", 0)
    kinds.pop("null", None)
    [(kind, count)] = kinds.most_common(1)
    return kind if count and count >= SETTLED * kinds.total() else "string"


def _number(seen: _Field) -> DataType:
    from pyspark.sql.types import DecimalType, DoubleType, LongType

    if seen.kinds["double"] or seen.digits > DECIMAL_DIGITS:
        return DoubleType()
    return DecimalType(max(seen.digits, LONG_DECIMAL_DIGITS), 0) if seen.digits else LongType()


def _is_long(text: str) -> bool:
    try:
        parse_long(text)
    except ValueError:
        return False
    return True
