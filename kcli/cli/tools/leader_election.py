"""kafka-leader-election: elects the preferred replicas as leaders or, in an unclean election, any live replica."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.output import Output, java_text
from kcli.cli.partitions_file import (
    FileError,
    entries,
    field,
    number_field,
    partition_names,
    read_text,
    repeated,
)
from kcli.cli.syntax.options import Command, CommandError, Kind, OnParseError, flag, option
from kcli.client.admin.admin import AdminClient
from kcli.command.examples import INTERRUPTED, Example
from kcli.errors import ErrorCode, KafkaError
from kcli.model.java_json import parse_json
from kcli.model.java_order import map_order, partition_hash
from kcli.model.topic_partition import TopicPartition

ELECTION_TYPES = ("preferred", "unclean")
# The time-outs of Kafka's tool. They are short, because an election is either quick or impossible.
TIMEOUTS = {"default.api.timeout.ms": "30000", "request.timeout.ms": "15000"}
SELECTIONS = ("topic", "all-topic-partitions", "path-to-json-file")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionOptions(ClusterOptions):
    election_type: str | None = option(
        'The type of election. "preferred" elects the first replica in the replica list of a partition. "unclean" '
        "elects any live replica if there is no leader.",
        metavar="election type",
    )
    topic: str | None = option("The topic of the partition that --partition names.", metavar="topic name")
    partition: int | None = option(
        "The partition of the topic that --topic names.", Kind.INTEGER, metavar="partition id"
    )
    all_topic_partitions: bool = flag("Elect leaders for all partitions that need an election.")
    path_to_json_file: str | None = option(
        'A JSON file with the partitions: {"partitions": [{"topic": "foo", "partition": 1}]}.',
        metavar="path to json file",
    )
    admin_config: str | None = option(
        "The same as --command-config.", name="admin.config", metavar="config file", deprecated=True
    )
    dry_run: bool = flag("Print the partitions of the request, but elect no leaders.")


@dataclass(frozen=True, slots=True)
class ElectionRow:
    """The result for one partition: elected, not needed, or failed with an error."""

    topic: str
    partition: int
    election_type: str
    result: str
    error: str | None


async def run(options: LeaderElectionOptions, output: Output) -> None:
    """Requests the elections and prints the results."""
    kind = _checked(options)
    try:
        partitions = _chosen(options)
    except FileError as error:
        raise CommandError(str(error)) from error
    options = replace(options, command_config=options.command_config or options.admin_config)
    if options.dry_run:
        shown = "all that need it" if partitions is None else _names(partitions)
        output.say(f"Would ask for leader election ({kind.upper()}) for partitions {shown}")
        return
    async with admin(options, client_id="leader-election-tool", defaults=TIMEOUTS) as client:
        results = await _elect(client, partitions, kind, output)
    _report(results, kind.upper(), output)


def _checked(options: LeaderElectionOptions) -> str:
    """Checks the options, and returns the type of election. Raises CommandError with Kafka's message."""
    missing = [name for name in ("bootstrap-server", "election-type") if not options.has(name)]
    if missing:
        raise CommandError(f"Missing required option(s): {', '.join(missing)}")
    kind = (options.election_type or "").lower()
    if kind not in ELECTION_TYPES:
        raise CommandError(f"Cannot parse argument '{options.election_type}' of option election-type")
    if sum(options.has(name) for name in SELECTIONS) != 1:
        raise CommandError(f"One and only one of the following options is required: {', '.join(SELECTIONS)}")
    if options.has("topic") and not options.has("partition"):
        raise CommandError("Missing required option(s): partition")
    if options.has("partition") and not options.has("topic"):
        raise CommandError("Option partition is only allowed if topic is used")
    return kind


def _chosen(options: LeaderElectionOptions) -> list[TopicPartition] | None:
    """Returns the chosen partitions.

    None means all partitions that need an election. Raises FileError for an invalid file.
    """
    if options.all_topic_partitions:
        return None
    if options.path_to_json_file is not None:
        return _parse(_read(options.path_to_json_file))
    assert options.topic is not None and options.partition is not None
    return [TopicPartition(options.topic, options.partition)]


def _read(path: str) -> str:
    try:
        return read_text(path)
    except FileError as error:  # Kafka's message shows the class of this exception
        raise FileError(f"java.io.IOException: {error}") from error


def _parse(text: str) -> list[TopicPartition]:
    try:
        document = parse_json(text)
    except ValueError:
        raise FileError("Replica election data is empty") from None
    if not isinstance(document, dict) or "partitions" not in document:
        raise FileError('Replica election data is missing "partitions" field')
    partitions = [
        TopicPartition(field(entry, "topic", str), number_field(entry, "partition"))
        for entry in entries(document["partitions"], "partitions")
    ]
    if twice := repeated(partitions):
        shown = _names(map_order(twice, partition_hash))
        raise FileError(f"Replica election data contains duplicate partitions: [{shown}]")
    return partitions


async def _elect(
    client: AdminClient, partitions: list[TopicPartition] | None, kind: str, output: Output
) -> Mapping[TopicPartition, KafkaError | None]:
    try:
        return await client.elect_leaders(partitions, unclean=kind == "unclean")
    except KafkaError as error:
        match error.code:
            case ErrorCode.REQUEST_TIMED_OUT:
                message = "Timeout waiting for election results"
            case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                message = "Not authorized to perform leader election"
            case _:
                raise CommandError(java_text(error)) from error
        output.say(message)
        raise CommandError(message) from error


def _report(results: Mapping[TopicPartition, KafkaError | None], kind: str, output: Output) -> None:
    ordered = map_order(results, partition_hash)
    elected = [partition for partition in ordered if results[partition] is None]
    errors = {partition: error for partition in ordered if (error := results[partition]) is not None}
    needless = [
        partition for partition, error in errors.items() if error.code is ErrorCode.ELECTION_NOT_NEEDED
    ]
    failed = {partition: java_text(error) for partition, error in errors.items() if partition not in needless}
    if elected:
        output.say(f"Successfully completed leader election ({kind}) for partitions {_names(elected)}")
    if needless:
        output.say(f"Valid replica already elected for partitions {_names(needless)}")
    for (topic, number), text in failed.items():
        output.say(f"Error completing leader election ({kind}) for partition: {topic}-{number}: {text}")
    if not output.is_text:
        for topic, number in ordered:
            key = TopicPartition(topic, number)
            result = "elected" if key in elected else "not needed" if key in needless else "failed"
            output.row(ElectionRow(topic, number, kind.lower(), result, failed.get(key)), "")
    if failed:
        raise CommandError(f"{len(failed)} replica(s) could not be elected")


def _names(partitions: list[TopicPartition]) -> str:
    return partition_names(partitions, between=", ")


command = Command(
    name="leader-election",
    description=(
        "This tool attempts to elect a new leader for a set of topic partitions. "
        "The type of elections supported are preferred replicas and unclean replicas."
    ),
    options=LeaderElectionOptions,
    run=run,
    on_parse_error=OnParseError.MESSAGE,
    examples=(
        Example(
            "Make the preferred replica of every partition the leader:",
            "kcli leader-election --bootstrap-server localhost:9092 \\\n"
            "  --election-type preferred --all-topic-partitions",
        ),
    ),
    exit_status=(
        (0, "Every partition has the requested leader."),
        (1, "The election of at least one partition failed, or the options are wrong."),
        INTERRUPTED,
    ),
)
