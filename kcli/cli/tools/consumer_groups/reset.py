"""kafka-consumer-groups --reset-offsets: computes new offsets of inactive groups and commits them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kcli.cli.java.date_times import epoch_ms_of, milliseconds_of
from kcli.cli.output import Output, java_text
from kcli.cli.syntax.options import Kind, UsageError, java_split
from kcli.cli.tools.consumer_groups.failures import ExecutionError, failed
from kcli.cli.tools.consumer_groups.groups import INACTIVE, chosen_groups
from kcli.cli.tools.consumer_groups.options import SCENARIOS, ConsumerGroupsOptions
from kcli.cli.tools.consumer_groups.plan import NewOffset, NewOffsets, csv_line, read_plan
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CommittedOffset
from kcli.errors import ErrorCode, GroupIdNotFoundException, KafkaError
from kcli.model.java_order import map_order, partition_hash, string_hash
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

_log = logging.getLogger("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand")


async def reset(options: ConsumerGroupsOptions, client: AdminClient, output: Output) -> None:
    """Computes the new offsets of every group, commits them with --execute, and prints them."""
    described = await client.describe_groups(await chosen_groups(options, client))
    offsets = _Offsets(client, tuple(described))
    plans: dict[str, NewOffsets] = {}
    for group_id in map_order(described, string_hash):
        group = described[group_id]
        if isinstance(group, KafkaError):
            if not isinstance(group, GroupIdNotFoundException):
                raise ExecutionError(f"java.util.concurrent.ExecutionException: {java_text(group)}")
        elif group.state not in INACTIVE:
            failed(
                output,
                f"Assignments can only be reset if the group '{group_id}' is inactive, "
                f"but the current state is {group.state}.",
            )
            plans[group_id] = {}
            continue
        plan = await _Reset(options, client, output, offsets, group_id).plan()
        if options.execute:
            await _write(client, group_id, plan)
        plans[group_id] = plan
    _show(options, output, plans)


async def _write(client: AdminClient, group_id: str, plan: NewOffsets) -> None:
    offsets = {partition: CommittedOffset(offset=offset) for partition, offset in plan.items()}
    results = await client.alter_group_offsets(group_id, offsets) if offsets else {}
    for error in results.values():
        if error is not None:
            raise ExecutionError(f"java.util.concurrent.ExecutionException: {java_text(error)}")


def _show(options: ConsumerGroupsOptions, output: Output, plans: dict[str, NewOffsets]) -> None:
    rows = [
        NewOffset(group_id, topic, number, plans[group_id][TopicPartition(topic, number)])
        for group_id in map_order(plans, string_hash)
        for topic, number in map_order(plans[group_id], partition_hash)
    ]
    if options.export:
        output.rows(rows, lambda row: csv_line(row, with_group=options.only_group is None))
        output.say("")
        return
    output.say("")
    output.say(f"{'GROUP':<30} {'TOPIC':<30} {'PARTITION':<10} {'NEW-OFFSET':<15}")
    output.rows(rows, lambda row: f"{row.group:<30} {row.topic:<30} {row.partition:<10} {row.new_offset:<15}")


@dataclass(slots=True)
class _Offsets:
    """The committed offsets of the groups, and offsets in the logs of partitions. Each offset is requested only
    once."""

    client: AdminClient
    groups: tuple[str, ...]
    now_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    _committed: Mapping[str, Mapping[TopicPartition, CommittedOffset | KafkaError | None] | KafkaError] = (
        field(default_factory=dict)
    )
    _log: dict[int, NewOffsets] = field(default_factory=dict)

    async def committed(self, group_id: str) -> NewOffsets:
        """Returns the committed offsets of a group."""
        if not self._committed:
            self._committed = await self.client.list_all_offsets(self.groups)
        offsets = self._committed[group_id]
        if isinstance(offsets, KafkaError):
            raise offsets
        committed: NewOffsets = {}
        for partition, offset in offsets.items():
            if isinstance(offset, KafkaError):
                raise ExecutionError(f"java.util.concurrent.ExecutionException: {java_text(offset)}")
            if offset is not None:
                committed[partition] = offset.offset
        return committed

    async def of_log(self, partitions: Iterable[TopicPartition], at: int) -> NewOffsets:
        """Returns the offset of each partition at a timestamp, or at the start or end of its log."""
        places = list(partitions)
        known = self._log.setdefault(at, {})
        missing = [partition for partition in places if partition not in known]
        if missing:
            offsets = await self.client.list_offsets(dict.fromkeys(missing, at))
            known.update({partition: _offset_of(partition, result) for partition, result in offsets.items()})
        return {partition: known[partition] for partition in places}


@dataclass(frozen=True, slots=True)
class _Reset:
    """The reset of one group."""

    options: ConsumerGroupsOptions
    client: AdminClient
    output: Output
    offsets: _Offsets
    group_id: str

    async def plan(self) -> NewOffsets:
        """Returns the new offset of each partition in the scope, according to the scenario (such as --to-earliest)."""
        options = self.options
        partitions = await self._scope()
        if options.to_offset is not None:
            offset = _long("to-offset", options.to_offset)
            return await self._in_range(dict.fromkeys(partitions, offset))
        if options.to_earliest:
            return await self.offsets.of_log(partitions, OffsetSpec.EARLIEST)
        if options.to_latest:
            return await self.offsets.of_log(partitions, OffsetSpec.LATEST)
        if options.shift_by is not None:
            return await self._shifted(partitions, _long("shift-by", options.shift_by))
        if options.to_datetime is not None:
            return await self._since(partitions, _in_java_words(epoch_ms_of, options.to_datetime))
        if options.by_duration is not None:
            ago_ms = _in_java_words(milliseconds_of, options.by_duration)
            return await self._since(partitions, self.offsets.now_ms - ago_ms)
        if options.from_file is not None:
            return await self._from_file(options.from_file)
        if options.to_current:
            return await self._current(partitions)
        scenarios = ", ".join(f"[{name}]" for name in SCENARIOS)
        raise UsageError(f"Option '[reset-offsets]' requires one of the following scenarios: [{scenarios}]")

    async def _scope(self) -> list[TopicPartition]:
        if self.options.all_topics:
            return list(await self.offsets.committed(self.group_id))
        if self.options.topic:
            partitions, whole_topics = named_partitions(self.options.topic)
            described = await self.client.describe_topics(whole_topics) if whole_topics else {}
            for name, topic in described.items():
                if isinstance(topic, KafkaError):
                    raise ExecutionError(topic.message)
                partitions += [TopicPartition(name, partition.partition) for partition in topic.partitions]
            return partitions
        if self.options.from_file is None:
            raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
        return []

    async def _shifted(self, partitions: list[TopicPartition], by: int) -> NewOffsets:
        committed = await self.offsets.committed(self.group_id)
        shifted: NewOffsets = {}
        for topic, number in partitions:
            if (topic, number) not in committed:
                raise UsageError(
                    f"Cannot shift offset for partition {topic}-{number} since there is no current committed offset"
                )
            shifted[TopicPartition(topic, number)] = committed[TopicPartition(topic, number)] + by
        return await self._in_range(shifted)

    async def _since(self, partitions: list[TopicPartition], timestamp_ms: int) -> NewOffsets:
        """Returns the offset of the first record at or after the timestamp.

        A partition without such a record gets its end offset, with a warning.
        """
        offsets = await self.offsets.of_log(partitions, timestamp_ms)
        late = map_order((partition for partition, offset in offsets.items() if offset < 0), partition_hash)
        for topic, number in late:
            self.output.say(
                f"\nWarn: Partition {number} from topic {topic} is empty. Falling back to latest known offset."
            )
        return {**offsets, **await self.offsets.of_log(late, OffsetSpec.LATEST)}

    async def _current(self, partitions: list[TopicPartition]) -> NewOffsets:
        committed = await self.offsets.committed(self.group_id)
        missing = [partition for partition in partitions if partition not in committed]
        known = {partition: committed[partition] for partition in partitions if partition in committed}
        return {**known, **await self.offsets.of_log(missing, OffsetSpec.LATEST)}

    async def _from_file(self, path: str) -> NewOffsets:
        plans = read_plan(path, self.options.only_group)
        if self.group_id not in plans:
            failed(self.output, f"No reset plan for group {self.group_id} found.")
            return {}
        plan = plans[self.group_id]
        await self._refuse_unknown(plan)
        return await self._in_range(plan)

    async def _refuse_unknown(self, plan: NewOffsets) -> None:
        """Raises an error for a missing topic, because a request for its offsets would wait for the topic."""
        described = (
            await self.client.describe_topics(dict.fromkeys(topic for topic, _ in plan)) if plan else {}
        )
        for partition in plan:
            topic = described[partition[0]]
            if isinstance(topic, KafkaError):
                raise _not_listed(partition, topic)

    async def _in_range(self, offsets: NewOffsets) -> NewOffsets:
        """Returns `offsets` with each offset limited to the range of its partition's log."""
        starts = await self.offsets.of_log(offsets, OffsetSpec.EARLIEST)
        ends = await self.offsets.of_log(offsets, OffsetSpec.LATEST)
        checked: NewOffsets = {}
        for partition, offset in offsets.items():
            name = f"{partition[0]}-{partition[1]}"
            start, end = starts[partition], ends[partition]
            if offset > end:
                _log.warning(
                    "New offset (%d) is higher than latest offset for topic partition %s. Value will be set to %d",
                    offset,
                    name,
                    end,
                )
            elif offset < start:
                _log.warning(
                    "New offset (%d) is lower than earliest offset for topic partition %s. Value will be set to %d",
                    offset,
                    name,
                    start,
                )
            checked[partition] = min(max(offset, start), end)
        return checked


def _offset_of(partition: TopicPartition, result: OffsetAt | KafkaError) -> int:
    if isinstance(result, KafkaError):
        raise _not_listed(partition, result)
    return result.offset


def _not_listed(partition: TopicPartition, error: KafkaError) -> ExecutionError:
    """Returns the error for a partition whose offset could not be listed, with the message of Kafka's admin client."""
    topic, number = partition
    message = error.message
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and error.retriable:
        message = (
            f"Failed to fetch metadata for partition {topic}-{number} because metadata for topic `{topic}` "
            "could not be found"
        )
    elif error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        message = f"Failed to fetch metadata for partition {topic}-{number} due to invalid topic `{topic}`"
    return ExecutionError(f"java.util.concurrent.ExecutionException: {java_text(type(error)(message))}")


def named_partitions(arguments: Iterable[str]) -> tuple[list[TopicPartition], list[str]]:
    """Returns the partitions that `--topic t:0,1` names, and the topics that are named without partitions.

    Raises UsageError with Kafka's message.
    """
    partitions: list[TopicPartition] = []
    whole_topics: list[str] = []
    for argument in arguments:
        if ":" not in argument:
            whole_topics.append(argument)
            continue
        topic, *rest = java_split(argument, ":") or [""]
        if len(rest) != 1:
            raise UsageError(f"Invalid topic arg '{argument}', expected topic name and partitions")
        for text in java_split(rest[0]):
            try:
                number = Kind.INTEGER.convert(text)
            except ValueError:
                raise UsageError(f"Invalid partition '{text}' specified in topic arg '{argument}''") from None
            assert isinstance(number, int)
            partitions.append(TopicPartition(topic, number))
    return partitions, whole_topics


def _long(name: str, text: str) -> int:
    """Converts an argument to a number. Kafka converts the argument only when it uses the value, so the error comes
    late."""
    try:
        value = Kind.LONG.convert(text)
    except ValueError:
        raise ExecutionError(f"Cannot parse argument '{text}' of option {name}") from None
    assert isinstance(value, int)
    return value


def _in_java_words(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise ExecutionError(str(error)) from None
