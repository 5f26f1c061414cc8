"""kafka-verifiable-producer: sends increasing numbers and prints the result of each, for tests of a cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass

from kcli.cli.client_properties import checked_login, client_properties
from kcli.cli.missing_rights import producer_lacks
from kcli.cli.output import Output, java_name
from kcli.cli.record_traces import new_producer, record_traces
from kcli.cli.signals import finish_on_sigterm
from kcli.cli.syntax.options import Command, ConnectingOptions, Exclusive, Family, Kind, UsageError, option
from kcli.cli.tools.verifiable.events import text, write
from kcli.cli.unreachable import explained
from kcli.command.examples import FAILURE, INTERRUPTED, TERMINATED, Example
from kcli.errors import KafkaError
from kcli.rdkafka import objects
from kcli.rdkafka.client import kafka_error
from kcli.rdkafka.delivery import DeliveryReports, is_purged
from kcli.rdkafka.producer import MAX_BLOCK_MS, PARTITION_UA, Destination, producer_config

NO_LIMIT = -1
# The time after which the events of reports are written while the last records are awaited.
EVENTS_EVERY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiableProducerOptions(ConnectingOptions):
    topic: str = option("The topic to send to.", required=True)
    bootstrap_server: str | None = option("The brokers to connect to first, as host:port,host:port.")
    max_messages: int = option("How many records to send. -1 means no limit.", Kind.INTEGER, default=NO_LIMIT)
    throughput: int = option(
        "The maximum number of records per second. -1 means no limit.", Kind.INTEGER, default=NO_LIMIT
    )
    acks: int = option(
        "The acknowledgements to wait for: 0 (none), 1 (the leader) or -1 (all in-sync replicas).",
        Kind.INTEGER,
        default=-1,
        choices=("0", "1", "-1"),
    )
    producer_config: str | None = option("A properties file for the producer.", name="producer.config")
    command_config: str | None = option("The new name of --producer.config (since Kafka 4.2).")
    message_create_time: int = option(
        "The timestamp of the first record, in milliseconds since the epoch. -1 means the time of sending.",
        Kind.LONG,
        default=NO_LIMIT,
    )
    value_prefix: int | None = option(
        "A number to write before each value. A dot separates the number from the value (example: 7.0).",
        Kind.INTEGER,
    )
    repeating_keys: int | None = option(
        "The number of different keys. The keys 0, 1, … are used in turn.", Kind.INTEGER
    )


def run(options: VerifiableProducerOptions, output: Output) -> int:
    """Sends --max-messages records. The last events are written even after an error."""
    run = _Run(options, output)
    finish_on_sigterm()
    try:
        run.send()
    finally:
        run.close()
    return 0


def configuration(options: VerifiableProducerOptions) -> dict[str, object]:
    """Returns the configuration for librdkafka, without retries.

    The file takes precedence over the options, as in Kafka.
    """
    if options.producer_config is not None and options.command_config is not None:
        raise UsageError("Options --producer.config and --command-config are mutually exclusive.")
    properties = {
        **client_properties(None, (), options.client_properties),
        "bootstrap.servers": options.bootstrap_server or "",
        "acks": str(options.acks),
        "retries": "0",
        **client_properties(options.producer_config or options.command_config, ()),
    }
    return explained(producer_config(checked_login(properties)), properties, block_ms=MAX_BLOCK_MS)


class _Run:
    """One run and its counts."""

    def __init__(self, options: VerifiableProducerOptions, output: Output) -> None:
        self.options = options
        self.output = output
        self.sent = 0
        self.acked = 0
        self._reports = DeliveryReports()
        config = configuration(options)
        self.traces = record_traces("verifiable-producer")
        self.producer: objects.Producer = new_producer(config, self.traces)
        self.destination = Destination(self.producer, options.topic, config)
        self.started = time.monotonic()
        self.timestamp_ms = options.message_create_time
        write(output, "startup_complete")

    def send(self) -> None:
        options = self.options
        while options.max_messages < 0 or self.sent < options.max_messages:
            keys = options.repeating_keys
            # As in Kafka, 0 means that keys do not repeat.
            key = None if keys is None else str(self.sent % keys if keys > 0 else self.sent)
            prefix = "" if options.value_prefix is None else f"{options.value_prefix}."
            self._produce(key, f"{prefix}{self.sent}")
            self.sent += 1
            self._poll(0)
            self._throttle()

    def close(self) -> None:
        try:
            self._flush()
        finally:
            self._report()
        if self.traces is not None:
            self.traces.close()
        write(self.output, "shutdown_complete")
        elapsed_s = max(time.monotonic() - self.started, 1e-9)
        write(
            self.output,
            "tool_data",
            sent=self.sent,
            acked=self.acked,
            target_throughput=self.options.throughput,
            avg_throughput=self.acked / elapsed_s,
        )

    def _produce(self, key: str | None, value: str) -> None:
        refused = self._reports.fatal
        if refused is None:
            with self._reports.keeping_fatal():
                refused = self._passed_on(key, value)
            if self._reports.fatal is not None:
                self._reports.flush(self.producer)
                refused = self._reports.fatal
        if refused is not None:
            self._refused(refused, key, value)

    def _passed_on(self, key: str | None, value: str) -> KafkaError | None:
        """Passes a record to librdkafka. Returns the error if librdkafka refuses the record."""
        unknown = self.destination.awaited()
        if unknown is not None:
            return unknown
        timestamp_ms = None
        if self.options.message_create_time != NO_LIMIT:
            timestamp_ms = self.timestamp_ms
            # As in Kafka, each record advances the timestamp by the age of the run.
            self.timestamp_ms += int((time.monotonic() - self.started) * 1000)
        return self.destination.send(
            value.encode(),
            None if key is None else key.encode(),
            PARTITION_UA if key is not None else self.destination.sticky(len(value)),
            timestamp_ms=timestamp_ms,
            on_delivery=self._reports.delivered,
        )

    def _throttle(self) -> None:
        if self.options.throughput <= 0:
            return
        due = self.started + self.sent / self.options.throughput
        while (ahead_s := due - time.monotonic()) > 0:
            self._poll(ahead_s)

    def _flush(self) -> None:
        """Waits for the reports of all records, and writes their events meanwhile."""
        waiting = 1
        while waiting and self._reports.fatal is None:
            with self._reports.keeping_fatal():
                waiting = self.producer.flush(EVENTS_EVERY_S)
            self._report()
        if self._reports.fatal is not None:
            self._reports.flush(self.producer)

    def _poll(self, seconds: float) -> None:
        with self._reports.keeping_fatal():
            self.producer.poll(seconds)
        self._report()

    def _report(self) -> None:
        """Writes an event for each record that was acknowledged or that failed since the last call."""
        for error, message in self._reports.taken():
            key, value = text(message.key()), text(message.value())
            if error is not None:
                fatal = self._reports.fatal if is_purged(error) else None
                self._refused(fatal or kafka_error(error), key, value)
                continue
            self.acked += 1
            write(
                self.output,
                "producer_send_success",
                key=key,
                value=value,
                offset=message.offset(),
                topic=message.topic(),
                partition=message.partition(),
            )

    def _refused(self, error: KafkaError, key: str | None, value: str | None) -> None:
        producer_lacks(error, self.options.topic or "")
        write(
            self.output,
            "producer_send_error",
            key=key,
            value=value,
            topic=self.options.topic,
            exception=f"class {java_name(error)}",
            message=error.message,
        )


command = Command(
    name="verifiable-producer",
    description="This tool produces increasing integers to the specified topic and prints JSON metadata to stdout "
    'on each "send" request.',
    family=Family.ARGPARSE4J,
    prog="verifiable-producer",
    bare_exit=0,
    options=VerifiableProducerOptions,
    run=run,
    exclusive=(Exclusive(names=("bootstrap-server",), required=True),),
    examples=(
        Example(
            "Send the numbers 0 to 99, at most 50 a second:",
            "kcli verifiable-producer --bootstrap-server localhost:9092 --topic checks \\\n"
            "  --max-messages 100 --throughput 50",
        ),
    ),
    exit_status=(
        (
            0,
            "All records were sent. The output has an event producer_send_error for each record that failed.",
        ),
        FAILURE,
        INTERRUPTED,
        TERMINATED,
    ),
)
