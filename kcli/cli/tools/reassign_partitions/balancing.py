"""`--balance`, `--decommission` and `--undo`: plans or reads moves, shows them, asks for confirmation, and executes
them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kcli.cli.confirm import confirm
from kcli.cli.output import Output, java_text, warn
from kcli.cli.signals import cancelled_on_sigterm
from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.reassign_partitions.plan import (
    PlanError,
    check_plan,
    parse_plan,
)
from kcli.cli.topic_filter import topic_filter
from kcli.client.admin.admin import AdminClient
from kcli.client.reassign.assignment import ThrottleLeftError
from kcli.client.reassign.batches import copied_bytes
from kcli.client.reassign.cluster_state import ClusterState, read_cluster_state
from kcli.client.reassign.execution import BatchRow, Execution
from kcli.client.reassign.plans import BrokerRow, broker_rows, changes_text, check_leaders, even_changes
from kcli.client.reassign.undo import write_undo
from kcli.model.amounts import bytes_text
from kcli.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The wanted state of the cluster, and the settings for the execution of the moves."""

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


async def balance(wish: Wish, client: AdminClient, output: Output) -> None:
    """Distributes replicas evenly over the brokers, except the brokers in `wish.leaving`. Raises PlanError, KafkaError
    or CommandError.
    """
    try:
        matches = topic_filter(wish.topics)
    except ValueError as error:
        raise PlanError(str(error)) from None
    state = await read_cluster_state(client, matches)
    changes = even_changes(
        state,
        leaving=wish.leaving,
        replication_factor=wish.replication_factor,
        rack_aware=wish.rack_aware,
    )
    await _carry_out(wish, client, output, state, changes)


async def undo(text: str, wish: Wish, client: AdminClient, output: Output) -> None:
    """Moves partitions to the replicas of an undo file. Raises PlanError, KafkaError or CommandError."""
    plan = parse_plan(text)
    check_plan(plan)
    topics = {topic for topic, _ in plan.assignment}
    state = await read_cluster_state(client, topics.__contains__)
    before = state.assignment
    for topic, number in sorted(plan.assignment.keys() - before.keys()):
        raise PlanError(f"Unable to find partition: {topic}-{number}")
    changes = {
        partition: replicas
        for partition, replicas in sorted(plan.assignment.items())
        if replicas != before[partition]
    }
    known = {broker.id for broker in state.brokers}
    for broker in sorted({broker for replicas in changes.values() for broker in replicas} - known):
        raise PlanError(f"Broker {broker} of the undo file does not run")
    await _carry_out(wish, client, output, state, changes)


async def _carry_out(
    wish: Wish,
    client: AdminClient,
    output: Output,
    state: ClusterState,
    changes: Mapping[TopicPartition, tuple[int, ...]],
) -> None:
    before = state.assignment
    check_leaders(state, changes)
    _show(output, state, changes)
    summary = changes_text(state, changes)
    if changes:
        output.say(f"{'Would move' if wish.dry_run else 'Moves'} {summary}")
    else:
        output.say("Nothing to move.")
    if wish.dry_run:
        return
    if changes:
        confirm(f"This moves {summary}", yes=wish.yes, refused="Nothing was moved.")
        path = write_undo(Path(), {partition: before[partition] for partition in changes})
        warn(f"To undo the moves: kcli reassign-partitions --undo {path}")
    execution = Execution(client, _Reporter(output), state, leaving=wish.leaving, rate=wish.throttle)
    with cancelled_on_sigterm():
        try:
            await execution.run(changes)
        except ThrottleLeftError as error:
            raise CommandError(str(error)) from None


class _Reporter:
    """Writes what a run does: results on stdout, warnings on stderr, and on a terminal the progress in one line."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.shows_progress = sys.stderr.isatty()
        self.say = output.say
        self.warn = output.warn
        self.error_text = java_text

    def batch_done(self, row: BatchRow, line: str) -> None:
        self._output.row(row, line)
        sys.stdout.flush()

    def progress(self, line: str | None) -> None:
        if self.shows_progress:
            sys.stderr.write("\r\x1b[K" if line is None else f"\r{line}\x1b[K")
            sys.stderr.flush()


def _show(output: Output, state: ClusterState, changes: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    """Prints the moves, and the load of each broker before and after them."""
    before, sizes = state.assignment, state.sizes
    for partition, target in sorted(changes.items()):
        one = {partition: target}
        output.row(
            MoveRow(*partition, before[partition], target, copied_bytes(one, before, sizes)), _move_line
        )
    rows = broker_rows(state, changes)
    output.say(_TABLE.format("Broker", "Rack", "Replicas", "Preferred leaders", "Bytes").rstrip())
    output.rows(rows, _broker_line)


_TABLE = "{:<8}{:<12}{:<16}{:<19}{}"


def _move_line(row: MoveRow) -> str:
    size = f" ({bytes_text(row.copied_bytes)})" if row.copied_bytes else ""
    return f"{row.topic}-{row.partition}: {_ids(row.replicas)} -> {_ids(row.target)}{size}"


def _broker_line(row: BrokerRow) -> str:
    return _TABLE.format(
        row.broker,
        row.rack or "-",
        f"{row.replicas_before} -> {row.replicas_after}",
        f"{row.preferred_leaders_before} -> {row.preferred_leaders_after}",
        f"{bytes_text(row.bytes_before)} -> {bytes_text(row.bytes_after)}",
    )


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
