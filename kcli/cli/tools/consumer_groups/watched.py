"""`--describe --watch`: the state of each partition, the time until the group has caught up, and the reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from kcli.cli.output import Output
from kcli.cli.tools.consumer_groups.describe import (
    MISSING,
    Column,
    MemberRow,
    OffsetRow,
    StateRow,
    Tables,
    show,
)
from kcli.client.admin.groups import GroupDescription
from kcli.client.lag_watch import LagWatch, is_known
from kcli.lag.burrow import Status
from kcli.lag.group_lag import GroupLag
from kcli.lag.sentences import duration
from kcli.model.pace import at_once, no_pause
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.log_text import one_line

_AFTER = "LAG-SECONDS"
"""The column of --describe that is followed by the columns of --watch."""


@dataclass(frozen=True, slots=True)
class WatchedRow:
    """A partition, and the state of the group on this partition (None: not known yet)."""

    row: OffsetRow
    status: str | None = None
    catch_up_seconds: float | None = None
    explanation: str | None = None


@dataclass(frozen=True, slots=True)
class SummedRow:
    """A member or a group: the lag of its partitions, and the state of its worst partition with a sentence about it."""

    row: MemberRow | StateRow
    lag: int | None
    status: str | None = None
    explanation: str | None = None


class Watched(Tables):
    """Prints the tables of --watch. The states are computed from all samples since the tool was started."""

    needs_lag = True

    def __init__(self, now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000) -> None:
        self._watch = LagWatch()
        self._now_ms = now_ms

    def show_partitions(
        self, output: Output, group: GroupDescription, partitions: Sequence[OffsetRow], columns: list[Column]
    ) -> None:
        """Prints the partitions with their states, and a sentence for each partition that is not OK."""
        watched = self._watched(group, partitions)
        show(_Plain(output), group, watched, _columns(columns), always=False)
        _explain(output, watched)

    def show_summary(
        self,
        output: Output,
        group: GroupDescription,
        rows: Sequence[MemberRow] | Sequence[StateRow],
        columns: list[Column],
        partitions: Sequence[OffsetRow],
    ) -> None:
        """Prints the rows with their lag and the state of their worst partition, and the sentences of
        `show_partitions`.
        """
        watched = self._watched(group, partitions)
        summed = [_summed(row, [part for part in watched if _is_part(part, row)]) for row in rows]
        show(_Plain(output), group, summed, _summed_columns(columns), always=True)
        _explain(output, watched)

    def _watched(self, group: GroupDescription, rows: Sequence[OffsetRow]) -> list[WatchedRow]:
        lag = self._judged(group, rows)
        return [_watched_row(row, lag) for row in rows]

    def _judged(self, group: GroupDescription, rows: Sequence[OffsetRow]) -> GroupLag:
        committed, ends, ages = {}, {}, {}
        for row in rows:
            partition = TopicPartition(row.topic, row.partition)
            if row.current_offset is not None:
                committed[partition] = row.current_offset
            if row.log_end_offset is not None:
                ends[partition] = row.log_end_offset
            if row.lag_seconds is not None and row.lag:
                ages[partition] = row.lag_seconds
        return at_once(self._watch.look(group, committed, ends, ages, no_pause, now_ms=self._now_ms()))


def _explain(output: Output, watched: Sequence[WatchedRow]) -> None:
    """Prints a sentence for each partition that is not OK, the worst first."""
    bad = [row for row in watched if row.status not in (None, Status.OK.name)]
    if bad:
        output.say("")
    for row in sorted(bad, key=_badness, reverse=True):
        output.say(f"{row.status}: {row.explanation}")


def _badness(row: WatchedRow) -> int:
    return 0 if row.status is None else Status[row.status]


def _summed(row: MemberRow | StateRow, watched: Sequence[WatchedRow]) -> SummedRow:
    lags = [part.row.lag for part in watched if part.row.lag is not None]
    lag = sum(lags) if lags or not watched else None
    worst = max(watched, key=_badness, default=None)
    return SummedRow(row, lag) if worst is None else SummedRow(row, lag, worst.status, worst.explanation)


def _is_part(partition: WatchedRow, of: MemberRow | StateRow) -> bool:
    """Whether the row `of` is about the partition. A member's row is about the partitions that the member reads, and a
    group's row is about all partitions."""
    return isinstance(of, StateRow) or partition.row.consumer_id == of.consumer_id


class _Plain(Output):
    """Writes each row of --watch as one flat object."""

    def __init__(self, output: Output) -> None:
        super().__init__(output.format)
        self._output = output

    def row(self, row: object, text: object) -> None:
        assert isinstance(row, WatchedRow | SummedRow) and isinstance(text, str)
        flat = {field.name: getattr(row.row, field.name) for field in fields(row.row)}
        more = {field.name: getattr(row, field.name) for field in fields(row) if field.name != "row"}
        self._output.row({**flat, **more}, text)


def _watched_row(row: OffsetRow, lag: GroupLag) -> WatchedRow:
    partition = TopicPartition(row.topic, row.partition)
    partition_lag = lag.partitions.get(partition)
    if partition_lag is None or partition_lag.lag is None or not is_known(partition_lag):
        return WatchedRow(row)
    return WatchedRow(
        row, partition_lag.status.name, partition_lag.catch_up_seconds, one_line(lag.sentence(partition))
    )


def _columns(columns: list[Column]) -> list[Column]:
    """Adds the columns of --watch to the columns of a table of `OffsetRow`s."""
    made: list[Column] = []
    for column in columns:
        made.append(_of_row(column))
        if column.title == _AFTER:
            made += [
                Column("CATCH-UP", _catch_up, 10),
                Column("STATUS", lambda row: row.status or MISSING, 7),
            ]
    return made


def _summed_columns(columns: list[Column]) -> list[Column]:
    """Adds the lag and the status to the columns of members or states. If the last column has no width, it stays the
    last one."""
    made = [_of_row(column) for column in columns]
    at = len(made) - (made[-1].width is None)
    made[at:at] = [
        Column("LAG", lambda row: MISSING if row.lag is None else row.lag, 15),
        Column("STATUS", lambda row: row.status or MISSING, 7),
    ]
    return made


def _of_row(column: Column) -> Column:
    return Column(column.title, lambda watched: column.cell(watched.row), column.width, column.grows)


def _catch_up(row: WatchedRow) -> str:
    return MISSING if row.catch_up_seconds is None else duration(row.catch_up_seconds)
