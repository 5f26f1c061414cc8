"""Deletes groups and offsets: kafka-consumer-groups --delete and --delete-offsets."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.confirm import confirm
from kcli.cli.output import Output, java_text
from kcli.cli.tools.consumer_groups.failures import ExecutionError, failed
from kcli.cli.tools.consumer_groups.groups import INACTIVE, chosen_groups
from kcli.cli.tools.consumer_groups.options import ConsumerGroupsOptions
from kcli.cli.tools.consumer_groups.reset import named_partitions
from kcli.client.admin.admin import AdminClient
from kcli.errors import ErrorCode, GroupNotEmptyException, KafkaError
from kcli.model.amounts import listed
from kcli.model.java_order import map_order, string_hash
from kcli.model.topic_partition import TopicPartition

NO_PARTITION = -1


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
    """The result for one group."""

    group: str
    error: str | None
    dry_run: bool


@dataclass(frozen=True, slots=True)
class DeletedOffset:
    """The result for the offset of one partition. `partition` is None if the topic could not be described."""

    topic: str
    partition: int | None
    error: str | None
    dry_run: bool


async def delete_groups(options: ConsumerGroupsOptions, client: AdminClient, output: Output) -> None:
    """Deletes groups, and lists the failures with their reasons."""
    groups = await chosen_groups(options, client)
    if options.dry_run:
        results = await _would_delete(client, groups)
    else:
        confirm(f"This deletes the groups {listed(groups)} with all their offsets.", yes=options.yes)
        results = await client.delete_groups(groups)
    order = map_order(results, string_hash)
    output.is_failed |= any(results.values())
    if not output.is_text:
        for group in order:
            output.row(DeletedGroup(group, _text(results[group]), options.dry_run), "")
        return
    errors = {group: error for group in order if (error := results[group]) is not None}
    deleted = [group for group in order if results[group] is None]
    quoted = "'" + "', '".join(deleted) + "'"
    if options.dry_run and deleted:
        output.say(f"Would delete the consumer groups ({quoted}).")
    elif not errors:
        output.say(f"Deletion of requested consumer groups ({quoted}) was successful.")
    if errors:
        failed(output, f"Deletion of some consumer groups {'would fail' if options.dry_run else 'failed'}:")
        for group, error in errors.items():
            output.say(f"* Group '{group}' could not be deleted due to: {java_text(error)}")
        if deleted and not options.dry_run:
            output.say(f"\nThese consumer groups were deleted successfully: {quoted}")


async def _would_delete(client: AdminClient, groups: list[str]) -> dict[str, KafkaError | None]:
    results: dict[str, KafkaError | None] = {}
    for group_id, group in (await client.describe_groups(groups)).items():
        if isinstance(group, KafkaError):
            results[group_id] = group
        else:
            results[group_id] = None if group.state in INACTIVE else GroupNotEmptyException()
    return results


async def delete_offsets(options: ConsumerGroupsOptions, client: AdminClient, output: Output) -> None:
    """Deletes a group's offsets for topics or partitions. Prints a table of the results."""
    if options.only_group is None:
        raise ExecutionError("Found multiple arguments for option group, but you asked for only one")
    group = options.only_group
    results: dict[TopicPartition, KafkaError | None] = {}
    partitions, whole_topics = named_partitions(options.topic)
    for name, topic in (await client.describe_topics(whole_topics)).items() if whole_topics else ():
        if isinstance(topic, KafkaError):
            results[TopicPartition(name, NO_PARTITION)] = topic
        else:
            partitions += [TopicPartition(name, partition.partition) for partition in topic.partitions]
    if options.dry_run:
        results.update(dict.fromkeys(partitions))
        output.say(f"Would delete offsets from group {group}.")
        _show(output, results, dry_run=True)
        return
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


def _show(output: Output, results: dict[TopicPartition, KafkaError | None], *, dry_run: bool = False) -> None:
    width = max([15, *(len(topic) for topic, _ in results)])
    output.say("")
    output.say(f"{'TOPIC':<{width}} {'PARTITION':<10} {'STATUS':<15}")
    done = "Would be deleted" if dry_run else "Successful"
    # Kafka sorts topic and partition as text, so partition 10 is before partition 2.
    for topic, number in sorted(results, key=lambda partition: f"{partition[0]}{partition[1]}"):
        error = _text(results[TopicPartition(topic, number)])
        row = DeletedOffset(topic, None if number < 0 else number, error, dry_run)
        shown = "-" if number < 0 else str(number)
        status = done if error is None else f"Error: {error}"
        output.row(row, f"{topic:<{width}} {shown:<10} {status:<15}")


def _text(error: KafkaError | None) -> str | None:
    return None if error is None else java_text(error)
