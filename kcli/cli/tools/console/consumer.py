"""kafka-console-consumer: prints the records of a topic on standard output."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from kcli.cli.client_properties import checked_login, client_properties, key_values, warn_unknown
from kcli.cli.missing_rights import consumer_lacks
from kcli.cli.moment import FORMS
from kcli.cli.output import Output, java_text, warn
from kcli.cli.record_traces import ConsumedRecords, RecordTraces, now_ns, record_traces
from kcli.cli.script_form import is_kafkas_script
from kcli.cli.signals import finish_on_sigterm
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    ConnectingOptions,
    Kind,
    UsageError,
    flag,
    forbid,
    option,
    require,
)
from kcli.cli.tools.console import envelope, formatters
from kcli.cli.tools.console.positions import partitions_of, start_ms, starts
from kcli.cli.tools.console.record_filter import Filter, record_filter
from kcli.cli.unreachable import explained
from kcli.cli.unreadable_records import UnreadableRecords, refuse_undecodable
from kcli.command.examples import INTERRUPTED, TERMINATED, Example
from kcli.errors import ErrorCode, InvalidTopicException, KafkaError
from kcli.model.java_text import parse_long
from kcli.model.topic_names import is_valid
from kcli.model.topic_partition import TopicPartition, missing_partition
from kcli.rdkafka import objects
from kcli.rdkafka.client import is_fatal, kafka_error, new_client
from kcli.rdkafka.configuration import translate
from kcli.rdkafka.consumer import JAVA_DEFAULTS, JavaPositions, gathered, is_end, store_offsets
from kcli.rdkafka.log import logger
from kcli.rdkafka.matching_topics import MatchingTopics, matcher, max_age_s

DEFAULT_FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"

# The most records in one call to librdkafka. With fewer records, the calls would take more CPU time. More records would
# need much memory.
BATCH_RECORDS = 2000
# The longest wait between two checks for Ctrl-C, SIGTERM and --timeout-ms.
POLL_S = 0.2
# The time-out of one request for metadata. A short time lets Ctrl-C end the command.
LOOKUP_S = 1.0
GROUP_NUMBERS = 100_000
NO_LIMIT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConsumerOptions(ConnectingOptions):
    topic: str | None = option("The topic to read.", metavar="topic")
    include: str | None = option(
        "Read every topic whose whole name matches this regular expression.", metavar="Java regex (String)"
    )
    partition: int | None = option(
        "Read only this partition. No group is used.", Kind.INTEGER, metavar="partition"
    )
    offset: str | None = option(
        "With --partition: the offset to start at. The offset is earliest, latest (default) or a number.",
        metavar="consume offset",
    )
    bootstrap_server: str | None = option(
        "The brokers to connect to first, as host:port,host:port.", metavar="server to connect to"
    )
    group: str | None = option(
        "The consumer group. Default: a new group for each run.", metavar="consumer group id"
    )
    from_beginning: bool = flag("Start at the earliest record if the group has no committed offset.")
    max_messages: int | None = option("End after this many records.", Kind.INTEGER, metavar="num_messages")
    timeout_ms: int | None = option(
        "End if no record arrives for this many milliseconds.", Kind.LONG, metavar="timeout_ms"
    )
    exit_at_end: bool = flag("End when all records that each assigned partition has now are read.")
    format: str | None = option(
        "The format of a record, with the letters of kcat: %t topic, %p partition, %o offset, %T timestamp, %k key, "
        "%K length of the key, %v or %s value, %V or %S length of the value, %h headers, %% a percent sign. \\n, \\r "
        "and \\t are control characters. No newline is added.",
        metavar="format",
    )
    skip_message_on_error: bool = flag("Continue after a record that cannot be printed.")
    isolation_level: str = option(
        "With read_committed, records of aborted and open transactions are left out.",
        default="read_uncommitted",
    )
    formatter: str = option("The class that prints records.", default=DEFAULT_FORMATTER, metavar="class")
    property: tuple[str, ...] = option(
        "A property of the formatter, as key=value. Keys: print.timestamp, print.partition, print.offset, "
        "print.delivery, print.epoch, print.headers, print.key, print.value, key.separator, "
        "line.separator, headers.separator, null.literal, key.deserializer, value.deserializer, "
        "headers.deserializer.",
        metavar="prop",
        repeatable=True,
    )
    formatter_property: tuple[str, ...] = option(
        "The new name of --property (since Kafka 4.2).", metavar="prop", repeatable=True
    )
    formatter_config: str | None = option(
        "A properties file for the formatter. --property takes precedence over the file.",
        metavar="config file",
    )
    key_deserializer: str | None = option(
        "The class that converts keys to text.", metavar="deserializer for key"
    )
    value_deserializer: str | None = option(
        "The class that converts values to text.", metavar="deserializer for values"
    )
    consumer_property: tuple[str, ...] = option(
        "A property of the consumer, as key=value.", metavar="consumer_prop", repeatable=True
    )
    command_property: tuple[str, ...] = option(
        "The new name of --consumer-property (since Kafka 4.2).", metavar="consumer_prop", repeatable=True
    )
    consumer_config: str | None = option(
        "A properties file for the consumer.", name="consumer.config", metavar="config file"
    )
    command_config: str | None = option(
        "The new name of --consumer.config (since Kafka 4.2).", metavar="config file"
    )
    enable_systest_events: bool = flag("Print shutdown_complete at the end.")
    from_time: str | None = option(
        f"Start at the first record at or after this time. No group is used. The time is {FORMS}.",
        metavar="moment",
    )
    last: int | None = option(
        "Start this many records before the end of each partition. No group is used.",
        Kind.INTEGER,
        metavar="count",
    )
    filter: tuple[str, ...] = option(
        "Print only records that match: key=TEXT, key!=TEXT, key~REGEX or key!~REGEX. In place of key, you can use "
        "value or header.NAME. With this option, --max-messages is the maximum number of printed records.",
        metavar="rule",
        repeatable=True,
    )
    by_time: bool = flag(
        "Sort the records of all partitions by their timestamps, as the web console does, and end at the present end "
        "of the topic. No group is used. With --last, print the newest records of all partitions together. With "
        "--offset, start at this offset in each partition."
    )
    partitions: str | None = option(
        "With --by-time: read only these partitions, such as 0,3.", metavar="partitions"
    )
    where: str | None = option(
        "With --by-time: print only records that match this filter of the web console, such as "
        "'value.order.amount > 10'. docs/console.md describes the language.",
        metavar="filter",
    )
    output: str = option(
        'The format of records. With "text", the formatter prints each record. With "json", each record is '
        'a line with a JSON object, which console-producer --input json can read. With "tsv", the values are '
        "separated by tabs, after a header line, and null is printed as \\N.",
        metavar="format",
        default="text",
        choices=("text", "json", "tsv"),
    )


_PAIRS = (
    ("property", "formatter-property"),
    ("consumer-property", "command-property"),
    ("consumer.config", "command-config"),
)


def run(options: ConsoleConsumerOptions, output: Output) -> int:
    """Prints records until --max-messages, --timeout-ms or Ctrl-C, or until stdout is closed."""
    _check(options)
    show = _formatter(options, output)
    if _is_search(options):
        return _search(options, show)
    config: dict[str, object] | KafkaError
    try:
        config = configuration(options)
    except KafkaError as error:
        config = error
    printer = Printer(options, show, record_filter(options.filter))
    traces: RecordTraces | None = None
    finish_on_sigterm()
    try:
        if isinstance(config, KafkaError):
            logger().error("Error processing message, terminating consumer process: %s", java_text(config))
            return 0
        traces = record_traces("console-consumer")
        return printer.run(config, traces)
    finally:
        if traces is not None:
            traces.close()
        warn(f"Processed a total of {printer.count} messages")
        if options.filter:
            warn(f"{printer.count} of {printer.seen} records passed the filter")
        if options.enable_systest_events:
            print("shutdown_complete")


def _is_search(options: ConsoleConsumerOptions) -> bool:
    return options.by_time or options.where is not None or options.partitions is not None


def _search(options: ConsoleConsumerOptions, show: formatters.Formatter) -> int:
    """Prints the records of --by-time. The imports are here, because other runs of the tool do not need them."""
    from kcli.cli.tools.console.search import search

    words = key_values((*options.consumer_property, *options.command_property))
    from_file = client_properties(options.consumer_config or options.command_config, ())
    properties = {**client_properties(None, (), options.client_properties), **from_file, **words}
    properties["bootstrap.servers"] = options.bootstrap_server or ""
    if options.has("isolation-level"):
        properties["isolation.level"] = options.isolation_level
    if options.output == "tsv":
        sys.stdout.buffer.write(formatters.TSV_HEADER)
    count = asyncio.run(search(options, properties, show))
    warn(f"Processed a total of {count} messages")
    return 0


def configuration(options: ConsoleConsumerOptions) -> dict[str, object]:
    """Returns the configuration for librdkafka. Raises UsageError if several group ids are given, and KafkaError if the
    login fails."""
    words = key_values((*options.consumer_property, *options.command_property))
    from_file = client_properties(options.consumer_config or options.command_config, ())
    properties = {**client_properties(None, (), options.client_properties), **from_file, **words}
    _choose_group(options, properties, [options.group, words.get("group.id"), from_file.get("group.id")])
    asked = words.get("auto.offset.reset", from_file.get("auto.offset.reset"))
    if options.from_beginning and asked not in (None, "earliest"):
        raise CommandError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={asked}', please remove one option"
        )
    if options.from_beginning:
        properties["auto.offset.reset"] = "earliest"
    properties.setdefault("auto.offset.reset", "latest")
    if options.has("isolation-level"):
        properties["isolation.level"] = options.isolation_level
    properties.setdefault("isolation.level", options.isolation_level)
    properties["bootstrap.servers"] = options.bootstrap_server or ""
    properties.setdefault("client.id", "console-consumer")
    # Java's default is range and cooperative-sticky, but librdkafka does not accept both in one list.
    if properties.get("group.protocol", "classic").lower() == "classic":
        properties.setdefault("partition.assignment.strategy", "range")
    config = explained(translate(checked_login(properties)), properties, limit_ms=options.timeout_ms)
    # librdkafka must report the end of a partition: --last stops there, and a group commits the position after
    # transaction markers.
    return {**JAVA_DEFAULTS, "enable.partition.eof": True, **config}


def _choose_group(
    options: ConsoleConsumerOptions, properties: dict[str, str], sources: list[str | None]
) -> None:
    named = list(dict.fromkeys(group for group in sources if group is not None))
    if options.partition is not None and named:
        raise UsageError("Options group and partition cannot be specified together.")
    if named and _is_positioned(options):
        raise UsageError(
            "--from-time and --last read without a group; consumer-groups --reset-offsets moves a group"
        )
    if len(named) > 1:
        shown = ", ".join(f"'{group}'" for group in named)
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {shown}"
        )
    if named:
        properties["group.id"] = named[0]
        return
    if "group.id" in properties and options.partition is None and not _is_positioned(options):
        return  # the group comes from the profile
    properties["group.id"] = f"console-consumer-{secrets.randbelow(GROUP_NUMBERS)}"
    properties.setdefault("enable.auto.commit", "false")


def _check(options: ConsoleConsumerOptions) -> None:
    for old, new in _PAIRS:
        if options.has(old) and options.has(new):
            raise UsageError(f"Options --{old} and --{new} cannot be specified together.")
    if options.format is not None:
        forbid(options, "format", "formatter", "property", "formatter-property", "formatter-config")
        if options.output != "text":
            raise UsageError("--format is for the output format text")
    if (options.topic is None) == (options.include is None):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if options.partition is not None and options.topic is None:
        raise UsageError("The topic is required when partition is specified.")
    if options.offset is not None and options.partition is None and not _is_search(options):
        raise UsageError("The partition is required when offset is specified.")
    if options.from_beginning and options.offset is not None:
        raise UsageError("Options from-beginning and offset cannot be specified together.")
    require(options, "bootstrap-server")
    if _is_search(options):
        from kcli.cli.tools.console.search import check_search

        check_search(options)
    _start_offset(options)
    _check_position(options)


def _check_position(options: ConsoleConsumerOptions) -> None:
    given = [name for name in ("from-time", "last", "from-beginning", "offset") if options.has(name)]
    if _is_positioned(options) and len(given) > 1:
        raise UsageError(f"Options {given[0]} and {given[1]} cannot be specified together.")
    if options.last is not None and options.last < 1:
        raise UsageError("--last must be at least 1")
    start_ms(options.from_time)
    record_filter(options.filter)
    if options.include is not None:
        matcher(options.include)


def _is_positioned(options: ConsoleConsumerOptions) -> bool:
    """Whether --from-time or --last determines the start of every partition, so that no group is needed."""
    return options.from_time is not None or options.last is not None


def _start_offset(options: ConsoleConsumerOptions) -> int:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

    text = (options.offset or ("earliest" if options.from_beginning else "latest")).lower()
    if text == "earliest":
        return int(OFFSET_BEGINNING)
    if text == "latest":
        return int(OFFSET_END)
    try:
        offset = parse_long(text)
    except ValueError:
        offset = -1
    if offset < 0:
        raise UsageError(
            f"The provided offset value '{options.offset}' is incorrect. "
            "Valid values are 'earliest', 'latest', or a non-negative long."
        )
    return offset


def _formatter(options: ConsoleConsumerOptions, output: Output) -> formatters.Formatter:
    if options.format is not None:
        return formatters.letters(options.format)
    if output.format == "json":
        return envelope.write
    if output.format == "tsv":
        return formatters.tsv_line
    properties = client_properties(options.formatter_config, ())
    if options.key_deserializer:
        properties["key.deserializer"] = options.key_deserializer
    if options.value_deserializer:
        properties["value.deserializer"] = options.value_deserializer
    properties |= key_values((*options.property, *options.formatter_property))
    unknown = formatters.unknown_properties(options.formatter, properties)
    used = "formatter-property" if options.formatter_property else "property"
    warn_unknown(used, unknown, formatters.PROPERTIES)
    return formatters.formatter(options.formatter, properties)


class Printer:
    """Takes records from librdkafka and prints them.

    `seen` counts all records. `count` counts the records that match --filter.
    """

    def __init__(
        self, options: ConsoleConsumerOptions, show: formatters.Formatter, wanted: Filter | None
    ) -> None:
        self.options = options
        self.show = show
        self.wanted = wanted
        self.count = 0
        self.seen = 0
        self._matching: MatchingTopics | None = None
        self._is_in_group = False
        self._records: ConsumedRecords | None = None
        self._group: str | None = None
        self._unreadable = UnreadableRecords({})
        self._ended: set[tuple[str, int]] = set()
        """The partitions that were read to their end, for --exit-at-end."""

    def run(self, config: dict[str, object], traces: RecordTraces | None = None) -> int:
        from confluent_kafka import Consumer

        topic = self.options.topic
        if topic is not None and not is_valid(topic):
            # For an invalid name, librdkafka would wait without end, but Kafka's tool ends with an error.
            why = java_text(InvalidTopicException(f"Invalid topics: [{topic}]"))
            logger().error("Error processing message, terminating consumer process: %s", why)
            return 0
        consumer: objects.Consumer = new_client(Consumer, config)
        self._group = str(config["group.id"])
        self._unreadable = UnreadableRecords(config)
        try:
            self._subscribe(consumer, config)
            if traces is not None:
                self._records = traces.consumer(config, is_in_group=self._is_in_group)
                self.show = self._records.timed(self.show)
            if self.options.output == "tsv":
                self._write(formatters.TSV_HEADER)
            for messages in self._batches(consumer):
                if not self._print(consumer, messages):
                    break
        finally:
            consumer.close()
        return 0

    def _subscribe(self, consumer: objects.Consumer, config: dict[str, object]) -> None:
        from confluent_kafka import TopicPartition as ClientPartition

        options = self.options
        if _is_positioned(options):
            self._assign(consumer, _positions(consumer, options, self._unreadable))
        elif options.partition is not None:
            assert options.topic is not None
            if not is_kafkas_script():
                self._refuse_missing_partition(consumer, options.topic, options.partition)
            start = ClientPartition(options.topic, options.partition, _start_offset(options))
            self._assign(consumer, [start])
        else:
            self._is_in_group = True
            positions = JavaPositions(config, on_placed=self._unreadable.begin_at)
            subscribe = partial(consumer.subscribe, on_assign=positions.assigned)
            if options.topic is not None:
                subscribe([options.topic])
            else:
                wanted = matcher(options.include or "")
                self._matching = MatchingTopics(consumer, wanted, subscribe, every_s=max_age_s(config))

    def _assign(self, consumer: objects.Consumer, starts: list[objects.PartitionOffset]) -> None:
        self._unreadable.begin_at(starts)
        consumer.assign(starts)

    def _refuse_missing_partition(self, consumer: objects.Consumer, topic: str, partition: int) -> None:
        """Raises CommandError if the topic exists without this partition, for which librdkafka would wait without end.

        If the topic is missing, it may still be created. Kafka's script waits in both cases.
        """
        from confluent_kafka import KafkaException

        limit_s = (self.options.timeout_ms or 0) / 1000 if self._has_limit() else math.inf
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            try:
                found = consumer.list_topics(topic, min(LOOKUP_S, limit_s)).topics[topic]
            except KafkaException:
                consumer.poll(0)  # calls the callbacks of librdkafka, which report why no server answers
                continue
            if found.error is None and partition not in found.partitions:
                place = TopicPartition(topic, partition)
                raise CommandError(missing_partition(place, len(found.partitions)))
            return

    def _has_limit(self) -> bool:
        return self.options.timeout_ms is not None and self.options.timeout_ms >= 0

    def _batches(self, consumer: objects.Consumer) -> Iterator[list[objects.Message]]:
        """Yields records in groups, until --timeout-ms has passed without a record."""
        limit_ms = self.options.timeout_ms if self._has_limit() else None
        last = time.monotonic()

        def is_over() -> bool:
            return limit_ms is not None and time.monotonic() - last >= limit_ms / 1000

        while self._wanted() != 0:
            if self._matching is not None:
                self._matching.refresh()
            wait = (
                POLL_S
                if limit_ms is None
                else min(POLL_S, max(0.0, last + limit_ms / 1000 - time.monotonic()))
            )
            started_ns = now_ns()
            first = consumer.poll(wait)
            ends = first is None and is_over()
            self._unreadable.check(consumer, at_end=ends)
            if first is None:
                if reader_is_gone():
                    warn_closed()
                    return
                if ends:
                    return
                continue
            if self.seen == 0 and len(consumer.assignment()) > 1:
                messages = gathered(consumer, first)
            else:
                # The time-out is 0, so that only records that are already in the queue are added.
                more = (
                    consumer.consume(min(BATCH_RECORDS, self._wanted()) - 1, 0) if self._wanted() > 1 else []
                )
                messages = [first, *more]
            if self._records is not None:
                self._records.polled(messages, started_ns)
            yield messages
            if self.options.exit_at_end and self._is_at_end(consumer, messages):
                return
            if any(message.error() is None for message in messages):
                last = time.monotonic()
            elif not all(map(is_end, messages)) and is_over():
                return

    def _is_at_end(self, consumer: objects.Consumer, messages: list[objects.Message]) -> bool:
        """Whether all assigned partitions were read to their end."""
        for message in messages:
            if is_end(message):
                self._ended.add((message.topic(), message.partition()))
        assigned = {(each.topic, each.partition) for each in consumer.assignment()}
        return bool(assigned) and assigned <= self._ended

    def _wanted(self) -> int:
        limit = self.options.max_messages
        return BATCH_RECORDS if limit is None or limit == NO_LIMIT else max(0, limit - self.count)

    def _print(self, consumer: objects.Consumer, messages: list[objects.Message]) -> bool:
        """Prints a group of records. Returns False if stdout is closed."""
        lines: list[bytes] = []
        done: list[objects.Message] = []
        failure: Exception | None = None
        undecodable: objects.Message | None = None
        is_open = True
        for message in messages:
            if self._wanted() == 0:
                break
            if (problem := message.error()) is not None:
                if is_end(message):
                    done.append(message)
                elif problem.code() == problem._BAD_COMPRESSION:
                    undecodable = message
                    break
                elif self._is_last(problem, message.topic()):
                    is_open = False
                    break
                continue
            self.seen += 1
            done.append(message)
            if self.wanted is not None and not self.wanted(message):
                continue
            try:
                lines.append(self.show(message))
            except formatters.FormatError as error:
                if not self.options.skip_message_on_error:
                    failure = error
                    self.count += 1
                    done.pop()
                    break
                logger().error("Error processing message, skipping this message: %s", error)
            self.count += 1
        is_open = self._write(b"".join(lines)) and is_open
        if self._records is not None:
            self._records.finished()
        if self._is_in_group:
            store_offsets(consumer, done)
        if undecodable is not None:
            refuse_undecodable(undecodable)
        if failure is not None:
            raise CommandError(f"java.lang.RuntimeException: {failure}") from failure
        return is_open

    def _write(self, text: bytes) -> bool:
        try:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
            return True
        except BrokenPipeError:
            warn_closed()
            return False

    def _is_last(self, error: objects.ClientError, topic: str | None = None) -> bool:
        """Logs an error. Returns True if the error ends the tool. The tool then exits with 0, as Kafka's tool does."""
        if error.code() == ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise CommandError(f"Authentication failed: terminating consumer process: {error.str()}")
        consumer_lacks(error.code(), topic, self._group)
        final = (*_FATAL, error._AUTO_OFFSET_RESET)
        if is_fatal(error) or error.code() in final:
            why = error.str() if error.code() < 0 else java_text(kafka_error(error))
            logger().error("Error processing message, terminating consumer process: %s", why)
            return True
        logger().warning("%s", error.str())
        return False


# Errors that waiting does not resolve.
_FATAL = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED})


def _positions(
    consumer: objects.Consumer, options: ConsoleConsumerOptions, unreadable: UnreadableRecords
) -> list[objects.PartitionOffset]:
    """Returns the partitions to read, each with its start offset."""
    if options.topic is not None and options.partition is not None:
        partitions = [TopicPartition(options.topic, options.partition)]
    else:
        partitions = partitions_of(consumer, options.topic, options.include)
    return starts(consumer, partitions, unreadable, from_ms=start_ms(options.from_time), last=options.last)


def reader_is_gone() -> bool:
    """Whether the reader of stdout has closed it.

    The function polls the descriptor, because a write to a pipe may succeed although the reader is gone.
    """
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except (AttributeError, OSError, ValueError):
        return False  # the system has no poll, or stdout has no file
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def warn_closed() -> None:
    """Reports that stdout is closed, and redirects it so that Python's last flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    warn("Unable to write to standard out, closing consumer.")


command = Command(
    name="console-consumer",
    description="This tool helps to read data from Kafka topics and outputs it to standard output.",
    options=ConsoleConsumerOptions,
    run=run,
    examples=(
        Example(
            "Print the first ten records of a topic with their keys:",
            "kcli console-consumer --bootstrap-server localhost:9092 --topic orders \\\n"
            "  --from-beginning --max-messages 10 --property print.key=true",
        ),
        Example(
            'Print records of the last hour whose value contains "error", as JSON:',
            "kcli console-consumer --bootstrap-server localhost:9092 --topic orders \\\n"
            "  --from-time 1h --filter 'value~error' --output json --timeout-ms 3000",
        ),
    ),
    exit_status=(
        (
            0,
            (
                "--max-messages or --timeout-ms ended the command. As in Kafka, the code is also 0 after a fatal "
                "error. The log reports this error."
            ),
        ),
        (1, "The options are wrong, authentication failed, or a record could not be printed."),
        INTERRUPTED,
        TERMINATED,
    ),
)
