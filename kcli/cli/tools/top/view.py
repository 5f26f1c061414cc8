"""The tables of `kcli top`, as lines of text or drawn by the library rich on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kcli.cli.tools.top.rows import Rows
from kcli.model.amounts import MISSING, bytes_text

if TYPE_CHECKING:
    from rich.console import RenderableType

# A terminal with fewer columns does not show the columns that are marked `wide`.
WIDE_COLUMNS = 100
# The most rows of a table, except topics and groups, which share the rest of the screen.
GLANCED_ROWS_MAX = 5


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    A column with `wide` is left out on a narrow terminal. A column with `is_text` is left-aligned, and is shortened
    first.
    """

    title: str
    cell: Callable[[Any], str]
    is_text: bool = False
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `kind` is the name of its rows in json and tsv. `marked` returns whether a row is highlighted."""

    kind: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Any]
    marked: Callable[[Any], bool] = lambda _row: False
    keeps_room: bool = True
    """Whether the table is also shown if it has no rows."""


def tables(rows: Rows, now_ms: int) -> list[Table]:
    """Returns the tables, the most important ones first."""
    return [
        Table("problem", "PARTITIONS IN TROUBLE", _PROBLEMS, rows.problems, lambda _row: True, False),
        Table("topic", "TOPICS", _TOPICS, rows.topics),
        Table("group", "GROUPS", _GROUPS, rows.groups, lambda row: bool(row.error)),
        Table("slow", "SLOW REQUESTS", _slow(now_ms), rows.slow, keeps_room=False),
        Table("broker", "BROKERS", _BROKERS, rows.brokers),
    ]


def text_lines(table: Table) -> list[str]:
    """Returns the lines of a table: a header and a line for each row, in columns."""
    cells = [[column.title for column in table.columns]]
    cells += [[column.cell(row) for column in table.columns] for row in table.rows]
    widths = [max(len(line[index]) for line in cells) for index in range(len(table.columns))]
    return [
        "  ".join(
            f"{cell:<{width}}" if column.is_text else f"{cell:>{width}}"
            for cell, width, column in zip(line, widths, table.columns, strict=True)
        ).rstrip()
        for line in cells
    ]


def screen(
    screen_tables: list[Table],
    *,
    head: str,
    foot: str,
    errors: Sequence[str],
    width: int,
    height: int,
    is_old: bool = False,
) -> RenderableType:
    """Returns the tables, cut to the size of the screen, with the number of hidden rows.

    `errors` are above the tables. With `is_old`, the tables are pale.
    """
    from rich.console import Group
    from rich.text import Text

    shown = [table for table in screen_tables if table.rows or table.keeps_room]
    lines: list[RenderableType] = [Text(head, style="bold", no_wrap=True, overflow="ellipsis")]
    lines += [Text(error, style="red", no_wrap=True, overflow="ellipsis") for error in errors]
    room = _room(shown, height - len(lines) - 1)
    for table in shown:
        if room[table.kind] > 0:
            lines += _drawn(table, room[table.kind], width, is_old=is_old)
    lines.append(Text(foot, style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*lines)


def _room(shown: list[Table], height: int) -> dict[str, int]:
    """Returns how many rows of each table fit on the screen.

    The number is 0 if title, header and one row do not fit.
    """
    rows: dict[str, int] = {}
    left = height
    for table in sorted(shown, key=lambda table: _BY_WEIGHT.index(table.kind)):
        rows[table.kind] = 1 if left >= 3 else 0  # title, header, row
        left -= 3 * rows[table.kind]
    for most in (GLANCED_ROWS_MAX, height):
        for table in shown:
            if rows[table.kind] and (most == GLANCED_ROWS_MAX or table.kind in _GROWING):
                more = max(min(min(len(table.rows), most) - rows[table.kind], left), 0)
                rows[table.kind] += more
                left -= more
    return rows


# The order in which tables get room on a small screen, and the tables that get the remaining rows.
_BY_WEIGHT = ("problem", "group", "topic", "broker", "slow")
_GROWING = ("topic", "group")


def _drawn(table: Table, room: int, width: int, *, is_old: bool) -> list[RenderableType]:
    from rich.table import Table as RichTable
    from rich.text import Text

    rows = table.rows[:room]
    hidden = len(table.rows) - len(rows)
    title = f"{table.title} ({len(table.rows)}{f', {hidden} more' if hidden else ''})"
    columns = [column for column in table.columns if width >= WIDE_COLUMNS or not column.wide]
    drawn = RichTable(box=None, padding=(0, 2, 0, 0), expand=False, header_style="bold", pad_edge=False)
    for column in columns:
        drawn.add_column(
            column.title,
            justify="left" if column.is_text else "right",
            no_wrap=True,
            overflow="ellipsis",
            ratio=None,
        )
    for row in rows:
        style = "dim" if is_old else "red" if table.marked(row) else None
        drawn.add_row(*(Text(_printable(column.cell(row))) for column in columns), style=style)
    return [Text(title, style="reverse", no_wrap=True, overflow="ellipsis"), drawn]


def _printable(text: str) -> str:
    """Replaces control characters. A client can choose any characters for its client id and group id."""
    return "".join(character if character.isprintable() else "?" for character in text)


# --- cells


def count_text(value: float | None) -> str:
    """Formats a count: 12, 1.2k, 3.4M."""
    if value is None:
        return MISSING
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):.1f}{unit}"
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.1f}"


def seconds_text(value: float | None) -> str:
    """Formats a duration: 0 s, 12.3 s, 5m03s, 2h10m, 3d04h."""
    if value is None:
        return MISSING
    if value < 60:
        return f"{value:.1f}".removesuffix(".0") + " s"
    minutes, seconds = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02d}h"
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"


def _listed(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or MISSING


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0f} %"


def _topic(name: str) -> Column:
    return Column(name, lambda row: row.topic, is_text=True)


_PROBLEMS = (
    _topic("TOPIC"),
    Column("PARTITION", lambda row: str(row.partition)),
    Column("PROBLEM", lambda row: row.problem, is_text=True),
    Column("LEADER", lambda row: MISSING if row.leader is None else str(row.leader)),
    Column("REPLICAS", lambda row: _listed(row.replicas), is_text=True, wide=True),
    Column("ISR", lambda row: _listed(row.isr), is_text=True),
)
_TOPICS = (
    _topic("TOPIC"),
    Column("PARTITIONS", lambda row: str(row.partitions), wide=True),
    Column("MSG/S", lambda row: count_text(row.messages_in)),
    Column("IN/S", lambda row: bytes_text(row.bytes_in)),
    Column("OUT/S", lambda row: bytes_text(row.bytes_out)),
    Column("END", lambda row: count_text(row.records), wide=True),
)
_GROUPS = (
    Column("GROUP", lambda row: row.group, is_text=True),
    Column("STATE", lambda row: row.state or MISSING, is_text=True, wide=True),
    Column("PARTITIONS", lambda row: str(row.partitions), wide=True),
    Column("LAG", lambda row: count_text(row.lag)),
    Column("LAG-TIME", lambda row: seconds_text(row.lag_seconds)),
    Column("MSG/S", lambda row: count_text(row.consumed)),
    Column("ERROR", lambda row: row.error, is_text=True),
)
_BROKERS = (
    Column("ID", lambda row: f"{row.broker}{'*' if row.is_controller else ''}"),
    Column("ADDRESS", lambda row: row.address, is_text=True, wide=True),
    Column("LEADERS", lambda row: str(row.leaders)),
    Column("REPLICAS", lambda row: str(row.replicas), wide=True),
    Column("REQ/S", lambda row: count_text(row.requests)),
    Column("CONNS", lambda row: MISSING if row.connections is None else str(row.connections)),
    Column("CPU", lambda row: _percent(row.cpu_percent)),
    Column("MEMORY", lambda row: bytes_text(row.memory_bytes)),
    Column("METRICS", lambda row: row.why_not or "yes", is_text=True),
)


def _slow(now_ms: int) -> tuple[Column, ...]:
    return (
        Column("REQUEST", lambda row: f"{row.api} v{row.version}", is_text=True),
        Column("TOOK", lambda row: f"{row.took_ms:.1f} ms"),
        Column("AGO", lambda row: seconds_text(max(now_ms - row.time_ms, 0) // 1000)),
        Column("CLIENT", lambda row: row.client_id or MISSING, is_text=True),
        Column("FROM", lambda row: row.host, is_text=True, wide=True),
        Column("LISTENER", lambda row: row.listener, is_text=True, wide=True),
        Column("BROKER", lambda row: str(row.broker), wide=True),
    )
