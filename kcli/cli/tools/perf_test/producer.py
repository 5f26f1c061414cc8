"""kafka-producer-perf-test: measures how fast records can be sent, and how long each acknowledgement takes."""

from __future__ import annotations

import random
import re
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kcli.cli.client_properties import checked_login, client_properties
from kcli.cli.java.random import SplittableRandom
from kcli.cli.missing_rights import producer_lacks, transaction_lacks
from kcli.cli.output import Output, java_text, warn
from kcli.cli.script_form import warn_of_failures
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
from kcli.cli.unreachable import explained
from kcli.command.examples import INTERRUPTED, Example
from kcli.errors import KafkaError
from kcli.rdkafka import objects
from kcli.rdkafka.client import kafka_error, new_client
from kcli.rdkafka.delivery import DeliveryReports, Outcome, failure_lines, is_purged, outcome_of
from kcli.rdkafka.producer import MAX_BLOCK_MS, Destination, producer_config
from kcli.rdkafka.transactions import DEFAULT_DURATION_MS, Transactions

MEGABYTE = 1024 * 1024
# The size of the pool of random bytes. It is larger than a batch of librdkafka.
POOL_BYTES = 1 << 21
LETTERS = bytes(ord("A") + number % 26 for number in range(256))
# The most latencies that are kept for percentiles, as in Kafka.
LATENCIES_MAX = 500_000
# The number of records between two checks of the clock and of delivery reports.
POLL_EVERY_RECORDS = 512
# With --throughput, the number of pauses per second. It is high, so that records are not sent in bursts and
# transactions end in time.
PACES_A_SECOND = 100
# The shortest sleep. A shorter sleep would take more time by itself than it should wait.
LEAST_SLEEP_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerPerfOptions(ConnectingOptions):
    topic: str = option("The topic to send to.", required=True)
    num_records: int = option("How many records to send.", Kind.LONG, required=True)
    throughput: float = option(
        "The maximum number of records per second. -1 means no limit.", Kind.DOUBLE, required=True
    )
    bootstrap_server: str | None = option("The brokers to connect to first, as host:port,host:port.")
    record_size: int | None = option("The size of each value in bytes. The bytes are random.", Kind.INTEGER)
    payload_file: str | None = option("A file with payloads, which are sent in random order.")
    payload_monotonic: bool = flag("Send 0, 1, 2, … as values.")
    payload_delimiter: str = option("The delimiter between the payloads in --payload-file.", default="\\n")
    producer_props: tuple[str, ...] = option(
        "Properties of the producer, as key=value arguments.", words=True
    )
    command_property: tuple[str, ...] = option(
        "The new name of --producer-props (since Kafka 4.2).", words=True
    )
    producer_config: str | None = option("A properties file for the producer.", name="producer.config")
    command_config: str | None = option("The new name of --producer.config (since Kafka 4.2).")
    print_metrics: bool = flag("Print the client's metrics at the end.")
    transactional_id: str | None = option("Send in transactions with this transactional id.")
    transaction_duration_ms: int | None = option(
        "Commit a transaction after this many milliseconds (default 3000).", Kind.LONG
    )
    warmup_records: int = option(
        "The number of records that are sent first, as a warm-up. A second summary leaves out these records.",
        Kind.LONG,
        default=0,
    )
    reporting_interval: int = option("Milliseconds between two lines of progress.", Kind.LONG, default=5000)


def run(options: ProducerPerfOptions, output: Output) -> int:
    """Sends records. Prints a line per interval and a summary."""
    _check(options)
    payload = _payload(options, output)
    try:
        config = configuration(options)
    except KafkaError as error:
        return _not_logged_in(error, output)
    return _Run(options, config, payload, output).send()


def _not_logged_in(error: KafkaError, output: Output) -> int:
    """Reports a failed login. As in Kafka, the summary reports 0 records, and the exit code is 0."""
    warn(java_text(error))
    row = {"records": 0, "failed": 1, "records_per_second": 0.0, "megabytes_per_second": 0.0}
    output.row(
        row,
        "0 records sent, 0.0 records/sec (0.00 MB/sec), NaN ms avg latency, 0.00 ms max latency, "
        "0 ms 50th, 0 ms 95th, 0 ms 99th, 0 ms 99.9th.",
    )
    return 0


def configuration(options: ProducerPerfOptions) -> dict[str, object]:
    """Returns the configuration for librdkafka from file, `key=value` arguments and options."""
    properties = client_properties(
        options.producer_config or options.command_config,
        (*options.producer_props, *options.command_property),
        options.client_properties,
    )
    if options.bootstrap_server:
        properties["bootstrap.servers"] = options.bootstrap_server
    if not properties.get("bootstrap.servers"):
        raise CommandError("No resolvable bootstrap urls given in bootstrap.servers")
    properties.setdefault("client.id", "perf-producer-client")
    transactional_id = _transactional_id(options, properties)
    if transactional_id:
        properties["transactional.id"] = transactional_id
    return explained(producer_config(checked_login(properties)), properties, block_ms=MAX_BLOCK_MS)


def _transactional_id(options: ProducerPerfOptions, properties: dict[str, str]) -> str | None:
    if options.transactional_id is None and options.transaction_duration_ms is None:
        return properties.get("transactional.id")
    return (
        options.transactional_id
        or properties.get("transactional.id")
        or f"performance-producer-{uuid.uuid4()}"
    )


def _check(options: ProducerPerfOptions) -> None:
    if not options.num_records > 0:
        raise UsageError("--num-records should be greater than zero")
    if options.record_size is not None and options.record_size <= 0:
        raise UsageError("--record-size should be greater than zero")
    if options.transaction_duration_ms is not None and options.transaction_duration_ms <= 0:
        raise UsageError("--transaction-duration-ms should be greater than zero")
    if options.reporting_interval <= 0:
        raise UsageError("--reporting-interval should be greater than zero")
    if not 0 <= options.warmup_records < options.num_records:
        raise UsageError(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, "
            "--num-records."
        )
    for new, old in (("command-property", "producer-props"), ("command-config", "producer.config")):
        if options.has(new) and options.has(old):
            raise UsageError(f"--{new} and --{old} cannot be specified together.")
    sources = ("producer-props", "producer.config", "command-property", "command-config", "bootstrap-server")
    if not any(options.has(name) for name in sources):
        raise UsageError("Either --producer-props or --producer.config must be specified.")


def _payload(options: ProducerPerfOptions, output: Output) -> Callable[[int], bytes]:
    """Returns a function that makes the value of the n-th record."""
    if options.payload_monotonic:
        return lambda number: b"%d" % number
    if options.record_size is not None:
        size = options.record_size
        # Values come from a pool, because the time to generate each one would distort the measurement. The pool is
        # larger than a batch, so compression has the same effect as for generated values.
        span = min(options.num_records * size, POOL_BYTES)
        pool = random.Random(0).randbytes(span + size).translate(LETTERS)
        return lambda number: pool[(at := number * size % span) : at + size]
    assert options.payload_file is not None
    path = Path(options.payload_file)
    output.say(f"Reading payloads from: {path.absolute()}")
    text = path.read_bytes() if path.exists() else b""
    if not text:
        raise CommandError(
            'Exception in thread "main" java.lang.IllegalArgumentException: File does not exist or empty file provided.'
        )
    try:
        # The delimiter is a regular expression. So the two characters \n, typed by the user, also match a newline.
        parts = re.split(options.payload_delimiter.encode(), text)
    except re.error as error:
        raise CommandError(f"--payload-delimiter {options.payload_delimiter}: {error}") from None
    while parts and not parts[-1]:
        parts.pop()
    output.say(f"Number of messages read: {len(parts)}")
    if not parts:
        raise CommandError(f"{path} holds nothing but delimiters")
    chance = SplittableRandom(0)  # the same random numbers as in Kafka
    return lambda number: parts[chance.next_int(len(parts))]


class _Statistics:
    """Counts records and latencies since the start, and since the last progress line.

    Only LATENCIES_MAX latencies are kept, for the percentiles.
    """

    def __init__(self, records: int) -> None:
        self.count = 0
        self.size_bytes = 0
        self.total_ms = 0
        self.most_ms = 0
        self._every = records // min(records, LATENCIES_MAX)
        self._latencies_ms: list[int] = []
        self.start = time.monotonic()
        self._open_window()

    def _open_window(self) -> None:
        self.window_start = time.monotonic()
        self._told = (self.count, self.size_bytes, self.total_ms)
        self._window_most_ms = 0

    def record(self, size_bytes: int, latency_ms: int) -> None:
        if self.count % self._every == 0:
            self._latencies_ms.append(latency_ms)
        self.count += 1
        self.size_bytes += size_bytes
        self.total_ms += latency_ms
        if latency_ms > self._window_most_ms:
            self._window_most_ms = latency_ms
            self.most_ms = max(self.most_ms, latency_ms)

    def rates(self) -> tuple[float, float]:
        """Returns records per second and megabytes per second."""
        return _rates(self.count, self.size_bytes, self.start)

    @property
    def mean_ms(self) -> float:
        return self.total_ms / max(self.count, 1)

    def window_line(self) -> str:
        """Returns a progress line with the figures since the previous line."""
        now = (self.count, self.size_bytes, self.total_ms)
        count, size_bytes, total_ms = (here - there for here, there in zip(now, self._told, strict=True))
        records, megabytes = _rates(count, size_bytes, self.window_start)
        line = (
            f"{count} records sent, {records:.1f} records/sec ({megabytes:.2f} MB/sec), "
            f"{total_ms / max(count, 1):.1f} ms avg latency, {self._window_most_ms:.1f} ms max latency."
        )
        self._open_window()
        return line

    def total_line(self, label: str = "") -> str:
        records, megabytes = self.rates()
        ordered = sorted(self._latencies_ms) or [0]
        p50, p95, p99, p999 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.95, 0.99, 0.999))
        return (
            f"{self.count}{label} records sent, {records:.1f} records/sec ({megabytes:.2f} MB/sec), "
            f"{self.mean_ms:.2f} ms avg latency, {self.most_ms:.2f} ms max latency, "
            f"{p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
        )


def _rates(count: int, size_bytes: int, start: float) -> tuple[float, float]:
    elapsed_s = max(time.monotonic() - start, 1e-3)
    return count / elapsed_s, size_bytes / elapsed_s / MEGABYTE


class _Run:
    """One measurement."""

    def __init__(
        self,
        options: ProducerPerfOptions,
        config: dict[str, object],
        payload: Callable[[int], bytes],
        output: Output,
    ) -> None:
        from confluent_kafka import Producer

        self.options = options
        self.payload = payload
        self.output = output
        self.outcomes = dict.fromkeys(Outcome, 0)
        self._reports = DeliveryReports()
        self.transactional_id = config.get("transactional.id")
        self.producer: objects.Producer = new_client(Producer, {**config, "on_delivery": self._delivered})
        self.destination = Destination(self.producer, options.topic, config)
        self.total = _Statistics(options.num_records)
        self.steady: _Statistics | None = None
        self.is_steady_told = False

    def send(self) -> int:
        """Sends the records and prints the summary, as in Kafka also if the producer had to stop."""
        try:
            with self._reports.keeping_fatal():
                self._send_records()
            if self._reports.fatal is not None:
                self._reports.flush(self.producer)
        finally:
            self._report_failures()
        self._summary()
        return 0

    def _send_records(self) -> None:
        options = self.options
        if options.warmup_records:
            self.output.say(
                f"Warmup first {options.warmup_records} records. "
                "Steady state results will print after the complete test summary."
            )
        transactions = None if self.transactional_id is None else self._transactions()
        self.total = _Statistics(options.num_records)
        every = POLL_EVERY_RECORDS
        if options.throughput > 0:
            every = max(1, min(every, int(options.throughput / PACES_A_SECOND)))
        for number in range(options.num_records):
            if transactions is not None:
                transactions.begin()
            if number == options.warmup_records > 0:
                self.steady = _Statistics(options.num_records - number)
            self._produce(self.payload(number))
            if transactions is not None and (self.failed or self._reports):
                transactions.abort()
                raise CommandError("Cannot execute transactional method because we are in an error state")
            if number % every == 0:
                self.producer.poll(0)
                self._throttle(number + 1)
                self._report_failures()
                self._maybe_report()
        if transactions is not None:
            transactions.commit()
        self.producer.flush()

    def _transactions(self) -> Transactions:
        duration_ms = self.options.transaction_duration_ms or DEFAULT_DURATION_MS
        with transaction_lacks(self.options.topic or "", self.transactional_id):
            return Transactions(self.producer, duration_ms)

    def _produce(self, value: bytes) -> None:
        if (unknown := self.destination.awaited()) is not None:
            self._refused(unknown, Outcome.NOT_SENT)
            return
        refused = self.destination.send(value, None, self.destination.sticky(len(value)))
        if refused is not None:
            self._refused(refused, Outcome.REFUSED)

    def _throttle(self, sent: int) -> None:
        if self.options.throughput <= 0:
            return
        ahead_s = sent / self.options.throughput - (time.monotonic() - self.total.start)
        if ahead_s > LEAST_SLEEP_S:
            self.producer.poll(ahead_s)
            time.sleep(max(0.0, sent / self.options.throughput - (time.monotonic() - self.total.start)))

    def _maybe_report(self) -> None:
        current = self.steady or self.total
        if (time.monotonic() - current.window_start) * 1000 < self.options.reporting_interval:
            return
        if current is self.steady and not self.is_steady_told:
            self.is_steady_told = True
            self.output.say("In steady state.")
        self.output.say(current.window_line())
        # a reader may watch the progress, and output must not be lost if the run is killed
        sys.stdout.flush()

    def _delivered(self, error: objects.ClientError | None, message: objects.Message) -> None:
        """Counts a record. `poll` and `flush` may call this method while they raise a fatal error. Code that catches an
        exception here would lose the fatal error."""
        if error is not None:
            self._reports.delivered(error, message)
            return
        size_bytes = len(message)
        latency_ms = int((message.latency() or 0.0) * 1000)
        self.total.record(size_bytes, latency_ms)
        if self.steady is not None and self.total.count > self.options.warmup_records:
            self.steady.record(size_bytes, latency_ms)

    def _report_failures(self) -> None:
        """Reports the records that could not be delivered since the last call. Records that librdkafka has
        removed after a fatal error are reported with this error. Records that an abort has removed are not
        reported."""
        fatal = self._reports.fatal
        errors = [error for error, _ in self._reports.taken() if error is not None]
        if fatal is None and self.transactional_id is not None:
            errors = [error for error in errors if not is_purged(error)]
        is_told = False
        for error in errors:
            is_gone = fatal is not None and is_purged(error)
            is_told = is_told or is_gone
            self._refused(fatal if fatal is not None and is_gone else kafka_error(error), outcome_of(error))
        if fatal is not None and not is_told:
            self._refused(fatal, Outcome.REFUSED)

    @property
    def failed(self) -> int:
        """The number of records that failed."""
        return sum(self.outcomes.values())

    def _refused(self, error: KafkaError, outcome: Outcome) -> None:
        self.outcomes[outcome] += 1
        producer_lacks(error, self.options.topic or "", self.transactional_id)
        warn(java_text(error))

    def _summary(self) -> None:
        records, megabytes = self.total.rates()
        row = {
            "records": self.total.count,
            "failed": self.failed,
            "records_per_second": round(records, 1),
            "megabytes_per_second": round(megabytes, 2),
        }
        self.output.row(row, self.total.total_line())
        sent, topic = self.total.count + self.failed, self.options.topic or ""
        warn_of_failures(failure_lines(self.outcomes, sent, "records", topic), "producer-perf-test")
        if self.failed:
            self.output.is_failed = True
        if self.steady is not None:
            self.output.say(self.steady.total_line(" steady state"))
        if self.options.print_metrics:
            self._metrics()

    def _metrics(self) -> None:
        client = "{client-id=perf-producer-client}"
        records, megabytes = self.total.rates()
        metrics = {
            f"producer-metrics:record-error-total:{client}": self.failed,
            f"producer-metrics:record-send-rate:{client}": records,
            f"producer-metrics:record-send-total:{client}": self.total.count,
            f"producer-metrics:outgoing-byte-rate:{client}": megabytes * MEGABYTE,
            f"producer-metrics:request-latency-avg:{client}": self.total.mean_ms,
        }
        print_metrics(self.output, metrics)


def print_metrics(output: Output, metrics: dict[str, float]) -> None:
    """Prints the metrics of a client as a table, as Kafka does."""
    width = max(map(len, metrics))
    output.say("")
    output.say(f"{'Metric Name':<{width}}   Value")
    for name, value in sorted(metrics.items()):
        output.say(f"{name:<{width}} : {value:.3f}")


command = Command(
    name="producer-perf-test",
    description="This tool is used to verify the producer performance.",
    options=ProducerPerfOptions,
    run=run,
    family=Family.ARGPARSE4J,
    prog="producer-performance",
    help_exit=1,
    bare_exit=0,
    exclusive=(Exclusive(names=("record-size", "payload-file", "payload-monotonic"), required=True),),
    examples=(
        Example(
            "Send 100,000 records of 100 bytes as fast as possible:",
            "kcli producer-perf-test --bootstrap-server localhost:9092 --topic load \\\n"
            "  --num-records 100000 --record-size 100 --throughput -1",
        ),
    ),
    exit_status=(
        (0, "All records were sent and acknowledged."),
        (
            1,
            (
                "A record failed, which standard error reports, or the options are wrong. After a failed record, "
                "Kafka's script ends with 0."
            ),
        ),
        INTERRUPTED,
    ),
)
