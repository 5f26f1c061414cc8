"""The page "Balance": moves in progress, their throttle, and runs that distribute partitions evenly over brokers."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kcli.client.admin.reassignments import Reassignment
from kcli.client.reassign import throttles
from kcli.client.reassign.assignment import Assignment, ReassignError, assignment_json
from kcli.client.reassign.batches import copied_bytes
from kcli.client.reassign.cluster_state import (
    ClusterState,
    largest_replicas,
    read_cluster_state,
    replica_sizes,
)
from kcli.client.reassign.plans import broker_rows, changes_text, check_leaders, even_changes
from kcli.client.reassign.undo import write_undo
from kcli.console.answers import Outcome, Rows
from kcli.console.balance_runs import BalanceRuns, Run, replicas_before, undo_file
from kcli.console.cache import Aged
from kcli.console.calls import Action, Call, bad_request
from kcli.console.routes import Change, Read
from kcli.errors import KafkaError
from kcli.model.amounts import counted
from kcli.model.command_words import option, topic_pattern
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.java_text import parse_int
from kcli.model.topic_partition import TopicPartition

MOVES_SHOWN_MAX = 500
"""The most moves in the answer to a preview. The summary counts all moves."""

MOVES_SECONDS = 2.0
"""The time for which the list of moves is reused."""

REPLICAS_MAX = 32_767
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}\*?|\*")
"""The name of a topic, or the beginning of topic names and a star. Regular expressions are not accepted, because a bad
expression could run for hours.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRow:
    """A partition that moves, and the bytes of its new replicas (None if the brokers do not report them)."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    copied_bytes: int | None
    total_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """A partition of a plan."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    copied_bytes: int


def runs_of(call: Call) -> BalanceRuns:
    return call.shared.get("balance runs", BalanceRuns, BalanceRuns.close)


# Reads


async def show_balance(call: Call) -> dict[str, object]:
    """GET /balance: the latest run of this console, and the number of moves in progress."""
    run = _own_run(call)
    moves = await _cached_moves(call)
    return {"moving": len(moves.value), "run": None if run is None else run.shown()}


def _own_run(call: Call) -> Run | None:
    """Returns the latest run of this user. Runs of other users may contain topics that this user may not see."""
    run = runs_of(call).of(call.cluster)
    return run if run is not None and run.user == call.connection.identity.name else None


async def list_moves(call: Call) -> Rows:
    """GET /reassignments: the moves in progress, including moves that other tools have started."""
    moves = await _cached_moves(call)
    return call.listing().rows(
        moves.value,
        text=lambda row: f"{row.topic}-{row.partition}",
        columns={
            "partition": lambda row: (row.topic, row.partition),
            "total_bytes": lambda row: row.total_bytes,
            "copied_bytes": lambda row: row.copied_bytes,
        },
    )


async def _cached_moves(call: Call) -> Aged[Sequence[MoveRow]]:
    return await call.cached("moves", lambda: _moves(call), seconds=MOVES_SECONDS)


async def _moves(call: Call) -> Sequence[MoveRow]:
    running = await call.admin.list_reassignments()
    if not running:
        return []
    brokers = sorted({broker for reassignment in running.values() for broker in reassignment.replicas})
    try:
        sizes = await replica_sizes(call.admin, brokers)
    except KafkaError:
        sizes = {}  # the user may not see sizes, or a broker restarts
    largest = largest_replicas(sizes)
    rows = []
    for number, (partition, reassignment) in enumerate(sorted(running.items())):
        rows.append(_move_row(partition, reassignment, sizes, largest))
        if number % 200 == 0:
            await asyncio.sleep(0)
    return rows


def _move_row(
    partition: TopicPartition,
    reassignment: Reassignment,
    sizes: Mapping[int, Mapping[TopicPartition, int]],
    largest: Mapping[TopicPartition, int],
) -> MoveRow:
    copied = sum(sizes.get(broker, {}).get(partition, 0) for broker in reassignment.adding)
    return MoveRow(
        topic=partition.topic,
        partition=partition.partition,
        replicas=tuple(reassignment.replicas),
        adding=tuple(reassignment.adding),
        removing=tuple(reassignment.removing),
        copied_bytes=copied if sizes else None,
        total_bytes=largest.get(partition, 0) * len(reassignment.adding) if sizes else None,
    )


# Balance


async def balance(action: Action) -> Outcome:
    """POST /balance {"topics": [name or prefix*], "leaving": [broker ids as texts], "replication_factor": number,
    "rack_aware": bool, "throttle": bytes per second}: distributes partitions evenly over the brokers.

    The preview has the moves, and the load of each broker before and after them. The action starts a run and
    returns immediately.
    """
    action.target = "replicas of all topics"
    leaving = _leaving(action)
    factor = action.number("replication_factor", 0, most=REPLICAS_MAX) or None
    rate = action.number("throttle", 0) or None
    if leaving and action.texts("topics"):
        raise bad_request("topics: a broker becomes empty only with all topics")
    try:
        state = await read_cluster_state(action.admin, _matching(action))
        changes = even_changes(
            state, leaving=leaving, replication_factor=factor, rack_aware=not action.flag("ignore_racks")
        )
        check_leaders(state, changes)
        if not action.is_preview:
            runs = runs_of(action)
            runs.check_idle(action.cluster)
            run = Run(
                action.connection.identity.name,
                _amount(state, changes),
                undo_file(state, changes),
                action.work_ended,
            )
            run.undo_path = await _written_undo(action, state, changes)
            runs.start(
                action.cluster,
                run,
                action.connection.lasting_client(),
                state,
                changes,
                leaving=leaving,
                rate=rate,
            )
    except ReassignError as error:
        raise bad_request(str(error)) from None
    verb = "Would move" if action.is_preview else "The run has begun: it moves"
    return Outcome(
        command=_balance_command(action, leaving, factor, rate),
        summary=f"{verb} {_amount(state, changes)}" if changes else "Nothing to move. The brokers are even.",
        details={
            "brokers": broker_rows(state, changes),
            "moves": _planned_moves(state, changes),
            "undo": undo_file(state, changes),
        },
    )


async def _written_undo(action: Action, state: ClusterState, changes: Assignment) -> Path | None:
    """Writes the undo file, so that it outlives the console. If this fails, raises ReassignError, so that nothing moves
    without the file."""
    directory = action.settings.undo_directory
    if directory is None or not changes:
        return None
    return await asyncio.to_thread(write_undo, directory.absolute(), replicas_before(state, changes))


def _amount(state: ClusterState, changes: Assignment) -> str:
    return changes_text(state, changes) if changes else "nothing."


def _planned_moves(state: ClusterState, changes: Assignment) -> list[PlannedMove]:
    before, sizes = state.assignment, state.sizes
    return [
        PlannedMove(
            topic=partition.topic,
            partition=partition.partition,
            replicas=before[partition],
            target=target,
            copied_bytes=copied_bytes({partition: target}, before, sizes),
        )
        for partition, target in sorted(changes.items())[:MOVES_SHOWN_MAX]
    ]


def _leaving(action: Action) -> frozenset[int]:
    try:
        return frozenset(map(parse_int, action.texts("leaving")))
    except ValueError:
        raise bad_request("leaving: expected ids of brokers") from None


def _matching(action: Action) -> Callable[[str], bool]:
    patterns = action.texts("topics")
    for pattern in patterns:
        if TOPIC.fullmatch(pattern) is None:
            raise bad_request(
                f"topics: {pattern[:100]!r}: expected a topic, or the beginning of topic names and a star"
            )
    names = frozenset(pattern for pattern in patterns if not pattern.endswith("*"))
    beginnings = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    return lambda name: not patterns or name in names or name.startswith(beginnings)


def _balance_command(action: Action, leaving: frozenset[int], factor: int | None, rate: int | None) -> str:
    words = ["--decommission", ",".join(map(str, sorted(leaving)))] if leaving else ["--balance"]
    patterns = [topic_pattern(text).replace("*", ".*") for text in action.texts("topics")]
    if patterns and not leaving:
        words += option("topics", "|".join(patterns))
    if factor is not None:
        words += ["--replication-factor", str(factor)]
    if action.flag("ignore_racks"):
        words.append("--disable-rack-aware")
    if rate is not None:
        words += ["--throttle", str(rate)]
    return action.command("reassign-partitions", *words)


async def stop_balance(action: Action) -> Outcome:
    """POST /balance/stop: removes the throttle of the run, and stops the run. Moves that have started continue."""
    action.target = "the run of this console"
    run = _own_run(action)
    if run is None or run.is_over:
        raise bad_request("no run of yours is in progress")
    command = await _unthrottling(action, await action.admin.list_reassignments())
    if not action.is_preview:
        await runs_of(action).stop(action.cluster)
    verb = "would stop" if action.is_preview else "has stopped"
    return Outcome(
        command=command,
        summary=f"The run {verb}. Moves that have started continue without a throttle. Only this console can stop "
        "its run. The commands remove the throttle.",
    )


# Moves in progress


async def cancel_moves(action: Action) -> Outcome:
    """POST /reassignments/cancel {"partitions": ["orders:0"]} (empty: all): partitions keep their old replicas."""
    running = await _chosen(action)
    action.target = f"{len(running)} moves"
    if not action.is_preview:
        targets: dict[TopicPartition, tuple[int, ...] | None] = dict.fromkeys(running)
        for partition, error in (await action.admin.alter_reassignments(targets)).items():
            if error is not None:
                raise bad_request(f"{partition}: {error.message}")
    verb = "would be" if action.is_preview else "was" if len(running) == 1 else "were"
    rest = "The partition keeps its" if len(running) == 1 else "The partitions keep their"
    return Outcome(
        command=_with_file(action, running, "--cancel"),
        summary=f"{counted(len(running), 'move')} {verb} cancelled. {rest} old replicas.",
    )


async def change_throttle(action: Action) -> Outcome:
    """POST /reassignments/throttle {"rate": bytes per second, or 0 to remove the throttle}: limits the moves in
    progress."""
    rate = action.number("rate")
    running = await _chosen(action)
    action.target = f"{len(running)} moves"
    verb = "would be" if action.is_preview else "is"
    if rate:
        command = _with_file(action, running, "--execute", "--additional", "--throttle", str(rate))
        if not action.is_preview:
            await throttles.limit_moves(action.admin, throttles.moves_of(running, {}, {}), rate)
        state = f"{verb} {rate} bytes per second on each broker"
    else:
        command = await _unthrottling(action, running)
        if not action.is_preview:
            for broker in _brokers(running):
                await throttles.clear_broker_moves(action.admin, broker)
            await throttles.clear_topics(action.admin, _topics(running))
        state = f"{verb} removed"
    return Outcome(command=command, summary=f"The throttle of {counted(len(running), 'move')} {state}.")


def _brokers(running: Mapping[TopicPartition, Reassignment]) -> list[int]:
    moves = throttles.moves_of(running, {}, {}).values()
    return sorted({broker for move in moves for broker in move.sources | move.destinations})


def _topics(running: Mapping[TopicPartition, Reassignment]) -> list[str]:
    return sorted({partition.topic for partition in running})


async def _unthrottling(action: Action, running: Mapping[TopicPartition, Reassignment]) -> str:
    """The command lines that remove the throttle of moves in progress. `--verify` would keep this throttle until the
    end of the moves."""
    rates = await throttles.throttles_of(action.admin, _brokers(running), _topics(running))
    lines = [_throttle_command(action, resource, names) for resource, names in rates.items()]
    return "\n".join(lines) or "# The moves in progress have no throttle."


def _throttle_command(action: Action, resource: ConfigResource, names: Sequence[str]) -> str:
    kind = "brokers" if resource.type is ConfigResourceType.BROKER else "topics"
    entity = ("--entity-type", kind, *option("entity-name", resource.name))
    return action.command("configs", "--alter", *entity, "--delete-config", ",".join(sorted(names)))


async def _chosen(action: Action) -> dict[TopicPartition, Reassignment]:
    running = await action.admin.list_reassignments()
    texts = action.texts("partitions")
    if texts:
        by_name = {f"{partition.topic}:{partition.partition}": partition for partition in running}
        missing = [text for text in texts if text not in by_name]
        if missing:
            raise bad_request(f"{missing[0][:300]} does not move")
        running = {by_name[text]: running[by_name[text]] for text in texts}
    if not running:
        raise bad_request("no partition moves")
    return dict(running)


def _with_file(action: Action, running: Mapping[TopicPartition, Reassignment], *words: str) -> str:
    """Two command lines: one writes the moves in progress to a file, and one runs `kcli reassign-partitions` with this
    file."""
    targets = {
        partition: tuple(broker for broker in reassignment.replicas if broker not in reassignment.removing)
        for partition, reassignment in running.items()
    }
    made = action.command("reassign-partitions", *words, "--reassignment-json-file", "moves.json")
    return f"printf '%s\\n' {shlex.quote(assignment_json(targets))} > moves.json\n{made}"


ROUTES = (
    Read("/balance", show_balance),
    Read("/reassignments", list_moves),
    Change("/balance", "balance brokers", balance),
    Change("/balance/stop", "stop balance", stop_balance),
    Change("/reassignments/cancel", "cancel moves", cancel_moves),
    Change("/reassignments/throttle", "throttle moves", change_throttle),
)
