"""kafka-consumer-perf-test: measures how fast records can be read."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from kcli.cli.client_properties import checked_login, client_properties
from kcli.cli.missing_rights import consumer_lacks
from kcli.cli.output import Output
from kcli.cli.signals import finish_on_sigterm
from kcli.cli.syntax.options import Command, CommandError, ConnectingOptions, Kind, UsageError, flag, option
from kcli.cli.tools.perf_test.producer import MEGABYTE, print_metrics
from kcli.cli.unreachable import explained
from kcli.cli.unreadable_records import UnreadableRecords, refuse_undecodable
from kcli.command.examples import FAILURE, INTERRUPTED, TERMINATED, Example
from kcli.model.java_dates.formats import SimpleDateFormat
from kcli.rdkafka import objects
from kcli.rdkafka.client import is_fatal, new_client
from kcli.rdkafka.configuration import translate
from kcli.rdkafka.consumer import JAVA_DEFAULTS, JavaPositions, store_offsets
from kcli.rdkafka.log import logger
from kcli.rdkafka.matching_topics import MatchingTopics, matcher, max_age_s

# The most records that one poll of the Java consumer returns (max.poll.records).
BATCH_RECORDS = 500
POLL_S = 0.1
DEFAULT_TIMEOUT_MS = 10_000
DEFAULT_DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"

_HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
_DETAILED_HEADER = _HEADER.replace("start.time, end.time", "time, threadId")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerPerfOptions(ConnectingOptions):
    bootstrap_server: str | None = option(
        "The brokers to connect to first, as host:port,host:port.", metavar="server to connect to"
    )
    topic: str | None = option("The topic to read.", metavar="topic")
    include: str | None = option(
        "Read every topic whose whole name matches this regular expression.", metavar="Java regex (String)"
    )
    messages: str | None = option("How many records to read.", metavar="count")
    num_records: str | None = option("The new name of --messages (since Kafka 4.2).", metavar="count")
    group: str | None = option("The consumer group. Default: a new group for each run.", metavar="gid")
    fetch_size: int = option(
        "The maximum size of the data of one partition in a fetch, in bytes.",
        Kind.INTEGER,
        default=1_048_576,
        metavar="size",
    )
    socket_buffer_size: int = option(
        "The size of the TCP receive buffer in bytes.", Kind.INTEGER, default=2_097_152, metavar="size"
    )
    from_latest: bool = flag("Start at the end of the topic instead of its beginning.")
    consumer_config: str | None = option(
        "A properties file for the consumer.", name="consumer.config", metavar="config file"
    )
    command_config: str | None = option(
        "The new name of --consumer.config (since Kafka 4.2).", metavar="config file"
    )
    command_property: tuple[str, ...] = option(
        "A property of the consumer, as key=value.", metavar="prop1=val1", repeatable=True
    )
    print_metrics: bool = flag("Print the client's metrics at the end.")
    show_detailed_stats: bool = flag("Print a line for each interval instead of one line for the whole test.")
    reporting_interval: int = option(
        "Milliseconds between two lines of --show-detailed-stats.",
        Kind.INTEGER,
        default=5000,
        metavar="interval_ms",
    )
    timeout: int = option(
        "End if no record arrives for this many milliseconds.",
        Kind.LONG,
        default=DEFAULT_TIMEOUT_MS,
        metavar="milliseconds",
        optional_argument=True,
        bare_value=DEFAULT_TIMEOUT_MS,
    )
    date_format: str = option(
        "The format of times: a pattern of Java's SimpleDateFormat.",
        default=DEFAULT_DATE_FORMAT,
        metavar="date format",
    )
    hide_header: bool = flag("Do not print the header line.")


def run(options: ConsumerPerfOptions, output: Output) -> int:
    """Reads --messages records and prints the rates."""
    wanted_text = _check(options)
    if not options.hide_header:
        output.say(_DETAILED_HEADER if options.show_detailed_stats else _HEADER)
    try:
        target = Kind.LONG.convert(wanted_text)
    except ValueError:
        name = "messages" if options.messages is not None else "num-records"
        raise CommandError(f"Cannot parse argument '{wanted_text}' of option {name}") from None
    assert isinstance(target, int)
    if options.reporting_interval <= 0:
        raise CommandError("Reporting interval must be greater than 0.")
    try:
        SimpleDateFormat(options.date_format)
    except ValueError as error:
        raise CommandError(str(error)) from None
    run = _Run(options, target, output)
    finish_on_sigterm()
    try:
        run.read()
    finally:
        run.consumer.close()
    if options.print_metrics:
        run.show_metrics()
    return 0


def _check(options: ConsumerPerfOptions) -> str:
    if options.consumer_config is not None and options.command_config is not None:
        raise UsageError("Options --consumer.config and --command-config cannot be specified together.")
    if options.topic is None and options.include is None:
        raise UsageError('Missing required argument "[topic]"')
    if options.topic is not None and options.include is not None:
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    count = options.messages if options.messages is not None else options.num_records
    if count is None:
        raise UsageError('Missing required argument "[messages]"')
    return count


def configuration(options: ConsumerPerfOptions) -> dict[str, object]:
    """Returns the configuration for librdkafka."""
    properties = client_properties(
        options.consumer_config or options.command_config, options.command_property, options.client_properties
    )
    if options.bootstrap_server:
        properties["bootstrap.servers"] = options.bootstrap_server
    if not properties.get("bootstrap.servers"):
        raise CommandError(
            "bootstrap.servers is not set: give --bootstrap-server host:port, or the key in --consumer.config"
        )
    # As in Kafka, group.id in the file is ignored. With a fixed group, a run would start at the end of an earlier run.
    properties["group.id"] = options.group or f"perf-consumer-{secrets.randbelow(100_000)}"
    properties["max.partition.fetch.bytes"] = str(options.fetch_size)
    properties["receive.buffer.bytes"] = str(options.socket_buffer_size)
    properties["auto.offset.reset"] = "latest" if options.from_latest else "earliest"
    properties["check.crcs"] = "false"
    properties.setdefault("client.id", "perf-consumer-client")
    config = explained(translate(checked_login(properties)), properties)
    return {**JAVA_DEFAULTS, "queued.min.messages": 1_000_000, **config}


class _Run:
    """One measurement."""

    def __init__(self, options: ConsumerPerfOptions, target: int, output: Output) -> None:
        from confluent_kafka import Consumer

        self.options = options
        self.target = target
        self.output = output
        self.count = 0
        self.size_bytes = 0
        self.joining_ms = 0.0
        self.join_start = time.time()
        config = configuration(options)
        self._group = str(config["group.id"])
        self.look_s = max_age_s(config)
        self.unreadable = UnreadableRecords(config)
        self.positions = JavaPositions(config, self._assigned, self.unreadable.begin_at)
        self.consumer: objects.Consumer = new_client(Consumer, config)

    def read(self) -> None:
        options = self.options
        started = last_record = reported = time.time()
        self.join_start = started
        matching: MatchingTopics | None = None
        if options.topic is not None:
            self._subscribe([options.topic])
        else:
            matches = matcher(options.include or "")
            matching = MatchingTopics(self.consumer, matches, self._subscribe, every_s=self.look_s)
        reported_count = reported_bytes = 0
        reported_joining_ms = 0.0
        while self.count < self.target:
            if matching is not None:
                matching.refresh()
            messages = self.consumer.consume(BATCH_RECORDS, POLL_S)
            self.unreadable.check(self.consumer)
            now = time.time()
            self._take(messages)
            if messages:
                last_record = now
            elif (now - last_record) * 1000 > options.timeout:
                self.output.say(
                    "WARNING: Exiting before consuming the expected number of messages: "
                    f"timeout ({options.timeout} ms) exceeded. "
                    "You can use the --timeout option to increase the timeout."
                )
                break
            if (
                messages
                and options.show_detailed_stats
                and (now - reported) * 1000 >= options.reporting_interval
            ):
                self._line(
                    reported,
                    now,
                    self.count - reported_count,
                    self.size_bytes - reported_bytes,
                    self.joining_ms - reported_joining_ms,
                )
                reported, reported_count, reported_bytes = now, self.count, self.size_bytes
                reported_joining_ms = self.joining_ms
        finished = time.time()
        # A run that ends before its first interval still prints one line.
        if not options.show_detailed_stats or reported == started:
            self._line(started, finished, self.count, self.size_bytes, self.joining_ms)

    def show_metrics(self) -> None:
        client = "{client-id=perf-consumer-client}"
        print_metrics(
            self.output,
            {
                f"consumer-fetch-manager-metrics:bytes-consumed-total:{client}": self.size_bytes,
                f"consumer-fetch-manager-metrics:records-consumed-total:{client}": self.count,
                f"consumer-coordinator-metrics:rebalance-latency-total:{client}": self.joining_ms,
            },
        )

    def _subscribe(self, topics: list[str]) -> None:
        self.consumer.subscribe(topics, on_assign=self.positions.assigned, on_revoke=self._revoked)

    def _take(self, messages: list[objects.Message]) -> None:
        read = []
        for message in messages:
            if (error := message.error()) is not None:
                refuse_undecodable(message)
                consumer_lacks(error.code(), message.topic(), self._group)
                if is_fatal(error):
                    raise CommandError(error.str())
                logger().warning("%s", error.str())
                continue
            read.append(message)
            self.count += 1
            self.size_bytes += len(message) + len(message.key() or b"")
        store_offsets(self.consumer, read)

    def _line(self, start: float, end: float, count: int, size_bytes: int, joining_ms: float) -> None:
        options = self.options
        elapsed_ms = max((end - start) * 1000, 1e-9)
        fetch_ms = max(elapsed_ms - joining_ms, 0.0)
        megabytes = size_bytes / MEGABYTE
        total = (
            (self.size_bytes / MEGABYTE, self.count) if options.show_detailed_stats else (megabytes, count)
        )
        first = (
            f"{_shown(end, options.date_format)}, 0"
            if options.show_detailed_stats
            else f"{_shown(start, options.date_format)}, {_shown(end, options.date_format)}"
        )
        fetch_s = fetch_ms / 1000
        rates = (megabytes / fetch_s, count / fetch_s) if fetch_s else (0.0, 0.0)
        text = (
            f"{first}, {total[0]:.4f}, {megabytes * 1000 / elapsed_ms:.4f}, "
            f"{total[1]}, {count * 1000 / elapsed_ms:.4f}, "
            f"{int(joining_ms)}, {int(fetch_ms)}, {rates[0]:.4f}, {rates[1]:.4f}"
        )
        row = {
            "megabytes": round(total[0], 4),
            "records": total[1],
            "records_per_second": round(count * 1000 / elapsed_ms, 4),
        }
        self.output.row(row, text)

    def _assigned(self, consumer: objects.Consumer, partitions: list[objects.PartitionOffset]) -> None:
        self.joining_ms += (time.time() - self.join_start) * 1000

    def _revoked(self, consumer: objects.Consumer, partitions: list[objects.PartitionOffset]) -> None:
        self.join_start = time.time()


def _shown(moment_s: float, date_format: str) -> str:
    return SimpleDateFormat(date_format, None).format(int(moment_s * 1000))


command = Command(
    name="consumer-perf-test",
    description="This tool is used to verify the consumer performance.",
    options=ConsumerPerfOptions,
    run=run,
    examples=(
        Example(
            "Read 1,000 records as fast as possible:",
            "kcli consumer-perf-test --bootstrap-server localhost:9092 --topic perf \\\n  --messages 1000",
        ),
    ),
    exit_status=(
        (0, "The test ended, even if --timeout ended it before all records were read."),
        FAILURE,
        INTERRUPTED,
        TERMINATED,
    ),
)
