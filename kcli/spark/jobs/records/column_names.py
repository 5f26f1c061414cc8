"""Makes names of columns from names that records, files and schemas contain.

Such a name is data: it may be empty, contain any character, or be the name of another column. Spark does not
distinguish upper and lower case in names, so `amount` and `Amount` are one name. `unique_names` is the rule by which
each column gets its own name. `renamed` applies the rule to a type. Code that changes names then casts a struct to the
renamed type, because Spark casts structs by the position of their fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

EMPTY = "_empty"
"""The name of a column whose name in the records is empty, because SQL cannot refer to an empty name."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

NAMES_SHOWN = 20
"""The most names of columns in an error message. A record may have thousands of fields."""

MESSAGE_CHARACTERS = 400
"""The most characters of a list of names in an error message."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def unique_names(names: Sequence[str], taken: Iterable[str] = ()) -> list[str]:
    """Returns a name for each column. No two names are equal if upper and lower case are not distinguished.

    A name stays unchanged if no column before it has the name. All other columns get the first number from 2 on with
    which the name is free: `amount`, `amount_2`. `taken` contains the names of other columns of the table.
    """
    plain = [_LONE_SURROGATE.sub(REPLACEMENT, name) or EMPTY for name in names]
    used = {folded(name) for name in taken}
    unique_list: list[str | None] = []
    for name in plain:  # names that stay take precedence over names with a number
        key = folded(name)
        unique_list.append(None if key in used else name)
        used.add(key)
    return [
        _numbered(name, used) if unique is None else unique
        for name, unique in zip(plain, unique_list, strict=True)
    ]


def _numbered(name: str, used: set[str]) -> str:
    """Returns the name with the first number that makes it free, and adds the result to `used`."""
    number = 2
    while folded(f"{name}_{number}") in used:
        number += 1
    used.add(folded(f"{name}_{number}"))
    return f"{name}_{number}"


def folded(name: str) -> str:
    """Returns a key that is equal for two names if Java's equalsIgnoreCase finds them equal."""
    return "".join(map(_folded, name))


def _folded(letter: str) -> str:
    upper = letter.upper()
    return (upper if len(upper) == 1 else letter).lower()[0]


def renamed(type_: StructType, taken: Iterable[str] = ()) -> StructType:
    """Returns a struct with unique names, also inside its fields. `taken` contains names that its fields cannot
    have."""
    from pyspark.sql.types import StructField, StructType

    names = unique_names(type_.names, taken)
    return StructType(
        [StructField(name, _inside(field.dataType)) for name, field in zip(names, type_.fields, strict=True)]
    )


def _inside(type_: DataType) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match type_:
        case StructType():
            return renamed(type_)
        case ArrayType():
            return ArrayType(_inside(type_.elementType))
        case MapType():
            return MapType(_inside(type_.keyType), _inside(type_.valueType))
        case _:
            return type_


def free_name(name: str, names: Iterable[str]) -> str:
    """Returns `name`, or with a number if one of `names` is equal to it."""
    return unique_names([name], names)[0]


def quoted(name: str) -> str:
    """Returns a name in backquotes, as SQL and Spark's column functions expect an unusual name."""
    return "`" + name.replace("`", "``") + "`"


def printable(text: str) -> str:
    """Returns a text in which control characters are escaped, so that it is one line on a terminal."""
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def column_list(type_: StructType) -> str:
    """Returns the columns of a struct with their types, for a message of one line."""
    return listed([f"{field.name} {field.dataType.simpleString()}" for field in type_.fields])


def listed(names: Sequence[str]) -> str:
    """Returns names for a message of one line. Of many or long names, only the first ones are listed."""
    more = [f"and {len(names) - NAMES_SHOWN} more"] if len(names) > NAMES_SHOWN else []
    text = ", ".join([*map(printable, names[:NAMES_SHOWN]), *more])
    return text if len(text) <= MESSAGE_CHARACTERS else text[:MESSAGE_CHARACTERS] + " …"
