"""Describes groups (kafka-consumer-groups --describe): offsets and lag, members, or states."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.cli.output import Output, java_text, warn
from kcli.cli.tools.consumer_groups.failures import execution_failed
from kcli.cli.tools.consumer_groups.groups import chosen_groups
from kcli.cli.tools.consumer_groups.options import ConsumerGroupsOptions
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CommittedOffset, GroupDescription, GroupMember
from kcli.errors import KafkaError
from kcli.model.java_order import map_order, partition_hash
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.client.admin.lag import Lag

MISSING = "-"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """One partition: the group's offset and lag, and the member that reads the partition."""

    group: str
    topic: str
    partition: int
    leader_epoch: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    lag_seconds: float | None
    consumer_id: str | None
    host: str | None
    client_id: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member."""

    group: str
    consumer_id: str
    group_instance_id: str | None
    host: str
    client_id: str
    partitions: int
    current_epoch: int | None
    current_assignment: str
    target_epoch: int | None
    target_assignment: str
    upgraded: bool | None


@dataclass(frozen=True, slots=True)
class StateRow:
    """One group."""

    group: str
    coordinator_host: str
    coordinator_port: int
    coordinator_id: int
    assignment_strategy: str
    state: str
    group_epoch: int | None
    target_assignment_epoch: int | None
    members: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its cells are padded to `width`, or to the longest cell if `grows`.

    If the width is None, the cells are not padded.
    """

    title: str
    cell: Callable[[Any], object]
    width: int | None
    grows: bool = False


class Tables:
    """Prints the tables of --describe. The subclass `Watched` adds the states of the partitions for --watch."""

    needs_lag = False
    """Whether every table, also a table of members or states, needs the lag in seconds of each partition."""

    def show_partitions(
        self, output: Output, group: GroupDescription, partitions: Sequence[OffsetRow], columns: list[Column]
    ) -> None:
        """Prints the partitions of a group."""
        show(output, group, partitions, columns, always=False)

    def show_summary(
        self,
        output: Output,
        group: GroupDescription,
        rows: Sequence[MemberRow] | Sequence[StateRow],
        columns: list[Column],
        partitions: Sequence[OffsetRow],
    ) -> None:
        """Prints the members or the state of a group. `partitions` are the partitions of the group if `needs_lag`."""
        show(output, group, rows, columns, always=True)


async def describe(
    options: ConsumerGroupsOptions, client: AdminClient, output: Output, tables: Tables | None = None
) -> None:
    """Prints a table for each group, sorted by name, and then the errors of groups that cannot be described."""
    tables = tables or Tables()
    described = await client.describe_groups(await chosen_groups(options, client))
    known = [group for group in described.values() if not isinstance(group, KafkaError)]
    is_needed = tables.needs_lag or not (options.has("members") or options.has("state"))
    offsets = await _offsets(client, known) if is_needed else None
    failures: list[KafkaError] = []
    for group_id in sorted(described):
        group = described[group_id]
        try:
            if isinstance(group, KafkaError):
                raise group
            await _describe(options, client, group, offsets, output, tables)
        except KafkaError as error:
            failures.append(error)
    for failure in failures:
        execution_failed(output, failure)


async def _describe(
    options: ConsumerGroupsOptions,
    client: AdminClient,
    group: GroupDescription,
    offsets: _Offsets | None,
    output: Output,
    tables: Tables,
) -> None:
    timed = options.lag_seconds or tables.needs_lag
    rows: list[OffsetRow] = []
    if offsets is not None:
        rows = await _offset_rows(client, group, offsets, timed=timed or not output.is_text)
    if options.has("members"):
        columns = _member_columns(group, options.verbose)
        tables.show_summary(output, group, _member_rows(group), columns, rows)
    elif options.has("state"):
        tables.show_summary(output, group, [_state_row(group)], _state_columns(options.verbose), rows)
    else:
        tables.show_partitions(output, group, rows, offset_columns(options.verbose, timed=timed))
    for row in rows:
        if row.error is not None:
            warn(f"Partition {row.topic}-{row.partition}: {row.error}")


def show(
    output: Output, group: GroupDescription, rows: Sequence[Row], columns: list[Column], *, always: bool
) -> None:
    """Prints Kafka's line about the group's state, then the table.

    An empty table is printed only if `always` is true.
    """
    match group.state:
        case "Dead":
            output.say(f"\nError: Consumer group '{group.group_id}' does not exist.")
            return
        case "Empty":
            warn(f"\nConsumer group '{group.group_id}' has no active members.")
        case state if state in REBALANCING:
            warn(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")
    if not rows and not always:
        return
    cells = [[str(column.cell(row)) for column in columns] for row in rows]
    widths = [
        max([column.width or 0, *(len(line[index]) for line in cells if column.grows)])
        for index, column in enumerate(columns)
    ]
    output.say("")
    output.say(_line([column.title for column in columns], widths))
    for row, line in zip(rows, cells, strict=True):
        output.row(row, _line(line, widths))


def _line(cells: list[str], widths: list[int]) -> str:
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))


def _or_missing(value: object) -> object:
    return MISSING if value is None else value


# Offsets


@dataclass(frozen=True, slots=True)
class _Offsets:
    """The offsets of all groups and the end offsets of their partitions, which are requested together."""

    committed: Mapping[str, Mapping[TopicPartition, CommittedOffset | KafkaError] | KafkaError]
    ends: Mapping[TopicPartition, OffsetAt | KafkaError] | KafkaError


async def _offsets(client: AdminClient, groups: Sequence[GroupDescription]) -> _Offsets:
    answers = await client.list_all_offsets(group.group_id for group in groups)
    committed: dict[str, Mapping[TopicPartition, CommittedOffset | KafkaError] | KafkaError] = {}
    partitions = [
        partition for group in groups for member in group.members for partition in member.assignment
    ]
    for group_id, offsets in answers.items():
        if isinstance(offsets, KafkaError):
            committed[group_id] = offsets
        else:
            known = {place: offset for place, offset in offsets.items() if offset is not None}
            committed[group_id] = known
            partitions += known
    specs = dict.fromkeys(partitions, OffsetSpec.LATEST)
    try:
        ends = await client.list_offsets(specs, wait_for_leaders=False) if specs else {}
    except KafkaError as error:
        return _Offsets(committed, error)
    return _Offsets(committed, ends)


async def _offset_rows(
    client: AdminClient, group: GroupDescription, offsets: _Offsets, *, timed: bool
) -> list[OffsetRow]:
    """Returns the rows of a group: the partitions of its members, then partitions that have an offset but no member.

    Members with the most partitions come first. An unknown value is None in its row, and `error` has the reason. With
    `timed`, rows have the lag in seconds.
    """
    committed, ends = offsets.committed[group.group_id], offsets.ends
    if isinstance(committed, KafkaError):
        raise committed
    if isinstance(ends, KafkaError):
        raise ends
    owned: list[tuple[TopicPartition, GroupMember | None]] = []
    for member in sorted(group.members, key=lambda member: -len(member.assignment)):
        owned += [(partition, member) for partition in map_order(member.assignment, partition_hash)]
    assigned = {partition for partition, _ in owned}
    owned += [
        (partition, None)
        for partition in map_order((place for place in committed if place not in assigned), partition_hash)
    ]
    ages = await _ages(client, committed, ends) if timed else {}
    rows = []
    for partition, reader in owned:
        offset, end, age = committed.get(partition), ends[partition], ages.get(partition)
        known = None if isinstance(offset, KafkaError) else offset
        end_offset = None if isinstance(end, KafkaError) else end.offset
        current = None if known is None else known.offset
        error = next((answer for answer in (offset, end, age) if isinstance(answer, KafkaError)), None)
        rows.append(
            OffsetRow(
                group=group.group_id,
                topic=partition[0],
                partition=partition[1],
                leader_epoch=None if known is None else known.leader_epoch,
                current_offset=current,
                log_end_offset=end_offset,
                lag=None if current is None or end_offset is None else end_offset - current,
                lag_seconds=None if isinstance(age, KafkaError) else age,
                consumer_id=None if reader is None else reader.member_id,
                host=None if reader is None else reader.host,
                client_id=None if reader is None else reader.client_id,
                error=None if error is None else java_text(error),
            )
        )
    return rows


async def _ages(
    client: AdminClient,
    committed: Mapping[TopicPartition, CommittedOffset | KafkaError],
    ends: Mapping[TopicPartition, OffsetAt | KafkaError],
) -> Mapping[TopicPartition, Lag]:
    """Returns the lag in seconds of each partition whose committed offset and end offset are known."""
    from kcli.client.admin.lag import lag_seconds

    offsets = {
        partition: answer.offset
        for partition, answer in committed.items()
        if not isinstance(answer, KafkaError) and isinstance(ends.get(partition), OffsetAt)
    }
    return await lag_seconds(client, offsets, time.time_ns() // 1_000_000)


def _seconds(row: OffsetRow) -> str:
    return MISSING if row.lag_seconds is None else f"{row.lag_seconds:.1f}"


def offset_columns(verbose: bool, *, timed: bool) -> list[Column]:
    seconds = [Column("LAG-SECONDS", _seconds, 15)] if timed else []
    epoch = [Column("LEADER-EPOCH", lambda row: _or_missing(row.leader_epoch), 15)] if verbose else []
    return [
        Column("GROUP", lambda row: row.group, 15, grows=True),
        Column("TOPIC", lambda row: row.topic, 15, grows=True),
        Column("PARTITION", lambda row: row.partition, 10),
        *epoch,
        Column("CURRENT-OFFSET", lambda row: _or_missing(row.current_offset), 15),
        Column("LOG-END-OFFSET", lambda row: _or_missing(row.log_end_offset), 15),
        Column("LAG", lambda row: _or_missing(row.lag), 15),
        *seconds,
        Column("CONSUMER-ID", lambda row: _or_missing(row.consumer_id), 15, grows=True),
        Column("HOST", lambda row: _or_missing(row.host), 15, grows=True),
        Column("CLIENT-ID", lambda row: _or_missing(row.client_id), None),
    ]


# Members


def _member_rows(group: GroupDescription) -> list[MemberRow]:
    """Returns the rows of members: static members first, by instance id.

    Kafka prints them in the order of a hash table.
    """
    members = sorted(group.members, key=lambda member: (member.instance_id is None, member.instance_id or ""))
    return [_member_row(group, member) for member in members]


def _member_row(group: GroupDescription, member: GroupMember) -> MemberRow:
    target = member.target_assignment
    return MemberRow(
        group=group.group_id,
        consumer_id=member.member_id,
        group_instance_id=member.instance_id,
        host=member.host,
        client_id=member.client_id,
        partitions=len(member.assignment),
        current_epoch=member.epoch,
        current_assignment=_assignment_text(member.assignment),
        target_epoch=None if target is None else group.target_assignment_epoch,
        target_assignment="" if target is None else _assignment_text(target),
        upgraded=member.is_upgraded,
    )


def _assignment_text(partitions: Sequence[TopicPartition]) -> str:
    """Returns an assignment as text such as `t1:0,1;t2:3`, sorted by topic."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items())


def _member_columns(group: GroupDescription, verbose: bool) -> list[Column]:
    columns = [
        Column("GROUP", lambda row: row.group, 15, grows=True),
        Column("CONSUMER-ID", lambda row: row.consumer_id, 15, grows=True),
    ]
    if any(member.instance_id for member in group.members):
        columns.append(Column("GROUP-INSTANCE-ID", lambda row: row.group_instance_id or "", 17, grows=True))
    columns += [
        Column("HOST", lambda row: row.host, 15, grows=True),
        Column("CLIENT-ID", lambda row: row.client_id, 15, grows=True),
        Column("#PARTITIONS", lambda row: row.partitions, 15),
    ]
    if verbose:
        columns += [
            Column("CURRENT-EPOCH", lambda row: _or_missing(row.current_epoch), 15),
            Column("CURRENT-ASSIGNMENT", lambda row: row.current_assignment or MISSING, 20, grows=True),
            Column("TARGET-EPOCH", lambda row: _or_missing(row.target_epoch), 15),
            Column("TARGET-ASSIGNMENT", lambda row: row.target_assignment or MISSING, 20, grows=True),
        ]
        kinds = {member.is_upgraded for member in group.members}
        if {True, False} <= kinds:
            columns.append(Column("UPGRADED", lambda row: str(bool(row.upgraded)).lower(), None))
    else:
        columns.append(Column("", lambda row: "", None))  # Kafka's format has a space at the end of this line
    return columns


# States


def _state_row(group: GroupDescription) -> StateRow:
    node = group.coordinator
    return StateRow(
        group=group.group_id,
        coordinator_host=node.host,
        coordinator_port=node.port,
        coordinator_id=node.id,
        assignment_strategy=group.assignor,
        state=group.state,
        group_epoch=group.epoch,
        target_assignment_epoch=group.target_assignment_epoch,
        members=len(group.members),
    )


def _coordinator(row: StateRow) -> str:
    return f"{row.coordinator_host}:{row.coordinator_port}  ({row.coordinator_id})"


def _state_columns(verbose: bool) -> list[Column]:
    epochs = [
        Column("GROUP-EPOCH", lambda row: _or_missing(row.group_epoch), 15),
        Column("TARGET-ASSIGNMENT-EPOCH", lambda row: _or_missing(row.target_assignment_epoch), 25),
    ]
    return [
        Column("GROUP", lambda row: row.group, 15, grows=True),
        Column("COORDINATOR (ID)", _coordinator, 25, grows=True),
        Column("ASSIGNMENT-STRATEGY", lambda row: row.assignment_strategy or MISSING, 20),
        Column("STATE", lambda row: row.state, 20),
        *(epochs if verbose else []),
        Column("#MEMBERS", lambda row: row.members, None),
    ]
