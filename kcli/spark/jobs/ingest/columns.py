"""Reads the columns of files and tables without Spark, so that a dry run checks the columns that the options name."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence

from kcli.spark.jobs.shared.errors import JobError

HEADER_BYTES = 1 << 20
"""The most bytes of the first line of a CSV file that are read."""

KNOWN_SEPARATORS = ("sep", "delimiter")
"""The options of Spark's reader that this module applies. With other options, only Spark knows the columns."""


def check_files(paths: Sequence[str], form: str) -> None:
    """Raises JobError if there is no file from which Spark could read columns, or if a file cannot be read."""
    if not paths and form in ("csv", "parquet"):
        raise JobError(f"there is no {form} file in --path")
    for path in paths:
        if not os.access(path, os.R_OK):
            raise JobError(f"{path}: permission denied")


def file_columns(paths: Sequence[str], form: str, reading: Mapping[str, str]) -> list[str] | None:
    """Returns the columns of local CSV or Parquet files, or None if only Spark can find out the columns."""
    if not paths:
        return None
    if form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet

        try:
            return list(pyarrow.parquet.read_schema(paths[0]).names)
        except (pa.ArrowException, OSError) as error:
            raise JobError(f"{paths[0]} is not a Parquet file: {str(error).splitlines()[0]}") from None
    if form != "csv" or set(reading) - set(KNOWN_SEPARATORS):
        return None
    return _header(paths[0], reading.get("sep", reading.get("delimiter", ",")))


def _header(path: str, separator: str) -> list[str] | None:
    """Returns the names in the first line that is not empty. Returns None for a compressed or another unusual file."""
    with open(path, "rb") as file:
        lines = file.read(HEADER_BYTES).splitlines()
    first = next((line for line in lines if not line.isspace() and line), b"")
    try:
        [names] = csv.reader([first.decode()], delimiter=separator)
    except (ValueError, TypeError, csv.Error):
        return None
    # Spark gives another name to a column whose name is empty or occurs twice.
    return None if len(set(names)) < len(names) or "" in names else names


def check_columns(
    expected: Sequence[str | None], columns: Sequence[str], what: str, *, fields: bool = False
) -> None:
    """Raises JobError for a column that an option names and that is missing.

    With `fields`, a name may also be that of a field in a JSON column, such as `column.field`. The field is not
    checked.
    """
    for name in expected:
        if name is not None and (name.partition(".")[0] if fields else name) not in columns:
            raise JobError(f"there is no column {name}; the {what} have {', '.join(columns)}")
