"""kafka-topics: creates, lists, describes, alters and deletes topics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.confirm import confirm
from kcli.cli.connect import admin
from kcli.cli.output import Output, warn
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    Kind,
    OnParseError,
    ParseError,
    java_split,
)
from kcli.cli.tools.topics.options import PARTITION_REPORTS, TopicsOptions, check
from kcli.cli.topic_filter import topic_filter
from kcli.command.examples import INTERRUPTED, USUAL, Example
from kcli.errors import ErrorCode, KafkaError, KcliError
from kcli.model.amounts import listed
from kcli.model.java_text import trim

if TYPE_CHECKING:
    from kcli.cli.tools.topics.describe import TopicRow
    from kcli.client.admin.admin import AdminClient

REPLICATION_FACTOR_MAX = 32767  # a Java short
FILE_OF_TOPICS = """\
topics:
  orders:
    partitions: 6              # if missing: a new topic gets the broker's default
    replication-factor: 1      # if missing: a new topic gets the broker's default
    configs:                   # settings that are not listed stay as they are
      retention.ms: 86400000
      cleanup.policy: [compact, delete]
      max.message.bytes:       # no value: sets the default again
  payments: {partitions: 3}
"""
COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
    "collide. To avoid issues it is best to use either, but not both."
)


@dataclass(frozen=True, slots=True)
class TopicName:
    """One line of --list."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A change of a topic that was made, or that would be made without --dry-run."""

    topic: str
    action: str
    dry_run: bool


async def run(options: TopicsOptions, output: Output) -> int:
    """Checks the options as Kafka does, then performs the action that the options select."""
    check(options)
    async with admin(options) as client:
        try:
            return await _act(options, client, output)
        except (KcliError, ValueError) as error:
            _failed(str(error), output)
            raise CommandError from error


async def _act(options: TopicsOptions, client: AdminClient, output: Output) -> int:
    if options.apply is not None:
        from kcli.cli.tools.topics.apply import apply

        return await apply(options, client, output)
    if options.create:
        await _create(options, client, output)
    elif options.alter:
        await _alter(options, client, output)
    elif options.list:
        await _list(options, client, output)
    elif options.describe:
        await _describe(options, client, output)
    else:
        await _delete(options, client, output)
    return 0


def _failed(message: str, output: Output) -> None:
    """Reports a failure: on stdout, as Kafka does, or on stderr if stdout has json or tsv."""
    if output.is_text:
        output.say(f"Error while executing topic command : {message}")
    else:
        warn(message)


def _parse_failed(error: ParseError) -> int:
    """Reports a parse error. Kafka reads some arguments only after the action has begun, so their errors are reported
    as failed actions.

    Kafka creates its client before the action, so errors of the client's options are reported like other parse errors.
    """
    if error.is_late and error.option not in ("bootstrap-server", "command-config"):
        _failed(str(error), Output())
    else:
        warn(str(error))
    return 1


async def _create(options: TopicsOptions, client: AdminClient, output: Output) -> None:
    from kcli.client.admin.topics import NewTopic

    assert options.topic is not None
    assignment = _assignment(options.replica_assignment)
    configs = _configs(options.config)
    if "." in options.topic or "_" in options.topic:
        output.say(COLLISION_WARNING)
    factor = options.replication_factor
    if factor is not None and not 1 <= factor <= REPLICATION_FACTOR_MAX:
        raise ValueError(f"The replication factor must be between 1 and {REPLICATION_FACTOR_MAX} inclusive")
    if options.partitions is not None and options.partitions < 1:
        raise ValueError("The partitions must be greater than 0")
    topic = NewTopic(
        name=options.topic,
        partitions=-1 if options.partitions is None else options.partitions,
        replication_factor=-1 if factor is None else factor,
        assignments=assignment,
        configs=configs,
    )
    results = await client.create_topics([topic], validate_only=options.dry_run)
    error = results.get(options.topic)
    if error is not None:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and options.if_not_exists:
            return
        raise error
    done = "Would create topic" if options.dry_run else "Created topic"
    output.row(TopicChange(options.topic, "create", options.dry_run), f"{done} {options.topic}.")
    if factor is not None and factor > 1 and not assignment:
        await _warn_of_shared_racks(factor, client, output)


async def _warn_of_shared_racks(replication_factor: int, client: AdminClient, output: Output) -> None:
    """Warns if there are fewer racks than replicas. If the racks cannot be read, no error is reported, because the
    topic already exists."""
    with contextlib.suppress(KafkaError):
        racks = {node.rack for node in (await client.describe_cluster()).nodes}
        if racks != {None} and len(racks) < replication_factor:
            output.warn(
                f"WARNING: The replication factor {replication_factor} exceeds the number of racks ({len(racks)}), so "
                "replicas of a partition share a rack."
            )


async def _alter(options: TopicsOptions, client: AdminClient, output: Output) -> None:
    from kcli.client.admin.topics import NewPartitions

    assignment = _assignment(options.replica_assignment)
    names = await _matching(options, client)
    _ensure_found(options, names)
    if not names:
        return
    assert options.partitions is not None
    additions = []
    described = await client.describe_topics(names) if assignment else {}
    for name in names:
        added = None
        if assignment:
            topic = described[name]
            if isinstance(topic, KafkaError):
                raise topic
            added = tuple(
                brokers for number, brokers in assignment.items() if number >= len(topic.partitions)
            )
        additions.append(NewPartitions(topic=name, count=options.partitions, assignments=added))
    results = await client.create_partitions(additions, validate_only=options.dry_run)
    _raise_first(results)
    for name in names:
        _changed(
            output,
            name,
            "alter",
            options.dry_run,
            f"Would grow topic {name} to {options.partitions} partitions.",
        )


async def _list(options: TopicsOptions, client: AdminClient, output: Output) -> None:
    names = await _matching(options, client)
    output.say("\n".join(names))
    if not output.is_text:
        output.rows([TopicName(name) for name in names], lambda row: row.topic)


async def _delete(options: TopicsOptions, client: AdminClient, output: Output) -> None:
    names = await _matching(options, client)
    _ensure_found(options, names)
    if names and not options.dry_run:
        confirm(_loss(names), yes=options.yes)
        _raise_first(await client.delete_topics(names))
    for name in names:
        _changed(output, name, "delete", options.dry_run, f"Would delete topic {name}.")


async def _describe(options: TopicsOptions, client: AdminClient, output: Output) -> None:
    from kcli.cli.tools.topics.describe import describe, describe_by_id, id_of

    topic_id = id_of(options.topic_id)
    if topic_id is not None:
        rows, failures = await describe_by_id(options, client, topic_id)
    else:
        names = await _matching(options, client)
        _ensure_found(options, names)
        rows, failures = await describe(options, client, names)
    for row in rows:
        text = _text_of(options)(row)
        if text or not output.is_text:
            output.row(row, text)
    for error in failures[1:]:
        _failed(str(error), output)
    if failures:
        raise failures[0]


def _text_of(options: TopicsOptions) -> Callable[[TopicRow], str]:
    from kcli.cli.tools.topics.describe import text

    only_partitions = any(options.has(report) for report in PARTITION_REPORTS)
    return lambda row: text(row, topic=not only_partitions, partitions=not options.topics_with_overrides)


async def _matching(options: TopicsOptions, client: AdminClient) -> list[str]:
    """Returns the names of the topics that `--topic` matches, sorted."""
    listed = await client.list_topics(internal=not options.exclude_internal)
    matches = topic_filter(options.topic) if options.topic is not None else lambda _: True
    return [topic.name for topic in listed if matches(topic.name)]


def _ensure_found(options: TopicsOptions, names: list[str]) -> None:
    if options.topic and not names and not options.if_exists:
        raise ValueError(f"Topic '{options.topic}' does not exist as expected")


def _loss(names: list[str]) -> str:
    topics = "topic" if len(names) == 1 else f"{len(names)} topics"
    return f"This deletes {topics} {listed(names)} with all records."


def _changed(output: Output, name: str, action: str, dry_run: bool, would: str) -> None:
    """Prints a change. Text output has only the changes of a dry run, because Kafka prints nothing about a change."""
    if dry_run or not output.is_text:
        output.row(TopicChange(name, action, dry_run), would)


def _raise_first(results: dict[str, KafkaError | None]) -> None:
    for error in results.values():
        if error is not None:
            raise error


def _configs(pairs: tuple[str, ...]) -> dict[str, str]:
    """Returns the settings of a new topic. As in Kafka's tool, they are checked before the request."""
    if not pairs:
        return {}
    from kcli.config.definition import ConfigError
    from kcli.config.topic import TOPIC

    configs: dict[str, str] = {}
    for pair in pairs:
        parts = java_split(pair, "=")
        if len(parts) != 2:
            raise ValueError(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        configs[trim(parts[0])] = trim(parts[1])
    for name in configs:
        if name not in TOPIC:
            raise ValueError(f"Unknown topic config name: {name}")
    try:
        TOPIC.parse(configs)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return configs


def _assignment(text: str | None) -> dict[int, tuple[int, ...]]:
    """Parses a replica assignment `b:b,b:b`: the brokers of each partition. Raises ValueError with Kafka's message."""
    assignment: dict[int, tuple[int, ...]] = {}
    for number, part in enumerate(java_split(text) if text else ()):
        brokers = tuple(Kind.INTEGER.convert(trim(broker)) for broker in java_split(part, ":"))
        whole = tuple(broker for broker in brokers if isinstance(broker, int))
        repeated = [str(broker) for broker in dict.fromkeys(whole) if whole.count(broker) > 1]
        if repeated:
            raise ValueError(
                f"Partition replica lists may not contain duplicate entries: {','.join(repeated)}"
            )
        assignment[number] = whole
        if len(whole) != len(assignment[0]):
            shown = ", ".join(map(str, whole))
            raise ValueError(f"Partition {number} has different replication factor: [{shown}]")
    return assignment


command = Command(
    name="topics",
    description="This tool helps to create, delete, describe, or change a topic.",
    options=TopicsOptions,
    run=run,
    on_parse_error=OnParseError.MESSAGE,
    parse_failed=_parse_failed,
    sections=(("FILE OF TOPICS", FILE_OF_TOPICS),),
    examples=(
        Example(
            "Create a topic with three partitions:",
            "kcli topics --bootstrap-server localhost:9092 --create --topic payments \\\n  --partitions 3",
        ),
        Example(
            "Compare a file of topics with the cluster (exit code 2: they differ):",
            "kcli topics --bootstrap-server localhost:9092 --apply topics.yaml --dry-run",
            exit_code=2,
        ),
    ),
    exit_status=(
        *USUAL[:2],
        (2, "--apply --dry-run found changes to make."),
        INTERRUPTED,
    ),
)
