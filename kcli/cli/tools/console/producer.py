"""kafka-console-producer: each line of standard input becomes a record."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.client_properties import check_bootstrap, checked_login, client_properties, warn_unknown
from kcli.cli.missing_rights import producer_lacks, transaction_lacks
from kcli.cli.output import Output, java_text, warn
from kcli.cli.record_traces import RecordTraces, new_producer, record_traces
from kcli.cli.script_form import is_kafkas_script, warn_of_failures
from kcli.cli.signals import finish_on_sigterm
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    Kind,
    UsageError,
    flag,
    option,
    require,
)
from kcli.cli.tools.console import envelope
from kcli.cli.tools.console.line_reader import PROPERTIES, Line, LineParser, read_lines
from kcli.cli.tools.console.schema_options import (
    WritingFormatOptions,
    refuse_without_format,
    unknown_properties,
    uses_schemas,
)
from kcli.cli.unreachable import explained
from kcli.command.examples import INTERRUPTED, TERMINATED, Example
from kcli.errors import KafkaError
from kcli.model.java_text import parse_int
from kcli.rdkafka import objects
from kcli.rdkafka.client import kafka_error
from kcli.rdkafka.configuration import TRANSACTION_TIMEOUT_MS
from kcli.rdkafka.delivery import DeliveryReports, Outcome, failure_lines, is_purged, outcome_of
from kcli.rdkafka.log import logger
from kcli.rdkafka.producer import MAX_BLOCK_MS, PARTITION_UA, Destination, producer_config
from kcli.rdkafka.transactions import DEFAULT_DURATION_MS, Transactions
from kcli.runtime.log_text import log_line

if TYPE_CHECKING:
    from kcli.cli.tools.console.schema_records import RecordEncoder

LINE_READER = "org.apache.kafka.tools.LineMessageReader"

# The number of lines between two calls that process delivery reports and log lines.
POLL_EVERY_LINES = 4096
# The most failures that are reported one by one. The count at the end includes all failures.
MAX_FAILURES_TOLD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleProducerOptions(WritingFormatOptions):
    topic: str | None = option("The topic to send to.", metavar="topic")
    bootstrap_server: str | None = option(
        "The brokers to connect to first, as host:port,host:port.", metavar="server to connect to"
    )
    sync: bool = flag("Wait until a record is acknowledged before reading the next one.")
    compression_codec: str | None = option(
        "The compression codec: none, gzip, snappy, lz4 or zstd. The option without an argument means gzip.",
        metavar="compression-codec",
        optional_argument=True,
        bare_value="gzip",
    )
    batch_size: int = option(
        "The maximum size of a batch in bytes (batch.size).", Kind.INTEGER, default=16384, metavar="size"
    )
    message_send_max_retries: int = option(
        "How many times a failed send is retried (retries).", Kind.INTEGER, default=3
    )
    retry_backoff_ms: int = option("Milliseconds between two attempts to send.", Kind.LONG, default=100)
    timeout: int = option(
        "How many milliseconds the producer waits for more records before it sends a batch (linger.ms).",
        Kind.LONG,
        default=1000,
        metavar="timeout_ms",
    )
    request_required_acks: str = option(
        "The acknowledgements to wait for: 0 (none), 1 (the leader), or all (-1: all in-sync replicas).",
        default="-1",
        metavar="request required acks",
    )
    request_timeout_ms: int = option(
        "The time limit for an acknowledgement, in milliseconds.",
        Kind.INTEGER,
        default=1500,
        metavar="request timeout ms",
    )
    metadata_expiry_ms: int = option(
        "Milliseconds after which metadata is requested again.",
        Kind.LONG,
        default=300_000,
        metavar="metadata expiration interval",
    )
    max_block_ms: int = option(
        "Milliseconds to wait for a topic's metadata.", Kind.LONG, default=60_000, metavar="max block on send"
    )
    max_memory_bytes: int = option(
        "The memory for records that wait to be sent, in bytes (buffer.memory).",
        Kind.LONG,
        default=33_554_432,
        metavar="total memory in bytes",
    )
    max_partition_memory_bytes: int = option(
        "The old name of --batch-size.", Kind.INTEGER, default=16384, deprecated=True
    )
    socket_buffer_size: int = option(
        "The size of the TCP send buffer in bytes.", Kind.INTEGER, default=102_400, metavar="size"
    )
    line_reader: str = option(
        "The class that reads lines. Only the default class exists.",
        default=LINE_READER,
        metavar="reader_class",
    )
    property: tuple[str, ...] = option(
        "A property of the line reader, as key=value. Keys: parse.key, key.separator, parse.headers, "
        "headers.delimiter, headers.separator, headers.key.separator, null.marker, ignore.error. With --value-format "
        "also the keys of Confluent's tools and clients: value.schema, value.schema.file, value.schema.id, value.refs, "
        "the same for key, auto.register, schema.registry.url, and so on.",
        metavar="prop",
        repeatable=True,
    )
    reader_property: tuple[str, ...] = option(
        "The new name of --property (since Kafka 4.2).", metavar="prop", repeatable=True
    )
    reader_config: str | None = option(
        "A properties file for the line reader. --property takes precedence over the file.",
        metavar="config file",
    )
    producer_property: tuple[str, ...] = option(
        "A property of the producer, as key=value.", metavar="producer_prop", repeatable=True
    )
    command_property: tuple[str, ...] = option(
        "The new name of --producer-property (since Kafka 4.2).", metavar="producer_prop", repeatable=True
    )
    producer_config: str | None = option(
        "A properties file for the producer.", name="producer.config", metavar="config file"
    )
    command_config: str | None = option(
        "The new name of --producer.config (since Kafka 4.2).", metavar="config file"
    )
    input: str = option(
        'The format of the input. With "text", each line is passed to the line reader. With "json", each '
        "line is a JSON object in the format of console-consumer --output json. The key, value, headers and "
        "timestamp of each JSON object are sent.",
        metavar="format",
        default="text",
        choices=("text", "json"),
    )
    keep_partition: bool = flag(
        "With --input json: send each record to the partition that its JSON object contains."
    )
    transactional_id: str | None = option(
        "Send in transactions with this transactional id. A consumer with read_committed sees all lines "
        "of a transaction or none. An earlier producer with the same id is fenced.",
        metavar="transactional id",
    )
    transaction_duration_ms: int | None = option(
        "Commit a transaction after this many milliseconds (default 3000), even if no line arrives.",
        Kind.LONG,
        metavar="ms",
    )


DISCARD_BYTES = 1 << 16
"""The size of one read of standard input after a failed login. The tool then discards the input."""

_PAIRS = (
    ("command-config", "producer.config"),
    ("command-property", "producer-property"),
    ("reader-property", "property"),
)


def run(options: ConsoleProducerOptions, output: Output) -> int:
    """Sends standard input. Returns 1 if a line failed, or 0 under the name of Kafka's script, as in Kafka."""
    require(options, "topic")
    for new, old in _PAIRS:
        if options.has(new) and options.has(old):
            raise UsageError(f"Options --{new} and --{old} cannot be specified together.")
    check_bootstrap(options.bootstrap_server)
    if options.line_reader != LINE_READER:
        raise CommandError(
            f"The reader {options.line_reader} is a Java class; the one reader here is {LINE_READER}"
        )
    _check_input(options)
    reader = client_properties(options.reader_config, (*options.property, *options.reader_property))
    used = "reader-property" if options.reader_property else "property"
    warn_unknown(used, unknown_properties(options, reader, PROPERTIES), PROPERTIES)
    parser = LineParser.configure(reader)
    assert options.topic is not None
    finish_on_sigterm()
    try:
        config = configuration(options)
    except KafkaError as error:
        return _not_logged_in(options.topic, error)
    encoder = _encoder(options, reader)
    duration_ms = None
    if "transactional.id" in config:
        duration_ms = options.transaction_duration_ms or DEFAULT_DURATION_MS
        _check_duration(duration_ms, config)
    traces = record_traces("console-producer")
    try:
        sender = Sender(options.topic, config, traces, is_sync=options.sync, duration_ms=duration_ms)
        if options.input == "json":
            return sender.send_envelopes(encoder, keep_partition=options.keep_partition)
        return sender.send(parser, encoder)
    finally:
        if traces is not None:
            traces.close()


def _encoder(options: ConsoleProducerOptions, reader: Mapping[str, str]) -> RecordEncoder | None:
    """The encoder of keys and values with schemas. Registers the schema, or raises CommandError."""
    if not uses_schemas(options):
        refuse_without_format(options)
        return None
    from kcli.cli.tools.console.schema_formats import formats_of
    from kcli.cli.tools.console.schema_records import RecordEncoder

    assert options.topic is not None
    return RecordEncoder(formats_of(options, _client_properties(options), reader), options.topic)


def _not_logged_in(topic: str, error: KafkaError) -> int:
    """Reports a failed login, and reads standard input to its end without sending it."""
    logger().error("Error when sending messages to topic %s: %s", topic, java_text(error))
    lines, last = 0, b"\n"
    while text := sys.stdin.buffer.read(DISCARD_BYTES):
        lines, last = lines + text.count(b"\n"), text[-1:]
    lines += last != b"\n"
    return _reported({Outcome.NOT_SENT: lines}, lines, topic)


def _reported(failed: Mapping[Outcome, int], sent: int, topic: str) -> int:
    """Reports the number of the lines that failed. Returns the exit code."""
    lines = failure_lines(failed, sent, "lines", topic)
    warn_of_failures(lines, "console-producer")
    return 1 if lines and not is_kafkas_script() else 0


def _check_duration(duration_ms: int, properties: Mapping[str, object]) -> None:
    """Raises UsageError if the duration is not shorter than the time after which the broker aborts a transaction."""
    if duration_ms <= 0:
        raise UsageError("--transaction-duration-ms should be greater than zero")
    timeout_ms = parse_int(str(properties.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)))
    if duration_ms >= timeout_ms:
        raise UsageError(
            f"--transaction-duration-ms {duration_ms} is not less than transaction.timeout.ms ({timeout_ms}), after "
            "which the broker aborts a transaction"
        )


def _check_input(options: ConsoleProducerOptions) -> None:
    if options.input == "json" and not uses_schemas(options):
        for name in ("property", "reader-property", "reader-config"):
            if options.has(name):
                raise UsageError(f"--{name} is for lines of text: it does nothing with --input json")
    if options.input != "json" and options.keep_partition:
        raise UsageError("--keep-partition needs --input json: a line of text names no partition")
    if options.transaction_duration_ms is not None and options.transaction_duration_ms <= 0:
        raise UsageError("--transaction-duration-ms should be greater than zero")


def configuration(options: ConsoleProducerOptions) -> dict[str, object]:
    """Returns the configuration for librdkafka.

    The order of precedence is: an explicit option, a property, the file, the option's default.
    """
    properties = _client_properties(options)
    if uses_schemas(options):
        from kcli.cli.tools.console.schema_formats import without_registry_keys

        properties = without_registry_keys(properties)
    mapped: dict[str, tuple[str, object]] = {
        "linger.ms": ("timeout", options.timeout),
        "acks": ("request-required-acks", options.request_required_acks),
        "request.timeout.ms": ("request-timeout-ms", options.request_timeout_ms),
        "retries": ("message-send-max-retries", options.message_send_max_retries),
        "retry.backoff.ms": ("retry-backoff-ms", options.retry_backoff_ms),
        "send.buffer.bytes": ("socket-buffer-size", options.socket_buffer_size),
        "metadata.max.age.ms": ("metadata-expiry-ms", options.metadata_expiry_ms),
        "max.block.ms": ("max-block-ms", options.max_block_ms),
        "buffer.memory": ("max-memory-bytes", options.max_memory_bytes),
    }
    for key, (name, value) in mapped.items():
        if options.has(name) or key not in properties:
            properties[key] = str(value)
    # Without an option, librdkafka's own batch size is used, because input from a pipe is then sent several times
    # faster.
    if options.has("max-partition-memory-bytes"):
        properties["batch.size"] = str(options.max_partition_memory_bytes)
    elif options.has("batch-size"):
        properties["batch.size"] = str(options.batch_size)
    properties["compression.type"] = options.compression_codec or "none"
    properties.setdefault("client.id", "console-producer")
    if options.transactional_id is not None:
        properties["transactional.id"] = options.transactional_id
    elif options.transaction_duration_ms is not None:
        properties.setdefault("transactional.id", f"console-producer-{uuid.uuid4()}")
    properties["bootstrap.servers"] = options.bootstrap_server or ""
    config = producer_config(checked_login(properties), **{"delivery.report.only.error": True})
    return explained(config, properties, block_ms=MAX_BLOCK_MS)


def _client_properties(options: ConsoleProducerOptions) -> dict[str, str]:
    return client_properties(
        options.producer_config or options.command_config,
        (*options.producer_property, *options.command_property),
        options.client_properties,
    )


class Sender:
    """Sends lines through librdkafka, and counts the lines that failed, by what is known about them.

    `duration_ms` is the duration of a transaction; None means no transactions. If a transaction cannot be committed, no
    other transaction begins.
    """

    def __init__(
        self,
        topic: str,
        config: dict[str, object],
        traces: RecordTraces | None = None,
        *,
        is_sync: bool,
        duration_ms: int | None,
    ) -> None:
        self.topic = topic
        self._transactional_id = config.get("transactional.id")
        self.is_sync = is_sync
        self.sent = 0
        self.failed = dict.fromkeys(Outcome, 0)
        self._told = 0
        self._reports = DeliveryReports()
        self._removed: objects.Message | None = None
        """The first record that librdkafka has removed after an abort or a fatal error."""
        self._producer: objects.Producer = new_producer(
            {**config, "on_delivery": self._reports.delivered}, traces
        )
        self._destination = Destination(self._producer, topic, config)
        with transaction_lacks(topic, self._transactional_id):
            self._transactions = None if duration_ms is None else Transactions(self._producer, duration_ms)

    def send(self, parser: LineParser, encoder: RecordEncoder | None = None) -> int:
        """Sends standard input line by line. Returns the exit code."""

        def send_lines(lines: list[bytes], first: int) -> None:
            if parser.is_plain and encoder is None and not self.is_sync:
                self._send_values(lines)
                return
            for number, line in enumerate(lines, first):
                record = parser.parse(line, number)
                self._send_one(*(record if encoder is None else encoder.encode(record, number)))

        return self._send_all(send_lines)

    def send_envelopes(self, encoder: RecordEncoder | None = None, *, keep_partition: bool) -> int:
        """Sends standard input, which has one JSON object per line. Returns the exit code."""
        json_key = encoder is not None and encoder.has_key
        json_value = encoder is not None and encoder.has_value

        def send_lines(lines: list[bytes], first: int) -> None:
            for number, line in enumerate(lines, first):
                record = envelope.read(line, number, json_key=json_key, json_value=json_value)
                if record is None:
                    continue
                partition = record.partition if keep_partition else None
                parts = Line(record.key, record.value, record.headers)
                parts = parts if encoder is None else encoder.encode(parts, number)
                self._send_one(*parts, partition, record.timestamp_ms)

        return self._send_all(send_lines)

    def _send_all(self, send_lines: Callable[[list[bytes], int], None]) -> int:
        try:
            with self._reports.keeping_fatal():
                self._send_input(send_lines)
        except Exception:
            if self._transactions is not None:
                self._transactions.abort()
            raise
        finally:
            self._finish()
        if self._reports.fatal is not None and self.is_sync:
            raise CommandError()
        return _reported(self.failed, max(self.sent, sum(self.failed.values())), self.topic)

    def _send_input(self, send_lines: Callable[[list[bytes], int], None]) -> None:
        is_prompting = sys.stdin.isatty() and sys.stdout.isatty()
        number = 0
        _prompt(is_prompting)
        for lines in read_lines(self._read()):
            unknown = self._destination.awaited()
            if unknown is None:
                send_lines(lines, number + 1)
            else:
                self._give_up(lines, unknown)
            number += len(lines)
            self._producer.poll(0)
            self._report_failures()
            _prompt(is_prompting)

    def _send_values(self, lines: Iterable[bytes]) -> None:
        """Sends lines that are only values, as `_send_one` does.

        The code of `_send_one` is repeated here, because a call for each line would take as much time as the work
        itself.
        """
        from confluent_kafka import KafkaException

        produce, topic, partition_for = self._producer.produce, self.topic, self._destination.sticky
        for line in lines:
            if self._transactions is not None:
                self._begin(self._transactions)
            partition = partition_for(len(line))
            try:
                produce(topic, line, None, partition)
            except (BufferError, KafkaException):
                if (refused := self._destination.send(line, None, partition)) is not None:
                    self._lost(refused, Outcome.REFUSED, None, line)
            self.sent += 1
            if self.sent % POLL_EVERY_LINES == 0:
                self._producer.poll(0)
                self._report_failures()

    def _send_one(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        if self._transactions is not None:
            self._begin(self._transactions)
        if partition is None:
            partition = PARTITION_UA if key is not None else self._destination.sticky(len(value or b""))
        failed_before = self._told
        refused = self._destination.send(value, key, partition, headers=headers, timestamp_ms=timestamp_ms)
        if refused is not None:
            self._lost(refused, Outcome.REFUSED, key, value)
        self.sent += 1
        if self.is_sync:
            self._producer.flush()
            self._report_failures()
            if self._told > failed_before:
                raise CommandError()

    def _read(self) -> Callable[[int], bytes]:
        source = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
        return source.read if self._transactions is None else self._transactions.while_waiting(source)

    def _begin(self, transactions: Transactions) -> None:
        """Begins a transaction if none is open. Call this method before each line.

        Raises CommandError if an earlier line could not be delivered.
        """
        self._report_failures()
        if self._told:
            raise CommandError()
        transactions.begin()

    def _end(self, transactions: Transactions) -> None:
        """Commits the last transaction, or aborts it if one of its lines could not be delivered."""
        self._report_failures()
        try:
            if self._told or self._reports.fatal is not None:
                transactions.abort()
                raise CommandError()
            transactions.commit()
        finally:
            if left := self.sent - transactions.committed:
                warn(f"{left} of {self.sent} lines were not committed to topic {self.topic}.")

    def _finish(self) -> None:
        """Waits for every acknowledgement. A second Ctrl-C gives up on the records that are not acknowledged."""
        try:
            self._reports.flush(self._producer)
            if self._transactions is not None:
                with self._reports.keeping_fatal():
                    self._end(self._transactions)
        except KeyboardInterrupt:
            self.failed[Outcome.UNKNOWN] += len(self._producer)
            self._producer.purge()
            raise
        finally:
            self._report_failures()
            self._report_fatal()

    def _report_failures(self) -> None:
        """Reports the records that could not be delivered since the last call, but not the records that librdkafka has
        removed after an abort or a fatal error. `_end` reports the number of the first kind."""
        for error, message in self._reports.taken():
            if error is None:
                continue
            if is_purged(error) and (self._transactions is not None or self._reports.fatal is not None):
                if self._removed is None:
                    self._removed = message
                if self._transactions is None:
                    self.failed[outcome_of(error)] += 1
            else:
                self._lost(kafka_error(error), outcome_of(error), message.key(), message.value())

    def _report_fatal(self) -> None:
        """Reports a fatal error, and all records that it has removed, in one line."""
        if self._reports.fatal is not None:
            key, value = None, None
            if self._removed is not None:
                key, value = self._removed.key(), self._removed.value()
            self._report(self._reports.fatal, key, value, is_last=True)
            if self._transactions is None and not any(self.failed.values()):
                self.failed[Outcome.REFUSED] += 1  # the record that the producer did not take

    def _give_up(self, lines: list[bytes], error: KafkaError) -> None:
        for line in lines:
            self.sent += 1
            self._lost(error, Outcome.NOT_SENT, None, line)
            if self.is_sync:
                raise CommandError()

    def _lost(self, error: KafkaError, outcome: Outcome, key: bytes | None, value: bytes | None) -> None:
        """Counts and reports a failed record."""
        self.failed[outcome] += 1
        self._report(error, key, value)

    def _report(
        self, error: KafkaError, key: bytes | None, value: bytes | None, *, is_last: bool = False
    ) -> None:
        """Reports a failed record as Kafka does."""
        producer_lacks(error, self.topic, self._transactional_id)
        self._told += 1
        if self._told <= MAX_FAILURES_TOLD or is_last:
            key_text = "null" if key is None else f"{len(key)} bytes"
            value_text = "null" if value is None else f"{len(value)} bytes"
            text = (
                f"Error when sending message to topic {self.topic} with key: {key_text}, value: {value_text} "
                "with error:"
            )
            warn(log_line("ERROR", text, "kcli.console-producer"))
            warn(java_text(error))


def _prompt(is_prompting: bool) -> None:
    if is_prompting:
        sys.stdout.write(">")
        sys.stdout.flush()


command = Command(
    name="console-producer",
    description="This tool helps to read data from standard input and publish it to Kafka.",
    options=ConsoleProducerOptions,
    run=run,
    examples=(
        Example(
            "Send two records with keys:",
            "printf 'alice:1\\nbob:2\\n' | \\\n"
            "  kcli console-producer --bootstrap-server localhost:9092 --topic clicks \\\n"
            "  --property parse.key=true --property key.separator=:",
        ),
        Example(
            "Send lines of JSON as Avro, and register their schema:",
            "kcli console-producer --bootstrap-server localhost:9092 --topic payments \\\n"
            "  --value-format avro --schema-registry http://localhost:8081 \\\n"
            "  --schema payment.avsc < payments.jsonl",
            is_kafkas=False,
        ),
        Example(
            "Send the records that console-consumer --output json wrote to a file:",
            "kcli console-producer --bootstrap-server localhost:9092 \\\n"
            "  --topic orders-copy --input json < records.json",
        ),
    ),
    exit_status=(
        (
            0,
            (
                "All lines were acknowledged. Under the name kafka-console-producer.sh the code is also 0 if lines "
                "failed, as in Kafka. Standard error has the number of these lines and their errors."
            ),
        ),
        (
            1,
            (
                "Some lines were refused or not acknowledged, or the options are wrong. Lines that were not "
                "acknowledged may be in the topic."
            ),
        ),
        INTERRUPTED,
        TERMINATED,
    ),
)
