"""kafka-delete-records: deletes the records of partitions before given offsets."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.confirm import confirm
from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.output import Output, java_text
from kcli.cli.partitions_file import (
    FileError,
    check_version,
    entries,
    field,
    number_field,
    partition_names,
    read_text,
    repeated,
)
from kcli.cli.syntax.options import Command, CommandError, OnParseError, flag, option, require
from kcli.command.examples import INTERRUPTED, Example
from kcli.errors import KafkaError
from kcli.model.amounts import listed
from kcli.model.java_json import json_long, parse_json
from kcli.model.java_order import map_order, partition_hash
from kcli.model.topic_partition import TopicPartition

VERSION = 1
HIGH_WATERMARK = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsOptions(ClusterOptions):
    offset_json_file: str | None = option(
        'A JSON file: {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}. The '
        "offset -1 means the end of the partition.",
        metavar="Offset json file path",
    )
    dry_run: bool = flag("Print what would be deleted, but delete nothing.")
    yes: bool = flag("Do not ask before deleting. The command asks only if it runs on a terminal.")


@dataclass(frozen=True, slots=True)
class DeletedRow:
    """The result for one partition."""

    topic: str
    partition: int
    offset: int
    low_watermark: int | None
    error: str | None


async def run(options: DeleteRecordsOptions, output: Output) -> None:
    """Reads the file, deletes the records, and prints the new low watermark of each partition."""
    require(options, "bootstrap-server", "offset-json-file")
    assert options.offset_json_file is not None
    try:
        offsets = _parse(read_text(options.offset_json_file))
    except FileError as error:
        raise CommandError(str(error)) from error
    if options.dry_run:
        for (topic, number), offset in offsets.items():
            row = DeletedRow(topic, number, offset, None, None)
            output.row(row, f"partition: {topic}-{number}\twould delete records before offset: {offset}")
        return
    names = [f"{topic}-{number} before {_shown(offset)}" for (topic, number), offset in offsets.items()]
    confirm(f"This deletes the records of {listed(names)}.", yes=options.yes)
    async with admin(options) as client:
        output.say("Executing records delete operation")
        results = await client.delete_records(offsets)
        output.say("Records delete operation completed:")
        for partition in map_order(results, partition_hash):
            row = _row(partition, offsets[partition], results[partition])
            output.row(row, _line)
            output.is_failed |= row.error is not None


def _shown(offset: int) -> str:
    return "the end" if offset == HIGH_WATERMARK else str(offset)


def _row(partition: TopicPartition, offset: int, result: int | KafkaError) -> DeletedRow:
    topic, number = partition
    if isinstance(result, KafkaError):
        return DeletedRow(topic, number, offset, None, java_text(result))
    return DeletedRow(topic, number, offset, result, None)


def _line(row: DeletedRow) -> str:
    what = f"error: {row.error}" if row.error is not None else f"low_watermark: {row.low_watermark}"
    return f"partition: {row.topic}-{row.partition}\t{what}"


def _parse(text: str) -> dict[TopicPartition, int]:
    """Returns the offset for each partition of the file. Raises FileError with Kafka's message."""
    try:
        document = parse_json(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise FileError("The input string is not a valid JSON")
    check_version(document, VERSION)
    if "partitions" not in document:
        raise FileError("Missing partitions field")
    pairs = [
        (
            TopicPartition(field(entry, "topic", str), number_field(entry, "partition")),
            number_field(entry, "offset", json_long),
        )
        for entry in entries(document["partitions"], "partitions")
    ]
    if twice := repeated(partition for partition, _ in pairs):
        raise FileError(f"Offset json file contains duplicate topic partitions: {partition_names(twice)}")
    return dict(pairs)


command = Command(
    name="delete-records",
    description="This tool helps to delete records of the given partitions down to the specified offset.",
    options=DeleteRecordsOptions,
    run=run,
    on_parse_error=OnParseError.MESSAGE,
    examples=(
        Example(
            "Delete the records before offset 2 of a partition:",
            'echo \'{"partitions": [{"topic": "orders", "partition": 0, "offset": 2}]}\' \\\n'
            "  > offsets.json\n"
            "kcli delete-records --bootstrap-server localhost:9092 \\\n"
            "  --offset-json-file offsets.json --yes",
        ),
    ),
    exit_status=(
        (
            0,
            (
                "The records were deleted. The output has a line for each partition, with its new low watermark."
            ),
        ),
        (
            1,
            (
                "The output has an error for a partition, or the command failed. After an error for a partition, "
                "Kafka's script ends with 0."
            ),
        ),
        INTERRUPTED,
    ),
)
