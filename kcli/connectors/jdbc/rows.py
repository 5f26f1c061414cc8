"""Structs from rows, by a function that is compiled once for a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import DecimalException

from kcli.connectors.jdbc.field_types import ColumnField
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import Schema, struct_schema
from kcli.formats.connect.structs import Struct

Row = Sequence[object]
MakeStructs = Callable[[Sequence[Row]], list[Struct]]


def row_schema(name: str | None, fields: Sequence[ColumnField]) -> Schema:
    return struct_schema({field.column.name: field.schema for field in fields}, name=name)


def compile_rows(schema: Schema, fields: Sequence[ColumnField]) -> MakeStructs:
    """Returns a function from rows to structs. It raises DataException, which names the column."""
    functions = {f"f{field.position}": field.convert for field in fields if field.convert is not None}
    source = (
        "def make(rows):\n"
        " structs = []\n"
        " append = structs.append\n"
        " for row in rows:\n"
        "  struct = new(Struct)\n"
        "  struct.schema = schema\n"
        f"  struct.values = [{', '.join(map(_expression, fields))}]\n"
        "  append(struct)\n"
        " return structs\n"
    )
    scope: dict[str, object] = {"new": object.__new__, "Struct": Struct, "schema": schema, **functions}
    # The source has no text of a user: only positions of columns.
    exec(compile(source, "<rows of a table>", "exec"), scope)
    make: MakeStructs = scope["make"]  # type: ignore[assignment]

    def checked(rows: Sequence[Row]) -> list[Struct]:
        try:
            return make(rows)
        except (ArithmeticError, AttributeError, TypeError, ValueError, DataException) as error:
            raise _explained(rows, fields) or error from None

    return checked


def _expression(field: ColumnField) -> str:
    value = f"row[{field.position}]"
    if field.convert is None:
        return value
    return f"None if (value := {value}) is None else f{field.position}(value)"


def _explained(rows: Sequence[Row], fields: Sequence[ColumnField]) -> DataException | None:
    """The first value that cannot be converted."""
    for row in rows:
        for field in fields:
            value = row[field.position]
            try:
                if value is not None and field.convert is not None:
                    field.convert(value)
            except (
                ArithmeticError,
                AttributeError,
                TypeError,
                ValueError,
                DataException,
                DecimalException,
            ) as error:
                column = field.column
                return DataException(
                    f"Column {column.name}: invalid value {value!r} for type {column.type}: {error}"
                )
    return None
