"""The options of kafka-topics, and the rules that say which options may be combined."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.connect import ClusterOptions
from kcli.cli.output import warn
from kcli.cli.syntax.options import CommandError, Kind, UsageError, flag, forbid, option, require

ACTIONS = ("list", "describe", "create", "alter", "delete", "apply")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOptions(ClusterOptions):
    list: bool = flag("List all topics.")
    create: bool = flag("Create a topic.")
    delete: bool = flag("Delete topics.")
    alter: bool = flag("Add partitions to a topic.")
    describe: bool = flag("Show the partitions and settings of topics.")
    topic: str | None = option(
        "The name of the topic. With every action except --create, the value is a regular expression that "
        "must match whole names.",
        metavar="topic",
    )
    topic_id: str | None = option("Describe the topic with this id.", metavar="topic-id")
    config: tuple[str, ...] = option(
        "A setting of the topic to create.", metavar="name=value", repeatable=True
    )
    delete_config: tuple[str, ...] = option(
        "No longer supported: use the configs command.", metavar="name", repeatable=True, deprecated=True
    )
    partitions: int | None = option(
        "With --create, the number of partitions of the topic. With --alter, the new number of partitions.",
        Kind.INTEGER,
        metavar="# of partitions",
    )
    replication_factor: int | None = option(
        "The number of replicas of each partition.", Kind.INTEGER, metavar="replication factor"
    )
    replica_assignment: str | None = option(
        "The brokers that get the replicas. Colons separate the brokers of one partition, commas separate "
        "the partitions.",
        metavar="broker_id_for_part1_replica1 : broker_id_for_part1_replica2, ...",
    )
    under_replicated_partitions: bool = flag("Describe only partitions with replicas that are not in sync.")
    unavailable_partitions: bool = flag("Describe only partitions without a live leader.")
    under_min_isr_partitions: bool = flag(
        "Describe only partitions with fewer than min.insync.replicas replicas in sync."
    )
    at_min_isr_partitions: bool = flag(
        "Describe only partitions with exactly min.insync.replicas replicas in sync."
    )
    topics_with_overrides: bool = flag("Describe only topics that have their own settings.")
    if_exists: bool = flag("With --alter, --delete or --describe: a missing topic is not an error.")
    if_not_exists: bool = flag("With --create: an existing topic is not an error.")
    exclude_internal: bool = flag("With --list or --describe: leave out internal topics.")
    partition_size_limit_per_response: int | None = option(
        "With --describe: the maximum number of partitions in one response.",
        Kind.INTEGER,
        metavar="maximum number of partitions per response",
    )
    apply: str | None = option(
        "Make the topics match a YAML file (see FILE OF TOPICS in the man page): create topics, add partitions, "
        "change settings.",
        metavar="file",
    )
    prune: bool = flag(
        "With --apply: also delete topics that are not in the file. For topics in the file, also remove settings "
        "that the file does not list. Without a terminal, --yes is required."
    )
    dry_run: bool = flag(
        "With --create, --alter, --delete or --apply: check the request and print its result, but change "
        "nothing. With --apply, the exit code is 2 if there are changes to make."
    )
    yes: bool = flag("Do not ask before deleting. The command asks only if it runs on a terminal.")


# The actions that permit an option, in the order of Kafka's checks.
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


def check(options: TopicsOptions) -> None:
    """Raises UsageError or CommandError for options that Kafka refuses, in Kafka's order and with Kafka's messages."""
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
        raise UsageError("--prune needs --apply: it deletes topics that are not in the file")
    forbid(options, "topic", "apply")
    for name, actions in _GOES_WITH:
        forbid(options, name, *(action for action in ACTIONS if action not in actions))
    if options.create:
        forbid(options, "replica-assignment", "partitions", "replication-factor")
    for report in PARTITION_REPORTS:
        forbid(options, report, "topics-with-overrides")
