"""The options before the sub-commands of kafka-transactions, and the tables that these sub-commands print."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kcli.cli.connect import ClusterOptions
from kcli.cli.output import Output
from kcli.cli.syntax.options import option


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsOptions(ClusterOptions):
    bootstrap_server: str | None = option(
        "The brokers to connect to first, as host:port,host:port.", metavar="host:port", required=True
    )
    command_config: str | None = option(
        "A properties file with settings of the admin client.", metavar="FILE"
    )


def print_table(output: Output, row_type: type, rows: Sequence[object]) -> None:
    """Prints rows as a table. The header has the names of fields in CamelCase. A tab follows each column."""
    names = [field.name for field in dataclasses.fields(row_type)]
    headers = [_title(name) for name in names]
    cells = [[_cell(getattr(row, name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    output.say(_line(headers, widths))
    for row, texts in zip(rows, cells, strict=True):
        output.row(row, _line(texts, widths))


def _title(name: str) -> str:
    """Returns the title of a field: `ProducerId` for `producer_id`. A unit is in brackets at the end."""
    base, minutes, _ = name.partition("_minutes")
    return base.title().replace("_", "") + ("(min)" if minutes else "")


def _cell(value: object) -> str:
    return "None" if value is None else str(value)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:<{width}}\t" for cell, width in zip(cells, widths, strict=True))
