"""kafka-verifiable-consumer: reads as a member of a group and prints events, for tests of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.cli.client_properties import checked_login, client_properties
from kcli.cli.missing_rights import consumer_lacks
from kcli.cli.output import Output
from kcli.cli.record_traces import now_ns, record_traces
from kcli.cli.signals import finish_on_sigterm
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    ConnectingOptions,
    Exclusive,
    Family,
    Kind,
    UsageError,
    flag,
    option,
)
from kcli.cli.tools.verifiable.events import text, write
from kcli.cli.unreachable import explained
from kcli.cli.unreadable_records import UnreadableRecords, refuse_undecodable
from kcli.command.examples import FAILURE, INTERRUPTED, TERMINATED, Example
from kcli.rdkafka import objects
from kcli.rdkafka.client import is_fatal, new_client
from kcli.rdkafka.configuration import translate
from kcli.rdkafka.consumer import JAVA_DEFAULTS, JavaPositions, gathered, store_offsets
from kcli.rdkafka.log import logger

NO_LIMIT = -1
CLASSIC, CONSUMER = "classic", "consumer"
# The longest wait between two checks for Ctrl-C and SIGTERM.
POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiableConsumerOptions(ConnectingOptions):
    bootstrap_server: str | None = option("The brokers to connect to first, as host:port,host:port.")
    topic: str = option("The topic to read.", required=True)
    group_protocol: str = option("The group protocol: classic or consumer.", default=CLASSIC)
    group_remote_assignor: str | None = option(
        "With the consumer protocol: the name of the broker's assignor."
    )
    group_id: str = option("The group to join.", required=True)
    group_instance_id: str | None = option("The group.instance.id, which makes the member static (KIP-345).")
    max_messages: int = option(
        "Stop after this many records. -1 means no limit.", Kind.INTEGER, default=NO_LIMIT
    )
    session_timeout: int = option("The session timeout in milliseconds.", Kind.INTEGER, default=30_000)
    verbose: bool = flag("Print each record.")
    enable_autocommit: bool = flag("Commit offsets at intervals in the background.")
    reset_policy: str = option("Where to start if the group has no committed offset.", default="earliest")
    assignment_strategy: str = option(
        "With the classic protocol: the class of the assignor.",
        default="org.apache.kafka.clients.consumer.RangeAssignor",
    )
    consumer_config: str | None = option("A properties file for the consumer.", name="consumer.config")
    command_config: str | None = option("The new name of --consumer.config (since Kafka 4.2).")


def run(options: VerifiableConsumerOptions, output: Output) -> int:
    """Reads --max-messages records. The last events are written even after an error."""
    run = _Run(options, output)
    finish_on_sigterm()
    try:
        run.read()
    finally:
        run.close()
        write(output, "shutdown_complete")
    return 0


def configuration(options: VerifiableConsumerOptions) -> dict[str, object]:
    """Returns the configuration for librdkafka from file and options."""
    if options.consumer_config is not None and options.command_config is not None:
        raise UsageError("Options --consumer.config and --command-config are mutually exclusive.")
    properties = client_properties(
        options.consumer_config or options.command_config, (), options.client_properties
    )
    properties |= {
        "bootstrap.servers": options.bootstrap_server or "",
        "group.protocol": options.group_protocol,
        "group.id": options.group_id,
        "enable.auto.commit": str(options.enable_autocommit).lower(),
        "auto.offset.reset": options.reset_policy,
    }
    if options.group_instance_id is not None:
        properties["group.instance.id"] = options.group_instance_id
    if options.group_protocol.lower() == CONSUMER:
        if options.group_remote_assignor is not None:
            properties["group.remote.assignor"] = options.group_remote_assignor
    else:
        properties["session.timeout.ms"] = str(options.session_timeout)
        properties["partition.assignment.strategy"] = options.assignment_strategy
    return {**JAVA_DEFAULTS, **explained(translate(checked_login(properties)), properties)}


class _Run:
    """One run and its counts."""

    def __init__(self, options: VerifiableConsumerOptions, output: Output) -> None:
        from confluent_kafka import Consumer

        self.options = options
        self.output = output
        self.consumed = 0
        config = configuration(options)
        self.unreadable = UnreadableRecords(config)
        self.positions = JavaPositions(config, self._assigned, self.unreadable.begin_at)
        self.traces = record_traces("verifiable-consumer")
        self.records = None if self.traces is None else self.traces.consumer(config, is_in_group=True)
        self.consumer: objects.Consumer = new_client(Consumer, config)

    def read(self) -> None:
        write(self.output, "startup_complete")
        self.consumer.subscribe(
            [self.options.topic], on_assign=self.positions.assigned, on_revoke=self._revoked
        )
        while not self._is_finished():
            messages = self._poll()
            if not messages:
                continue
            store_offsets(self.consumer, messages)
            ends = self._take(messages)
            if not self.options.enable_autocommit:
                self._commit(ends)

    def close(self) -> None:
        self.consumer.close()
        if self.traces is not None:
            self.traces.close()

    def _poll(self) -> list[objects.Message]:
        """Returns the records that one poll of Java's consumer would return."""
        started_ns = now_ns()
        first = self.consumer.poll(POLL_S)
        self.unreadable.check(self.consumer)
        if first is None:
            return []
        messages = []
        for message in gathered(self.consumer, first):
            error = message.error()
            if error is None:
                messages.append(message)
                continue
            refuse_undecodable(message)
            consumer_lacks(error.code(), message.topic(), self.options.group_id)
            if is_fatal(error):
                raise CommandError(error.str())
            logger().warning("%s", error.str())
        if self.records is not None:
            self.records.polled(messages, started_ns)
        return messages

    def _is_finished(self) -> bool:
        return 0 <= self.options.max_messages <= self.consumed

    def _take(self, messages: list[objects.Message]) -> dict[tuple[str, int], int]:
        """Writes the events of records by partition. Returns the next offset of each partition."""
        by_partition: dict[tuple[str, int], list[objects.Message]] = {}
        for message in messages:
            by_partition.setdefault((message.topic(), message.partition()), []).append(message)
        summaries, ends = [], {}
        for (topic, partition), arrived in by_partition.items():
            taken = arrived
            if self.options.max_messages >= 0:
                taken = arrived[: self.options.max_messages - self.consumed]
            if not taken:
                continue
            first, last = taken[0].offset(), taken[-1].offset()
            ends[topic, partition] = last + 1
            summaries.append(
                {
                    "topic": topic,
                    "partition": partition,
                    "count": len(taken),
                    "minOffset": first,
                    "maxOffset": last,
                }
            )
            if self.options.verbose or self.records is not None:
                for message in taken:
                    self._process(message)
            self.consumed += len(taken)
        write(self.output, "records_consumed", count=len(messages), partitions=summaries)
        return ends

    def _process(self, message: objects.Message) -> None:
        started_ns = now_ns()
        if self.options.verbose:
            self._record(message)
        if self.records is not None:
            self.records.processed(message, started_ns)

    def _record(self, message: objects.Message) -> None:
        write(
            self.output,
            "record_data",
            key=text(message.key()),
            value=text(message.value()),
            topic=message.topic(),
            partition=message.partition(),
            offset=message.offset(),
        )

    def _commit(self, ends: dict[tuple[str, int], int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        offsets = [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()]
        failure: dict[str, object] = {}
        try:
            self.consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            failure = {"error": error.args[0].str()}
        shown = [
            {"topic": topic, "partition": partition, "offset": end}
            for (topic, partition), end in ends.items()
        ]
        write(self.output, "offsets_committed", offsets=shown, **failure, success=not failure)

    def _assigned(self, _consumer: objects.Consumer, partitions: list[objects.PartitionOffset]) -> None:
        write(self.output, "partitions_assigned", partitions=_shown(partitions))

    def _revoked(self, _consumer: objects.Consumer, partitions: list[objects.PartitionOffset]) -> None:
        write(self.output, "partitions_revoked", partitions=_shown(partitions))


def _shown(partitions: list[objects.PartitionOffset]) -> list[dict[str, object]]:
    return [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]


command = Command(
    name="verifiable-consumer",
    description="This tool consumes messages from a specific topic and emits consumer events (e.g. group rebalances, "
    "received messages, and offsets committed) as JSON objects to STDOUT.",
    family=Family.ARGPARSE4J,
    prog="verifiable-consumer",
    bare_exit=0,
    options=VerifiableConsumerOptions,
    run=run,
    exclusive=(Exclusive(names=("bootstrap-server",), required=True),),
    examples=(
        Example(
            "Read 100 records as a member of a group:",
            "kcli verifiable-consumer --bootstrap-server localhost:9092 --topic numbers \\\n"
            "  --group-id checkers --max-messages 100",
        ),
    ),
    exit_status=(
        (0, "--max-messages records were read."),
        FAILURE,
        INTERRUPTED,
        TERMINATED,
    ),
)
