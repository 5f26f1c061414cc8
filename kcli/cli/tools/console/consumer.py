"""kafka-console-consumer: prints the records of a topic on standard output."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.client_properties import checked_login, client_properties, key_values, warn_unknown
from kcli.cli.coroutines import run_coroutine
from kcli.cli.moment import FORMS
from kcli.cli.output import Output, java_text, warn
from kcli.cli.record_traces import RecordTraces, record_traces
from kcli.cli.signals import finish_on_sigterm
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    Kind,
    UsageError,
    flag,
    forbid,
    option,
    require,
)
from kcli.cli.tools.console import envelope, formatters
from kcli.cli.tools.console.positions import start_ms
from kcli.cli.tools.console.printer import Printer, is_positioned, start_offset
from kcli.cli.tools.console.record_filter import record_filter
from kcli.cli.tools.console.schema_options import (
    FormatOptions,
    refuse_without_format,
    unknown_properties,
    uses_schemas,
)
from kcli.cli.unreachable import explained
from kcli.command.examples import INTERRUPTED, TERMINATED, Example
from kcli.errors import KafkaError
from kcli.rdkafka.configuration import translate
from kcli.rdkafka.consumer import JAVA_DEFAULTS
from kcli.rdkafka.log import logger
from kcli.rdkafka.lookup import LOOKUP_TIMEOUT_S
from kcli.rdkafka.matching_topics import matcher

if TYPE_CHECKING:
    from kcli.cli.tools.console.schema_records import RecordDecoder

DEFAULT_FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"

GROUP_NUMBERS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConsumerOptions(FormatOptions):
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
        "headers.deserializer. With --value-format also the keys of Confluent's tools and clients: print.schema.ids, "
        "schema.id.separator, schema.registry.url, use.latest.version, and so on.",
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
    decoder = _decoder(options)
    if _is_search(options):
        return _search(options, show, decoder)
    config: dict[str, object] | KafkaError
    try:
        config = configuration(options)
    except KafkaError as error:
        config = error
    printer = Printer(options, show, record_filter(options.filter), decoder)
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


def _decoder(options: ConsoleConsumerOptions) -> RecordDecoder | None:
    """The decoder of keys and values with schemas."""
    if not uses_schemas(options):
        refuse_without_format(options)
        return None
    from kcli.cli.tools.console.schema_formats import formats_of
    from kcli.cli.tools.console.schema_records import RecordDecoder

    properties = _formatter_properties(options)
    return RecordDecoder(formats_of(options, _client_properties(options), properties), properties)


def _search(
    options: ConsoleConsumerOptions, show: formatters.Formatter, decoder: RecordDecoder | None
) -> int:
    """Prints the records of --by-time. The imports are here, because other runs of the tool do not need them."""
    from kcli.cli.tools.console.search import search

    properties = _client_properties(options)
    properties["bootstrap.servers"] = options.bootstrap_server or ""
    if options.has("isolation-level"):
        properties["isolation.level"] = options.isolation_level
    if options.output == "tsv":
        sys.stdout.buffer.write(formatters.TSV_HEADER)
    if decoder is not None:
        decode, printed = decoder.decode, show
        show = lambda message: printed(decode(message))  # noqa: E731
    count = run_coroutine(search(options, properties, show))
    warn(f"Processed a total of {count} messages")
    return 0


def _client_properties(options: ConsoleConsumerOptions) -> dict[str, str]:
    words = key_values((*options.consumer_property, *options.command_property))
    from_file = client_properties(options.consumer_config or options.command_config, ())
    return {**client_properties(None, (), options.client_properties), **from_file, **words}


def configuration(options: ConsoleConsumerOptions) -> dict[str, object]:
    """Returns the configuration for librdkafka. Raises UsageError if several group ids are given, and KafkaError if the
    login fails."""
    words = key_values((*options.consumer_property, *options.command_property))
    from_file = client_properties(options.consumer_config or options.command_config, ())
    properties = {**client_properties(None, (), options.client_properties), **from_file, **words}
    _choose_group(options, properties, [options.group, words.get("group.id"), from_file.get("group.id")])
    reset = words.get("auto.offset.reset", from_file.get("auto.offset.reset"))
    if options.from_beginning and reset not in (None, "earliest"):
        raise CommandError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
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
    limit_ms = round(LOOKUP_TIMEOUT_S * 1000) if is_positioned(options) else options.timeout_ms
    if uses_schemas(options):
        from kcli.cli.tools.console.schema_formats import without_registry_keys

        properties = without_registry_keys(properties)
    config = explained(translate(checked_login(properties)), properties, limit_ms=limit_ms)
    # librdkafka must report the end of a partition: --last stops there, and a group commits the position after
    # transaction markers.
    return {**JAVA_DEFAULTS, "enable.partition.eof": True, **config}


def _choose_group(
    options: ConsoleConsumerOptions, properties: dict[str, str], sources: list[str | None]
) -> None:
    named = list(dict.fromkeys(group for group in sources if group is not None))
    if options.partition is not None and named:
        raise UsageError("Options group and partition cannot be specified together.")
    if named and is_positioned(options):
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
    if "group.id" in properties and options.partition is None and not is_positioned(options):
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
    start_offset(options)
    _check_position(options)


def _check_position(options: ConsoleConsumerOptions) -> None:
    names = [name for name in ("from-time", "last", "from-beginning", "offset") if options.has(name)]
    if is_positioned(options) and len(names) > 1:
        raise UsageError(f"Options {names[0]} and {names[1]} cannot be specified together.")
    if options.last is not None and options.last < 1:
        raise UsageError("--last must be at least 1")
    start_ms(options.from_time)
    record_filter(options.filter)
    if options.include is not None:
        matcher(options.include)


def _formatter(options: ConsoleConsumerOptions, output: Output) -> formatters.Formatter:
    if options.format is not None:
        return formatters.letters(options.format)
    if output.format == "json":
        return envelope.write
    if output.format == "tsv":
        return formatters.tsv_line
    properties = _formatter_properties(options)
    unknown = formatters.unknown_properties(options.formatter, properties)
    used = "formatter-property" if options.formatter_property else "property"
    warn_unknown(used, unknown_properties(options, unknown, ()), formatters.PROPERTIES)
    return formatters.formatter(options.formatter, properties)


def _formatter_properties(options: ConsoleConsumerOptions) -> dict[str, str]:
    properties = client_properties(options.formatter_config, ())
    if options.key_deserializer:
        properties["key.deserializer"] = options.key_deserializer
    if options.value_deserializer:
        properties["value.deserializer"] = options.value_deserializer
    return properties | key_values((*options.property, *options.formatter_property))


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
            "Print an Avro value as JSON, in the latest version of its schema:",
            "kcli console-consumer --bootstrap-server localhost:9092 --topic payments \\\n"
            "  --from-beginning --max-messages 1 --value-format avro \\\n"
            "  --schema-registry http://localhost:8081 --property use.latest.version=true",
            is_kafkas=False,
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
