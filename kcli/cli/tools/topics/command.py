"""kafka-topics: create, list, describe, alter and delete topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.confirm import confirm, listed
from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.output import Output, warn
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    Kind,
    OnParseError,
    ParseError,
    UsageError,
    flag,
    forbid,
    java_split,
    option,
    require,
)
from kcli.cli.topic_filter import topic_filter
from kcli.errors import ErrorCode, KafkaError, KcliError

if TYPE_CHECKING:
    from kcli.cli.tools.topics.describe import TopicRow
    from kcli.client.admin.admin import AdminClient

ACTIONS = ("list", "describe", "create", "alter", "delete", "apply")
REPLICATION_FACTOR_MAX = 32767  # a Java short
FILE_OF_TOPICS = """\
topics:
  orders:
    partitions: 6              # without: the broker's default, later as it is
    replication-factor: 1      # the same
    configs:                   # settings that are not here are left alone
      retention.ms: 86400000
      cleanup.policy: [compact, delete]
      max.message.bytes:       # no value: back to the default
  payments: {partitions: 3}
"""
COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
    "collide. To avoid issues it is best to use either, but not both."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOptions(ClusterOptions):
    list: bool = flag("List all topics.")
    create: bool = flag("Create a topic.")
    delete: bool = flag("Delete topics.")
    alter: bool = flag("Give a topic more partitions.")
    describe: bool = flag("Show the partitions and settings of topics.")
    topic: str | None = option(
        "The topic; for all actions but --create a regular expression over topic names.", metavar="topic"
    )
    topic_id: str | None = option("Describe the topic with this id.", metavar="topic-id")
    config: tuple[str, ...] = option(
        "A setting of the topic to create.", metavar="name=value", repeatable=True
    )
    delete_config: tuple[str, ...] = option(
        "No longer supported: use the configs command.", metavar="name", repeatable=True, deprecated=True
    )
    partitions: int | None = option(
        "How many partitions to create, or to have after --alter.", Kind.INTEGER, metavar="# of partitions"
    )
    replication_factor: int | None = option(
        "How many replicas each partition gets.", Kind.INTEGER, metavar="replication factor"
    )
    replica_assignment: str | None = option(
        "The brokers of each partition: partitions apart by comma, their brokers by colon.",
        metavar="broker_id_for_part1_replica1 : broker_id_for_part1_replica2, ...",
    )
    under_replicated_partitions: bool = flag("Describe only partitions with replicas out of sync.")
    unavailable_partitions: bool = flag("Describe only partitions without a live leader.")
    under_min_isr_partitions: bool = flag("Describe only partitions below min.insync.replicas.")
    at_min_isr_partitions: bool = flag("Describe only partitions exactly at min.insync.replicas.")
    topics_with_overrides: bool = flag("Describe only topics that have settings of their own.")
    if_exists: bool = flag("With --alter, --delete or --describe: a missing topic is no error.")
    if_not_exists: bool = flag("With --create: an existing topic is no error.")
    exclude_internal: bool = flag("With --list or --describe: leave out the brokers' own topics.")
    partition_size_limit_per_response: int | None = option(
        "How many partitions one response of --describe may hold.",
        Kind.INTEGER,
        metavar="maximum number of partitions per response",
    )
    apply: str | None = option(
        "Make topics what a YAML file says (see FILE OF TOPICS in the man page): create what is missing, add "
        "partitions, change settings.",
        metavar="file",
    )
    prune: bool = flag(
        "With --apply: delete the topics that the file does not have, and the settings of a topic that its configs do "
        "not have. Away from a terminal this needs --yes."
    )
    dry_run: bool = flag(
        "With --create, --alter, --delete or --apply: check and tell, change nothing; with --apply the exit code is 2 "
        "where there is something to change."
    )
    yes: bool = flag("Delete without asking, as happens away from a terminal.")


@dataclass(frozen=True, slots=True)
class TopicName:
    """One line of --list."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicChange:
    """What was done to a topic, or would be."""

    topic: str
    action: str
    dry_run: bool


# Which actions an option goes with; in the order in which Kafka checks them.
_GOES_WITH: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("config", ("create", "alter")),
    ("partitions", ("create", "alter")),
    ("replication-factor", ("create",)),
    ("replica-assignment", ("create", "alter")),
    ("under-replicated-partitions", ("describe",)),
    ("under-min-isr-partitions", ("describe",)),
    ("at-min-isr-partitions", ("describe",)),
    ("unavailable-partitions", ("describe",)),
    ("topics-with-overrides", ("describe",)),
    ("if-exists", ("alter", "delete", "describe")),
    ("if-not-exists", ("create",)),
    ("exclude-internal", ("list", "describe")),
)
PARTITION_REPORTS = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)


async def run(options: TopicsOptions, output: Output) -> int:
    """Check the options as Kafka does, then do the one action."""
    _check(options)
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
    """Kafka says this on stdout; rows of json and tsv are not mixed with it."""
    if output.is_text:
        output.say(f"Error while executing topic command : {message}")
    else:
        warn(message)


def _parse_failed(error: ParseError) -> int:
    """Kafka converts arguments only when it uses them: after the action has begun, but for those of its client."""
    message = str(error)
    if error.is_late and not any(
        f"option {name}," in message for name in ("bootstrap-server", "command-config")
    ):
        _failed(message, Output())
    else:
        warn(message)
    return 1


def _check(options: TopicsOptions) -> None:
    if sum(options.has(action) for action in ACTIONS) != 1:
        raise UsageError(
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
        )
    if options.delete_config:
        warn(
            "delete-config option is no longer supported and deprecated since version 4.0. "
            "The config will be fully removed in future releases."
        )
    if options.bootstrap_server is None:
        raise CommandError("--bootstrap-server must be specified")
    if options.describe and options.if_exists and not (options.topic or options.topic_id):
        raise UsageError("--topic or --topic-id is required to describe a topic")
    if options.describe and options.if_exists and options.topic and options.topic_id:
        print(
            "Only topic id will be used when both --topic and --topic-id are specified "
            "and topicId is not Uuid.ZERO_UUID"
        )
    if options.create or options.alter or options.delete:
        require(options, "topic")
    if options.alter:
        if options.config:
            raise UsageError(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]" '
                "(To alter topic configurations, the kafka-configs tool can be used.)"
            )
        require(options, "partitions")
    if options.prune and options.apply is None:
        raise UsageError("--prune needs --apply: it is about the topics that a file does not have")
    forbid(options, "topic", "apply")
    for name, actions in _GOES_WITH:
        forbid(options, name, *(action for action in ACTIONS if action not in actions))
    if options.create:
        forbid(options, "replica-assignment", "partitions", "replication-factor")
    for report in PARTITION_REPORTS:
        forbid(options, report, "topics-with-overrides")


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


async def _alter(options: TopicsOptions, client: AdminClient, output: Output) -> None:
    from kcli.client.admin.topics import NewPartitions

    assignment = _assignment(options.replica_assignment)
    names = await _matching(options, client)
    _ensure_found(options, names)
    if not names:
        return
    assert options.partitions is not None
    wanted = []
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
        wanted.append(NewPartitions(topic=name, count=options.partitions, assignments=added))
    results = await client.create_partitions(wanted, validate_only=options.dry_run)
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
    """The names that `--topic` chooses, sorted."""
    listed = await client.list_topics(internal=not options.exclude_internal)
    wanted = topic_filter(options.topic) if options.topic is not None else lambda _: True
    return [topic.name for topic in listed if wanted(topic.name)]


def _ensure_found(options: TopicsOptions, names: list[str]) -> None:
    if options.topic and not names and not options.if_exists:
        raise ValueError(f"Topic '{options.topic}' does not exist as expected")


def _loss(names: list[str]) -> str:
    topics = "topic" if len(names) == 1 else f"{len(names)} topics"
    return f"This deletes {topics} {listed(names)} with all records."


def _changed(output: Output, name: str, action: str, dry_run: bool, would: str) -> None:
    """Kafka is silent about these changes: only a dry run speaks, and rows."""
    if dry_run or not output.is_text:
        output.row(TopicChange(name, action, dry_run), would)


def _raise_first(results: dict[str, KafkaError | None]) -> None:
    for error in results.values():
        if error is not None:
            raise error


def _configs(pairs: tuple[str, ...]) -> dict[str, str]:
    """The settings of a new topic, checked here as Kafka's tool does before it asks the broker."""
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
        configs[parts[0].strip()] = parts[1].strip()
    for name in configs:
        if name not in TOPIC:
            raise ValueError(f"Unknown topic config name: {name}")
    try:
        TOPIC.parse(configs)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return configs


def _assignment(text: str | None) -> dict[int, tuple[int, ...]]:
    """`b:b,b:b` as partition -> brokers. Raises ValueError in Kafka's words."""
    assignment: dict[int, tuple[int, ...]] = {}
    for number, part in enumerate(java_split(text) if text else ()):
        brokers = tuple(Kind.INTEGER.convert(broker.strip()) for broker in java_split(part, ":"))
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
)
