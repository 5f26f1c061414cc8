"""kafka-consumer-groups --delete and --delete-offsets."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.confirm import confirm, listed
from kcli.cli.java_order import map_order, string_hash
from kcli.cli.output import Output, java_text
from kcli.cli.tools.consumer_groups import ConsumerGroupsOptions, chosen_groups, failed
from kcli.cli.tools.consumer_groups_reset import named_partitions
from kcli.client.admin import AdminClient
from kcli.errors import ErrorCode, KafkaError

NO_PARTITION = -1

TopicPartition = tuple[str, int]

_GROUP_ERRORS = (
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
)
_PARTITION_ERRORS = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


@dataclass(frozen=True, slots=True)
class DeletedGroup:
    """What became of one group."""

    group: str
    error: str | None


@dataclass(frozen=True, slots=True)
class DeletedOffset:
    """What became of one partition's offset; the partition is None where the topic could not be described."""

    topic: str
    partition: int | None
    error: str | None


async def delete_groups(options: ConsumerGroupsOptions, client: AdminClient, output: Output) -> None:
    """Delete groups; those that could not be are listed with the reason."""
    groups = await chosen_groups(options, client)
    confirm(f"This deletes the groups {listed(groups)} with all their offsets.", yes=options.yes)
    results = await client.delete_groups(groups)
    order = map_order(results, string_hash)
    errors = {group: error for group in order if (error := results[group]) is not None}
    deleted = [group for group in order if results[group] is None]
    quoted = "'" + "', '".join(deleted) + "'"
    if output.is_text:
        if not errors:
            output.say(f"Deletion of requested consumer groups ({quoted}) was successful.")
            return
        failed(output, "Deletion of some consumer groups failed:")
        for group, error in errors.items():
            output.say(f"* Group '{group}' could not be deleted due to: {java_text(error)}")
        if deleted:
            output.say(f"\nThese consumer groups were deleted successfully: {quoted}")
        return
    for group in order:
        failure = results[group]
        output.row(DeletedGroup(group, None if failure is None else java_text(failure)), group)


async def delete_offsets(options: ConsumerGroupsOptions, client: AdminClient, output: Output) -> None:
    """Delete a group's offsets of some topics or partitions; a table says how each went."""
    group = options.group[0]
    results: dict[TopicPartition, KafkaError | None] = {}
    partitions, whole_topics = named_partitions(options.topic)
    for name, topic in (await client.describe_topics(whole_topics)).items() if whole_topics else ():
        if isinstance(topic, KafkaError):
            results[name, NO_PARTITION] = topic
        else:
            partitions += [(name, each.partition) for each in topic.partitions]
    problem: KafkaError | None = None
    try:
        deleted = await client.delete_group_offsets(group, partitions)
    except KafkaError as error:
        problem = error
        results.update(dict.fromkeys(partitions, error))
    else:
        results.update(deleted)
        problem = next((error for error in deleted.values() if error is not None), None)
    _say_outcome(output, group, problem)
    _show(output, results)


def _say_outcome(output: Output, group: str, problem: KafkaError | None) -> None:
    if problem is None:
        output.say(f"Request succeeded for deleting offsets from group {group}.")
    elif problem.code in _GROUP_ERRORS:
        failed(output, problem.message)
    elif problem.code in _PARTITION_ERRORS:
        failed(output, "Encountered some partition-level error, see the follow-up details.")
    else:
        failed(output, f"Encountered some unknown error: {problem.code.name}")


def _show(output: Output, results: dict[TopicPartition, KafkaError | None]) -> None:
    width = max([15, *(len(topic) for topic, _ in results)])
    output.say("")
    output.say(f"{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}")
    for (topic, number), error in sorted(results.items(), key=lambda item: item[0]):
        status = "Successful" if error is None else f"Error: {java_text(error)}"
        shown = "-" if number < 0 else number
        row = DeletedOffset(
            topic, None if number < 0 else number, None if error is None else java_text(error)
        )
        output.row(row, f"{topic:<{width}} {shown!s:<10} {status:<15}")
