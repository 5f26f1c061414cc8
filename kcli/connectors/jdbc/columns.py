"""The columns with the position in a table: from the configuration, and checked against the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcli.config.definition import ConfigError
from kcli.connectors.jdbc.database import Column, Database
from kcli.connectors.jdbc.identifiers import TableName
from kcli.connectors.jdbc.source_keys import SourceSettings
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_regex import compile_java
from kcli.model.java_text import trim


@dataclass(frozen=True, slots=True)
class PositionColumns:
    """The timestamp columns, and the incrementing column, of which an empty name stands for any numbered column."""

    timestamps: tuple[str, ...] = ()
    number: str | None = None


def columns_of_table(settings: SourceSettings, table: TableName | None) -> PositionColumns:
    """The columns that the configuration names. Raises ConnectException if not exactly one mapping has the table."""
    timestamps: tuple[str, ...] = ()
    number: str | None = None
    if settings.by_timestamp:
        mapped = _mapped(settings, "timestamp.columns.mapping", "timestamp", table)
        if mapped is None:
            timestamps = tuple(map(trim, settings.names("timestamp.column.name")))
        else:
            timestamps = tuple(map(trim, mapped[1:-1].split("|")))
    if settings.by_number:
        mapped = _mapped(settings, "incrementing.column.mapping", "incrementing", table)
        number = trim(str(settings.values["incrementing.column.name"])) if mapped is None else mapped
    return PositionColumns(timestamps, number)


def check_columns(
    database: Database, settings: SourceSettings, table: TableName, columns: PositionColumns
) -> PositionColumns:
    """Checks that the columns exist and are never null. Finds the numbered column if the configuration names none.

    Raises ConfigError or ConnectException.
    """
    existing = database.columns(table)
    by_name = {column.name.lower(): column for column in existing}
    shown = database.quoting.table(table)
    number = columns.number
    if number == "":
        number = next((column.name for column in existing if column.auto_increment), None)
    elif number is not None and number.lower() not in by_name:
        raise ConfigError(f"Incrementing column: {number} does not exist in table '{shown}'")
    missing = [name for name in columns.timestamps if name.lower() not in by_name]
    if missing:
        raise ConfigError(f"Timestamp columns: {', '.join(missing)} do not exist in table '{shown}'")
    if settings.by_number and number is None:
        raise ConfigError(
            f"Table '{shown}' has no column that the database numbers automatically: set"
            " incrementing.column.name"
        )
    if settings.by_timestamp and not columns.timestamps:
        raise ConfigError("timestamp.column.name is empty: the mode needs at least one column")
    checked = PositionColumns(columns.timestamps, number)
    if settings.values["validate.non.null"]:
        _check_nullable(checked, by_name, shown)
    return checked


def _check_nullable(columns: PositionColumns, by_name: dict[str, Column], shown: str) -> None:
    number = columns.number
    if number is not None and by_name[number.lower()].nullable:
        raise ConnectException(
            f"Cannot make incremental queries using incrementing column {number} on {shown} because this column"
            " is nullable."
        )
    if columns.timestamps and all(by_name[name.lower()].nullable for name in columns.timestamps):
        raise ConnectException(
            f"Cannot make incremental queries using timestamp columns {','.join(columns.timestamps)} on {shown}"
            " because all of these columns are nullable."
        )


def _mapped(settings: SourceSettings, key: str, word: str, table: TableName | None) -> str | None:
    """The columns of the mapping whose expression matches the table. None if there are no mappings."""
    mappings: Sequence[str] = settings.names(key)
    if not mappings or table is None:
        return None
    pairs = (mapping.partition(":") for mapping in mappings)
    found = [trim(columns) for expression, _, columns in pairs
             if compile_java(trim(expression)).fullmatch(table.unquoted)]  # fmt: skip
    if len(found) == 1:
        return found[0]
    problem = "matches more than one" if found else "does not match any"
    raise ConnectException(
        f"Error while validating {word} column mappings: Included table '{table}' {problem} of the provided"
        " regexes"
    )
