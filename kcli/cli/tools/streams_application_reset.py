"""kafka-streams-application-reset: makes a Kafka Streams application process its input again.

The offsets of input topics are reset as the options request. The offsets of intermediate topics are reset to the end.
Internal topics of Streams (changelogs, repartitions, foreign-key joins) are deleted. The application must be stopped.
The instances of the application clean their local state themselves (`KafkaStreams#cleanUp`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.java.date_times import epoch_ms_of, milliseconds_of
from kcli.cli.output import Output, java_text
from kcli.cli.syntax.options import Command, CommandError, Kind, flag, forbid, option
from kcli.cli.tools.consumer_groups.failures import ExecutionError
from kcli.cli.tools.consumer_groups.plan import NewOffsets, read_plan
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CommittedOffset
from kcli.command.examples import INTERRUPTED, SUCCESS, Example
from kcli.errors import GroupIdNotFoundException, KafkaError
from kcli.model.java_order import map_order, partition_hash, string_hash
from kcli.model.java_text import trim
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

SCENARIOS = (
    "to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "from-file", "shift-by",
)  # fmt: skip
DEFAULT_SERVER = "localhost:9092"

# Matches the names of internal topics. Such a name is the application's id, a dash, and a text that this expression
# matches.
_INTERNAL = re.compile(
    r".*(-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic)"
    r"|.+-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsApplicationResetOptions(ClusterOptions):
    bootstrap_server: str | None = option(
        "The brokers to connect to first, as host:port,host:port. This option takes precedence over a "
        "config file.",
        metavar="server to connect to",
        default=DEFAULT_SERVER,
    )
    application_id: str | None = option("The application.id of the application.", metavar="id", required=True)
    input_topics: tuple[str, ...] = option(
        "The input topics, separated by commas. The offsets of these topics are reset, by default to the beginning.",
        metavar="list",
        repeatable=True,
    )
    intermediate_topics: tuple[str, ...] = option(
        "The topics that the application both writes and reads, separated by commas. The offsets of these topics are "
        "set to the end.",
        metavar="list",
        repeatable=True,
        deprecated=True,
    )
    internal_topics: tuple[str, ...] = option(
        "Delete only these internal topics, separated by commas. Default: all internal topics of the "
        "application.",
        metavar="list",
        repeatable=True,
    )
    to_offset: int | None = option("Reset to this offset.", Kind.LONG)
    to_datetime: str | None = option("Reset to the first record at or after YYYY-MM-DDTHH:mm:SS.sss.")
    by_duration: str | None = option(
        "Reset to the first record that is not older than this duration (ISO 8601: PnDTnHnMnS)."
    )
    to_earliest: bool = flag("Reset to the beginning.")
    to_latest: bool = flag("Reset to the end.")
    from_file: str | None = option("Reset to the offsets of a CSV file: topic,partition,offset in each line.")
    shift_by: int | None = option(
        "Move the offsets by this number of records. A negative number moves them back.", Kind.LONG
    )
    config_file: str | None = option(
        "The old name of --command-config.", metavar="file name", deprecated=True
    )
    force: bool = flag("Remove members that are still in the group.")
    dry_run: bool = flag("Print what the command would do, but change nothing.")


@dataclass(frozen=True, slots=True)
class ResetRow:
    """One change, made or proposed: the new offset of a partition, or a deleted topic if the offset is None."""

    topic: str
    partition: int | None = None
    new_offset: int | None = None


async def run(options: StreamsApplicationResetOptions, output: Output) -> int:
    """Removes members, resets offsets and deletes internal topics. Returns 1 if an input topic is missing."""
    _check(options, output)
    if options.config_file is not None:
        options = replace(options, command_config=options.config_file)
    async with admin(options) as client:
        reset = _Reset(options, client, output)
        try:
            await reset.remove_members()
            if options.dry_run:
                output.say(
                    "----Dry run displays the actions which will be performed when running Streams Reset Tool----"
                )
            missing = await reset.offsets()
            await reset.internal_topics()
        except ExecutionError as error:
            raise CommandError(f"ERROR: {error}") from error
        except KafkaError as error:
            raise CommandError(
                f"ERROR: java.util.concurrent.ExecutionException: {java_text(error)}"
            ) from error
    return 1 if missing else 0


def _check(options: StreamsApplicationResetOptions, output: Output) -> None:
    for at, scenario in enumerate(SCENARIOS):
        forbid(options, scenario, *SCENARIOS[at + 1 :])
    forbid(options, "command-config", "config-file")
    if options.intermediate_topics:
        output.say("WARN: `--intermediate-topics` is deprecated and will be removed in a future release")


def _split(arguments: Iterable[str]) -> list[str]:
    return [trim(name) for argument in arguments for name in argument.split(",") if trim(name)]


@dataclass(slots=True)
class _Reset:
    options: StreamsApplicationResetOptions
    client: AdminClient
    output: Output

    @property
    def group_id(self) -> str:
        assert self.options.application_id is not None
        return self.options.application_id

    async def remove_members(self) -> None:
        """Removes the members of the group if --force is given.

        Otherwise raises ExecutionError if the group has members.
        """
        group = (await self.client.describe_groups([self.group_id]))[self.group_id]
        if isinstance(group, GroupIdNotFoundException):
            return
        if isinstance(group, KafkaError):
            raise group
        if not group.members:
            return
        if not self.options.force:
            names = ", ".join(member.member_id for member in group.members)
            raise ExecutionError(
                f"java.lang.IllegalStateException: Consumer group '{self.group_id}' is still active and has "
                f"following members: [{names}]. Make sure to stop all running application instances before running "
                "the reset tool. You can use option '--force' to remove active members from the group."
            )
        self.output.say(f"Force deleting all active members in the group: {self.group_id}")
        if not self.options.dry_run:
            for error in (await self.client.remove_members(self.group_id, group.members)).values():
                if error is not None:
                    raise error

    async def offsets(self) -> list[str]:
        """Resets the group's offsets. Returns the topics that do not exist."""
        inputs, intermediates = _split(self.options.input_topics), _split(self.options.intermediate_topics)
        if not inputs and not intermediates:
            self.output.say("No input or intermediate topics specified. Skipping seek.")
            return []
        if inputs:
            self.output.say(f"Reset-offsets for input topics [{', '.join(inputs)}]")
        if intermediates:
            self.output.say(f"Seek-to-end for intermediate topics [{', '.join(intermediates)}]")
        described = await self.client.describe_topics(dict.fromkeys(inputs + intermediates))
        partitions = {
            name: [TopicPartition(name, partition.partition) for partition in topic.partitions]
            for name, topic in described.items()
            if not isinstance(topic, KafkaError)
        }
        missing = []
        for kind, names in (("input", inputs), ("intermediate", intermediates)):
            absent = [name for name in names if name not in partitions]
            if absent:
                self.output.say(f"Following {kind} topics are not found, skipping them")
            for name in absent:
                self.output.say(f"Topic: {name}")
            missing += absent
        plan = await self._to_end([name for name in intermediates if name in partitions], partitions)
        plan |= await self._inputs([partition for name in inputs for partition in partitions.get(name, ())])
        if plan:
            if not self.options.dry_run:
                await self._commit(plan)
            self.output.say("Done.")
        return missing

    async def _to_end(self, topics: list[str], partitions: dict[str, list[TopicPartition]]) -> NewOffsets:
        if not topics:
            return {}
        self.output.say(
            f"Following intermediate topics offsets will be reset to end (for consumer group {self.group_id})"
        )
        for topic in topics:
            self.output.say(f"Topic: {topic}")
        plan = await self._listed(
            [partition for topic in topics for partition in partitions[topic]], OffsetSpec.LATEST
        )
        self._rows(ResetRow(topic, number, offset) for (topic, number), offset in plan.items())
        return plan

    async def _inputs(self, partitions: list[TopicPartition]) -> NewOffsets:
        if not partitions:
            return {}
        self.output.say(
            f"Following input topics offsets will be reset to (for consumer group {self.group_id})"
        )
        plan = await self._wanted(partitions)
        for topic, number in map_order(plan, partition_hash):
            row = ResetRow(topic, number, plan[TopicPartition(topic, number)])
            self.output.row(row, f"Topic: {topic} Partition: {number} Offset: {row.new_offset}")
        return plan

    async def _wanted(self, partitions: list[TopicPartition]) -> NewOffsets:
        options = self.options
        if options.to_offset is not None:
            return await self._in_range(dict.fromkeys(partitions, options.to_offset))
        if options.to_latest:
            return await self._listed(partitions, OffsetSpec.LATEST)
        if options.to_datetime is not None:
            return await self._since(partitions, _moment(epoch_ms_of, options.to_datetime))
        if options.by_duration is not None:
            ago_ms = _moment(milliseconds_of, options.by_duration)
            return await self._since(partitions, int(time.time() * 1000) - ago_ms)
        if options.shift_by is not None:
            committed = await self._committed(partitions)
            return await self._in_range(
                {partition: committed[partition] + options.shift_by for partition in partitions}
            )
        if options.from_file is not None:
            planned = read_plan(options.from_file, self.group_id).get(self.group_id, {})
            if not planned:
                raise ExecutionError(
                    f"java.lang.IllegalStateException: {options.from_file} has no line topic,partition,offset"
                )
            return await self._in_range(
                {partition: planned[partition] for partition in partitions if partition in planned}
            )
        return await self._listed(partitions, OffsetSpec.EARLIEST)

    async def _committed(self, partitions: list[TopicPartition]) -> NewOffsets:
        """Returns the committed offset of each partition.

        A partition without a committed offset gets the start of its log.
        """
        offsets = await self.client.list_group_offsets(self.group_id)
        starts = await self._listed(partitions, OffsetSpec.EARLIEST)
        committed: NewOffsets = {}
        for partition in partitions:
            offset = offsets.get(partition)
            if isinstance(offset, KafkaError):
                raise offset
            committed[partition] = starts[partition] if offset is None else offset.offset
        return committed

    async def _since(self, partitions: list[TopicPartition], timestamp_ms: int) -> NewOffsets:
        listed = await self._listed(partitions, timestamp_ms)
        late = [partition for partition in partitions if listed[partition] < 0]
        for topic, number in late:
            self.output.say(
                f"Partition {number} from topic {topic} is empty, without a committed record. "
                "Falling back to latest known offset."
            )
        return listed | await self._listed(late, OffsetSpec.LATEST)

    async def _in_range(self, offsets: NewOffsets) -> NewOffsets:
        starts = await self._listed(list(offsets), OffsetSpec.EARLIEST)
        ends = await self._listed(list(offsets), OffsetSpec.LATEST)
        for partition, offset in offsets.items():
            if offset < starts[partition]:
                which, end = "lower than earliest", starts[partition]
            elif offset > ends[partition]:
                which, end = "higher than latest", ends[partition]
            else:
                continue
            self.output.say(f"New offset ({offset}) is {which} offset. Value will be set to {end}")
        return {
            partition: min(max(offset, starts[partition]), ends[partition])
            for partition, offset in offsets.items()
        }

    async def _listed(self, partitions: list[TopicPartition], at: int) -> NewOffsets:
        offsets = await self.client.list_offsets(dict.fromkeys(partitions, at)) if partitions else {}
        plan: NewOffsets = {}
        for partition, result in offsets.items():
            if isinstance(result, KafkaError):
                raise result
            plan[partition] = result.offset
        return plan

    async def _commit(self, plan: NewOffsets) -> None:
        offsets = {partition: CommittedOffset(offset=offset) for partition, offset in plan.items()}
        for error in (await self.client.alter_group_offsets(self.group_id, offsets)).values():
            if error is not None:
                raise error

    async def internal_topics(self) -> None:
        """Deletes the topics of --internal-topics, or all internal topics of the application."""
        listed = [topic.name for topic in await self.client.list_topics()]
        inferred = [name for name in map_order(listed, string_hash) if self._is_internal(name)]
        named = _split(self.options.internal_topics)
        strange = [name for name in named if name not in inferred]
        if strange:
            raise ExecutionError(
                f"java.lang.IllegalArgumentException: Invalid topic specified in the --internal-topics option: "
                f"[{', '.join(named)}]. Ensure that the topics specified are all internal topics. Do a dry run without "
                "the --internal-topics option to see the list of all internal topics that can be deleted."
            )
        chosen, how = (named, "specified") if named else (inferred, "inferred")
        self.output.say(f"Deleting {how} internal topics [{', '.join(chosen)}]")
        self._rows(map(ResetRow, chosen))
        if chosen and not self.options.dry_run:
            for error in (await self.client.delete_topics(chosen)).values():
                if error is not None:
                    raise error
        self.output.say("Done.")

    def _rows(self, rows: Iterable[ResetRow]) -> None:
        """Writes rows for json and tsv. The text output has other lines for the same changes."""
        if not self.output.is_text:
            for row in rows:
                self.output.row(row, "")

    def _is_internal(self, topic: str) -> bool:
        prefix = f"{self.group_id}-"
        return topic.startswith(prefix) and _INTERNAL.fullmatch(topic) is not None


def _moment(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise ExecutionError(str(error)) from error


command = Command(
    name="streams-application-reset",
    description=(
        "This tool helps to reset a Kafka Streams application. The application then processes its input topics again, "
        "from the given offsets. Stop every instance of the application first, and clean the local state of each "
        "instance afterwards."
    ),
    options=StreamsApplicationResetOptions,
    run=run,
    examples=(
        Example(
            "Show which offsets and internal topics of an application would be reset:",
            "kcli streams-application-reset --bootstrap-server localhost:9092 \\\n"
            "  --application-id word-count --input-topics orders --dry-run",
        ),
    ),
    exit_status=(
        SUCCESS,
        (1, "The command failed, an input topic does not exist, or the options are wrong."),
        INTERRUPTED,
    ),
)
