"""`--balance`, `--decommission` and `--undo`: plans or reads moves, shows them, asks, and executes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kcli.cli.amounts import bytes_text
from kcli.cli.confirm import confirm, listed
from kcli.cli.output import Output, warn
from kcli.cli.signals import cancelled_on_sigterm
from kcli.cli.tools.reassign_partitions.balance import (
    BrokerLoad,
    BrokerPlace,
    ImpossibleError,
    applied,
    balanced,
    loads,
)
from kcli.cli.tools.reassign_partitions.batches import batches, copied_bytes, copied_replicas
from kcli.cli.tools.reassign_partitions.execution import Execution
from kcli.cli.tools.reassign_partitions.plan import (
    Assignment,
    PlanError,
    assignment_json,
    check_plan,
    parse_plan,
)
from kcli.cli.tools.reassign_partitions.survey import Survey, survey
from kcli.cli.topic_filter import topic_filter
from kcli.client.admin.admin import AdminClient
from kcli.model.topic_partition import TopicPartition

UNDO_NAME = "reassignment-undo-%Y%m%dT%H%M%S.%fZ.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How a run changes the cluster, and how it is executed."""

    topics: str = ".*"
    leaving: frozenset[int] = frozenset()
    replication_factor: int | None = None
    rack_aware: bool = True
    throttle: int | None = None
    dry_run: bool = False
    yes: bool = False


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A partition that changes, with the bytes of all its new replicas."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    copied_bytes: int


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker before and after the moves. Only the chosen topics count. Leaders are preferred leaders."""

    broker: int
    rack: str | None
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int
    bytes_before: int
    bytes_after: int


async def balance(wish: Wish, client: AdminClient, output: Output) -> None:
    """Makes the brokers even, without `wish.leaving`. Raises PlanError, KafkaError or CommandError."""
    try:
        matches = topic_filter(wish.topics)
    except ValueError as error:
        raise PlanError(str(error)) from None
    found = await survey(client, matches)
    stay = [
        BrokerPlace(each.id, each.rack if wish.rack_aware else None)
        for each in found.brokers
        if each.id not in wish.leaving
    ]
    _check_brokers(found, wish.leaving)
    try:
        changes = balanced(stay, found.partitions, replication_factor=wish.replication_factor)
    except ImpossibleError as error:
        raise PlanError(str(error)) from None
    await _carry_out(wish, client, output, found, changes)


async def undo(text: str, wish: Wish, client: AdminClient, output: Output) -> None:
    """Moves partitions to the replicas of an undo file. Raises PlanError, KafkaError or CommandError."""
    plan = parse_plan(text)
    check_plan(plan)
    topics = {topic for topic, _ in plan.assignment}
    found = await survey(client, topics.__contains__)
    before = found.assignment
    for topic, number in sorted(plan.assignment.keys() - before.keys()):
        raise PlanError(f"Unable to find partition: {topic}-{number}")
    changes = {
        partition: replicas
        for partition, replicas in sorted(plan.assignment.items())
        if replicas != before[partition]
    }
    known = {each.id for each in found.brokers}
    for broker in sorted({broker for replicas in changes.values() for broker in replicas} - known):
        raise PlanError(f"Broker {broker} of the undo file does not run")
    await _carry_out(wish, client, output, found, changes)


def _check_brokers(found: Survey, leaving: frozenset[int]) -> None:
    """Raises PlanError if a broker must get or keep replicas but does not run, or does not exist."""
    used = {broker for each in found.partitions for broker in each.replicas}
    running = {each.id for each in found.brokers}
    for broker in sorted(leaving - used - running):
        raise PlanError(f"Broker {broker} does not run and has no replicas")
    for broker in sorted(used - running - leaving):
        raise PlanError(
            f"Broker {broker} has replicas but does not run. Start it, or let its replicas leave it by --decommission."
        )


async def _carry_out(
    wish: Wish,
    client: AdminClient,
    output: Output,
    found: Survey,
    changes: Mapping[TopicPartition, tuple[int, ...]],
) -> None:
    before = found.assignment
    if offline := sorted(partition for partition in changes if found.leaders[partition] is None):
        names = listed([f"{topic}-{number}" for topic, number in offline])
        raise PlanError(
            f"Without a leader, records cannot be copied: {names}. Start a broker that has these records."
        )
    _show(output, found, changes)
    summary = _summary(found, changes)
    if changes:
        output.say(f"{'Would move' if wish.dry_run else 'Moves'} {summary}")
    else:
        output.say("Nothing to move.")
    if wish.dry_run:
        return
    if changes:
        confirm(f"This moves {summary}", yes=wish.yes, refused="Nothing was moved.")
        _write_undo({partition: before[partition] for partition in changes})
    execution = Execution(client, output, found, leaving=wish.leaving, rate=wish.throttle)
    with cancelled_on_sigterm():
        await execution.run(changes)


def _write_undo(before: Assignment) -> None:
    """Writes the present replicas to a new file. Raises PlanError, so that nothing moves without this file."""
    path = Path(datetime.now(UTC).strftime(UNDO_NAME))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(assignment_json(before) + "\n")
    except OSError as error:
        raise PlanError(f"Cannot write the undo file {path}: {error.strerror}") from None
    warn(f"To undo the moves: kcli reassign-partitions --undo {path}")


def _summary(found: Survey, changes: Mapping[TopicPartition, tuple[int, ...]]) -> str:
    before = found.assignment
    copied = [partition for partition in changes if set(changes[partition]) - set(before[partition])]
    parts = []
    if copied:
        size = bytes_text(copied_bytes(changes, before, found.sizes))
        parts.append(
            f"{_plural(copied_replicas(changes, before), 'replica')} ({size}) of {_plural(len(copied), 'partition')}"
        )
    if len(copied) < len(changes):
        parts.append(f"the leaders of {_plural(len(changes) - len(copied), 'partition')}")
    count = len(batches(changes, before))
    return f"{' and '.join(parts)} in {_plural(count, 'batch', 'batches')}."


def _show(output: Output, found: Survey, changes: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    """Prints the moves, and the load of each broker before and after them."""
    before, sizes = found.assignment, found.sizes
    for partition, target in sorted(changes.items()):
        one = {partition: target}
        output.row(
            MoveRow(*partition, before[partition], target, copied_bytes(one, before, sizes)), _move_line
        )
    ids = [each.id for each in found.brokers]
    old, new = loads(ids, found.partitions), loads(ids, applied(found.partitions, changes))
    racks = {each.id: each.rack for each in found.brokers}
    empty = BrokerLoad(0, 0, 0)
    rows = []
    for broker in sorted({*old, *new}):
        was, will = old.get(broker, empty), new.get(broker, empty)
        counts = (was.replicas, will.replicas, was.leaders, will.leaders, was.size_bytes, will.size_bytes)
        rows.append(BrokerRow(broker, racks.get(broker), *counts))
    output.say(_TABLE.format("Broker", "Rack", "Replicas", "Leaders", "Bytes").rstrip())
    output.rows(rows, _broker_line)


_TABLE = "{:<8}{:<12}{:<16}{:<16}{}"


def _move_line(row: MoveRow) -> str:
    size = f" ({bytes_text(row.copied_bytes)})" if row.copied_bytes else ""
    return f"{row.topic}-{row.partition}: {_ids(row.replicas)} -> {_ids(row.target)}{size}"


def _broker_line(row: BrokerRow) -> str:
    return _TABLE.format(
        row.broker,
        row.rack or "-",
        f"{row.replicas_before} -> {row.replicas_after}",
        f"{row.leaders_before} -> {row.leaders_after}",
        f"{bytes_text(row.bytes_before)} -> {bytes_text(row.bytes_after)}",
    )


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


def _plural(count: int, noun: str, several: str = "") -> str:
    return f"1 {noun}" if count == 1 else f"{count} {several or noun + 's'}"
