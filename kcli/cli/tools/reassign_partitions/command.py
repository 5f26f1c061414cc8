"""kafka-reassign-partitions: moves replicas between brokers and between the log directories of a broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

from kcli.cli.connect import admin
from kcli.cli.output import Output, java_text
from kcli.cli.partitions_file import FileError, read_text
from kcli.cli.syntax.jopt import let_through
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    OnParseError,
    ParseError,
)
from kcli.cli.tools.reassign_partitions import balancing
from kcli.cli.tools.reassign_partitions.moves import MoveState, log_dir_moves, move_line, start_moves
from kcli.cli.tools.reassign_partitions.options import ReassignOptions, checked
from kcli.cli.tools.reassign_partitions.plan import (
    Plan,
    PlanError,
    check_plan,
    parse_brokers,
    parse_plan,
    parse_topics,
)
from kcli.cli.watch import watch
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.cluster import ClusterDescription
from kcli.client.admin.topics import TopicDescription
from kcli.client.client import Node
from kcli.client.reassign import throttles
from kcli.client.reassign.assignment import Assignment, ReassignError, assignment_json
from kcli.command.examples import FAILURE, INTERRUPTED, TERMINATED, Example
from kcli.errors import (
    ErrorCode,
    InvalidReplicationFactorException,
    KafkaError,
    UnknownTopicOrPartitionException,
)
from kcli.model.ids import BrokerId
from kcli.model.java_order import hash_order
from kcli.model.topic_partition import TopicPartition

RUN_VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, "
    "to ensure the throttle is removed."
)
ALREADY_MOVING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)


@dataclass(frozen=True, slots=True)
class AssignmentRow:
    """One partition of an assignment. `what` is current, proposed, started or cancelled."""

    what: str
    topic: str
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StatusRow:
    """The progress of one partition."""

    topic: str
    partition: int
    done: bool
    replicas: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OngoingRow:
    """A partition with a reassignment in progress."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class _Terse(Exception):
    """A failure whose message is printed on stdout without `Error:`."""


async def run(options: ReassignOptions, output: Output) -> None:
    """Performs the one action that the options name. As in Kafka's tool, a failure is reported on stdout."""
    action = checked(options)
    try:
        # This tool's --timeout is for moves between log directories, so it is not passed to the admin client.
        client = admin(
            replace(options, timeout=None),
            client_id="reassign-partitions-tool",
            bootstrap_controller=options.bootstrap_controller,
        )
    except CommandError as error:
        _fail(output, str(error))
    try:
        async with client:
            await _DO[action](options, client, output)
    except _Terse as error:
        _fail(output, str(error), terse=True)
    except (FileError, ReassignError) as error:
        _fail(output, str(error))
    except KafkaError as error:
        _fail(output, java_text(error))


def _fail(output: Output, message: str, *, terse: bool = False) -> NoReturn:
    if not output.is_text:
        raise CommandError(message)
    output.say(message if terse else _error(message))
    raise CommandError


def _error(message: object) -> str:
    """Returns an error message with an empty line after it, because Kafka's stack trace ends with an empty line."""
    return f"Error: {message}\n"


def _parse_failed(error: ParseError) -> int:
    """Reports a parse error. If joptsimple finds the error only when Kafka's tool uses the value, the error is reported
    like a failed action.
    """
    if not error.is_late:
        return let_through(error)
    Output().say(_error(error))
    return 1


# --- generate


async def _generate(options: ReassignOptions, client: AdminClient, output: Output) -> None:
    assert options.broker_list is not None and options.topics_to_move_json_file is not None
    text = read_text(options.topics_to_move_json_file)
    brokers = parse_brokers(options.broker_list)
    topics = parse_topics(text)
    described = await _describe(client, topics)
    current: Assignment = {
        TopicPartition(topic.name, partition.partition): partition.replicas
        for topic in described
        for partition in topic.partitions
    }
    nodes = _usable(await client.describe_cluster(), brokers, rack_aware=not options.disable_rack_aware)
    proposed: Assignment = {}
    for topic in described:
        placed = _placed(nodes, len(topic.partitions), len(topic.partitions[0].replicas))
        proposed.update(
            {TopicPartition(topic.name, number): replicas for number, replicas in enumerate(placed)}
        )
    output.say(f"Current partition replica assignment\n{assignment_json(current)}\n")
    output.say(f"Proposed partition reassignment configuration\n{assignment_json(proposed)}")
    _rows(output, "current", current)
    _rows(output, "proposed", proposed)


async def _describe(client: AdminClient, topics: Iterable[str]) -> list[TopicDescription]:
    """Describes topics. Raises the first error, with Kafka's message for a missing topic."""
    descriptions = []
    for name, topic in (await client.describe_topics(topics)).items():
        if isinstance(topic, KafkaError):
            if topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopicOrPartitionException(f"Topic {name} not found.")
            raise topic
        descriptions.append(topic)
    return descriptions


def _usable(cluster: ClusterDescription, brokers: list[int], *, rack_aware: bool) -> list[Node]:
    nodes = [node for node in cluster.nodes if node.id in brokers]
    with_rack = sum(node.rack is not None for node in nodes)
    if rack_aware and 0 < with_rack < len(nodes):
        raise PlanError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    if not rack_aware:
        nodes = [Node(node.id, node.host, node.port) for node in nodes]
    return nodes


def _placed(nodes: list[Node], partitions: int, replication_factor: int) -> list[tuple[int, ...]]:
    from kcli.controller.placement import UsableBroker, place
    from kcli.runtime.rng import SystemRng

    usable = [UsableBroker(BrokerId(node.id), node.rack, fenced=False) for node in nodes]
    try:
        return [tuple(replicas) for replicas in place(usable, partitions, replication_factor, SystemRng())]
    except InvalidReplicationFactorException as error:
        raise PlanError(f"{error.message}\n{java_text(error)}") from None  # Kafka prints both lines


# --- execute


async def _execute(options: ReassignOptions, client: AdminClient, output: Output) -> None:
    plan = _plan(options)
    check_plan(plan)
    running = await client.list_reassignments()
    if running and not options.additional:
        raise _Terse(ALREADY_MOVING)
    known = {node.id for node in (await client.describe_cluster()).nodes}
    for _, replicas in plan.entries:
        for broker in replicas:
            if broker not in known:
                raise PlanError(f"Unknown broker id {broker}")
    current = await _current(client, plan)
    output.say(f"Current partition replica assignment\n\n{assignment_json(current)}\n")
    output.say("Save this to use as the --reassignment-json-file option during rollback")
    _rows(output, "current", current)
    if options.dry_run:
        output.say(
            f"Would start {_plural('partition reassignment', plan.assignment)} for {_names(plan.assignment)}"
        )
        return
    await _throttle(options, client, output, plan, throttles.moves_of(running, plan.assignment, current))
    errors = await client.alter_reassignments(
        plan.assignment, allow_replication_factor_change=not options.disallow_replication_factor_change
    )
    _refuse(errors, "Error reassigning partition(s)")
    output.say(
        f"Successfully started {_plural('partition reassignment', plan.assignment)} for {_names(plan.assignment)}"
    )
    _rows(output, "started", plan.assignment)
    if plan.log_dirs:
        await _start_moves(options, client, output, plan)


async def _start_moves(options: ReassignOptions, client: AdminClient, output: Output, plan: Plan) -> None:
    assert options.timeout is not None
    left = await start_moves(client, plan.log_dirs, options.timeout, output)
    if left:
        raise _Terse(
            f"Timed out before {_plural('log directory move', left)} could be started for: "
            f"{','.join(map(str, sorted(left)))}"
        )


async def _current(client: AdminClient, plan: Plan) -> Assignment:
    described = await _describe(client, sorted({topic for topic, _ in plan.assignment}))
    assignment = {
        (topic.name, partition.partition): partition.replicas
        for topic in described
        for partition in topic.partitions
    }
    for topic, number in sorted(plan.assignment):
        if (topic, number) not in assignment:
            raise UnknownTopicOrPartitionException(f"Unable to find partition: {topic}-{number}")
    return {partition: assignment[partition] for partition in plan.assignment}


async def _throttle(
    options: ReassignOptions,
    client: AdminClient,
    output: Output,
    plan: Plan,
    moves: Mapping[TopicPartition, throttles.Move],
) -> None:
    rate, log_dir_rate = options.throttle, options.replica_alter_log_dirs_throttle
    if (rate is None or rate < 0) and (log_dir_rate is None or log_dir_rate < 0):
        return
    output.say(RUN_VERIFY)
    if rate is not None and rate >= 0:
        await throttles.limit_moves(client, moves, rate)
        output.say(f"The inter-broker throttle limit was set to {rate} B/s")
    if log_dir_rate is not None and log_dir_rate >= 0:
        await throttles.limit_log_dirs(client, (replica.broker for replica in plan.log_dirs), log_dir_rate)
        output.say(f"The replica-alter-dir throttle limit was set to {log_dir_rate} B/s")


def _refuse(errors: Mapping[TopicPartition, KafkaError | None], headline: str) -> None:
    refused = {partition: error for partition, error in errors.items() if error is not None}
    if refused:
        lines = [
            f"{topic}-{number}: {refused[TopicPartition(topic, number)].message}"
            for topic, number in sorted(refused)
        ]
        raise _Terse("\n".join([f"{headline}:", *lines]))


# --- verify, cancel, list


async def _verify(options: ReassignOptions, client: AdminClient, output: Output) -> None:
    if options.watch is None:
        await _verify_once(options, client, output)
    else:
        await watch(options.watch, partial(_verify_once, options, client), output.format)


async def _verify_once(options: ReassignOptions, client: AdminClient, output: Output) -> bool:
    """Reports the progress, and removes the throttles if all moves are done. Returns whether they are done."""
    plan = _plan(options)
    rows = await _statuses(client, plan.assignment)
    output.say("Status of partition reassignment:")
    output.rows(rows, _status_line)
    moves = await log_dir_moves(client, plan.log_dirs)
    output.say("\n".join(move_line(move) for move in moves))
    if not output.is_text:
        output.rows(moves, move_line)
    ongoing = any(not row.done for row in rows) or any(move.state is MoveState.ACTIVE for move in moves)
    if not ongoing and not options.preserve_throttles:
        await _clear_throttles(client, output, plan)
    return not ongoing


async def _statuses(client: AdminClient, targets: Assignment) -> list[StatusRow]:
    running = await client.list_reassignments()
    still = sorted({topic for topic, number in targets if (topic, number) not in running})
    described = await client.describe_topics(still)
    rows = []
    for topic, number in sorted(targets):
        target = targets[TopicPartition(topic, number)]
        if (topic, number) in running:
            rows.append(
                StatusRow(topic, number, False, running[TopicPartition(topic, number)].replicas, target)
            )
            continue
        description = described[topic]
        if isinstance(description, KafkaError):
            if description.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise description
            replicas: tuple[int, ...] = ()
        else:
            replicas = next(
                (partition.replicas for partition in description.partitions if partition.partition == number),
                (),
            )
        rows.append(StatusRow(topic, number, True, replicas, target))
    return rows


def _status_line(row: StatusRow) -> str:
    if not row.done:
        return f"Reassignment of partition {row.topic}-{row.partition} is still in progress."
    if row.replicas == row.target:
        return f"Reassignment of partition {row.topic}-{row.partition} is completed."
    return (
        f"There is no active reassignment of partition {row.topic}-{row.partition}, but replica set is "
        f"{_ids(row.replicas)} rather than {_ids(row.target)}."
    )


async def _clear_throttles(client: AdminClient, output: Output, plan: Plan) -> None:
    """Clears the throttles of every broker, because the tool does not know the sources of earlier moves."""
    brokers = {node.id for node in (await client.describe_cluster()).nodes}
    brokers.update(broker for _, replicas in plan.entries for broker in replicas)
    output.say(f"Clearing broker-level throttles on {_plural('broker', brokers)} {_ids(sorted(brokers))}")
    await throttles.clear_brokers(client, sorted(brokers))
    topics = hash_order(topic for topic, _ in plan.assignment)
    output.say(f"Clearing topic-level throttles on {_plural('topic', topics)} {','.join(topics)}")
    await throttles.clear_topics(client, topics)


async def _cancel(options: ReassignOptions, client: AdminClient, output: Output) -> None:
    plan = _plan(options)
    active = sorted(await client.list_reassignments(plan.assignment))
    targets: dict[TopicPartition, tuple[int, ...] | None] = dict.fromkeys(active)
    if options.dry_run:
        output.say(f"Would cancel {_plural('partition reassignment', active)} for: {_names(active)}")
        return
    if active:
        _refuse(
            await client.alter_reassignments(targets),
            f"Error cancelling {_plural('partition reassignment', active)} for",
        )
        output.say(
            f"Successfully cancelled {_plural('partition reassignment', active)} for: {_names(active)}"
        )
        _rows(output, "cancelled", {partition: plan.assignment[partition] for partition in active})
    else:
        output.say("None of the specified partition reassignments are active.")
    moving = [move for move in await log_dir_moves(client, plan.log_dirs) if move.state is MoveState.ACTIVE]
    if moving:
        home = {move.replica: move.current for move in moving if move.current is not None}
        await _start_moves(options, client, output, Plan(plan.entries, home))
    else:
        output.part("None of the specified partition moves are active.")
    if not options.preserve_throttles:
        await _clear_throttles(client, output, plan)


async def _list(_options: ReassignOptions, client: AdminClient, output: Output) -> None:
    running = await client.list_reassignments()
    output.say("Current partition reassignments:" if running else "No partition reassignments found.")
    rows = [
        OngoingRow(topic, number, reassignment.replicas, reassignment.adding, reassignment.removing)
        for (topic, number), reassignment in sorted(running.items())
    ]
    output.rows(rows, _ongoing_line)


def _ongoing_line(row: OngoingRow) -> str:
    adding = f" adding: {_ids(row.adding)}." if row.adding else ""
    removing = f" removing: {_ids(row.removing)}." if row.removing else ""
    return f"{row.topic}-{row.partition}: replicas: {_ids(row.replicas)}.{adding}{removing}"


# --- balance, decommission, undo


async def _balance(options: ReassignOptions, client: AdminClient, output: Output) -> None:
    await balancing.balance(_wish(options), client, output)


async def _undo(options: ReassignOptions, client: AdminClient, output: Output) -> None:
    assert options.undo is not None
    await balancing.undo(read_text(options.undo), _wish(options), client, output)


def _wish(options: ReassignOptions) -> balancing.Wish:
    return balancing.Wish(
        topics=".*" if options.topics is None else options.topics,
        leaving=frozenset(parse_brokers(options.decommission) if options.decommission is not None else ()),
        replication_factor=options.replication_factor,
        rack_aware=not options.disable_rack_aware,
        throttle=options.throttle,
        dry_run=options.dry_run,
        yes=options.yes,
    )


# --- texts


def _plan(options: ReassignOptions) -> Plan:
    assert options.reassignment_json_file is not None
    return parse_plan(read_text(options.reassignment_json_file))


def _rows(output: Output, what: str, assignment: Assignment) -> None:
    """Writes rows for json and tsv. The text output already has the same content."""
    if not output.is_text:
        for topic, number in sorted(assignment):
            output.row(AssignmentRow(what, topic, number, assignment[TopicPartition(topic, number)]), "")


def _plural(noun: str, of: Iterable[object]) -> str:
    return noun if len(list(of)) == 1 else f"{noun}s"


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ",".join(f"{topic}-{number}" for topic, number in sorted(partitions))


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


_DO: Mapping[str, Callable[[ReassignOptions, AdminClient, Output], Awaitable[None]]] = {
    "generate": _generate,
    "execute": _execute,
    "verify": _verify,
    "cancel": _cancel,
    "list": _list,
    "balance": _balance,
    "decommission": _balance,
    "undo": _undo,
}

command = Command(
    name="reassign-partitions",
    description="This tool helps to move topic partitions between replicas.",
    options=ReassignOptions,
    run=run,
    on_parse_error=OnParseError.MESSAGE,
    parse_failed=_parse_failed,
    examples=(
        Example(
            "Propose an assignment of a topic to brokers 1, 2 and 3:",
            'echo \'{"topics": [{"topic": "orders"}], "version": 1}\' > to-move.json\n'
            "kcli reassign-partitions --bootstrap-server localhost:9092 --generate \\\n"
            "  --topics-to-move-json-file to-move.json --broker-list 1,2,3",
        ),
        Example(
            "List the partitions that are being moved:",
            "kcli reassign-partitions --bootstrap-server localhost:9092 --list",
        ),
        Example(
            "Show a plan that spreads replicas evenly over the brokers, but move nothing:",
            "kcli reassign-partitions --bootstrap-server localhost:9092 --balance \\\n  --dry-run",
        ),
        Example(
            "Spread the replicas of some topics evenly over the brokers:",
            "kcli reassign-partitions --bootstrap-server localhost:9092 --balance \\\n"
            "  --topics 'orders,payments.*' --yes",
        ),
    ),
    exit_status=(
        (
            0,
            (
                "The command succeeded. With --verify, some moves may still be in progress. With --watch, the code is "
                "also 0 if Ctrl-C ended the command."
            ),
        ),
        FAILURE,
        INTERRUPTED,
        TERMINATED,
    ),
)
