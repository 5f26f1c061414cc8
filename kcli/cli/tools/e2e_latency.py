"""kafka-e2e-latency: measures how long a record takes from producer to consumer. Sends one record at a time."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from kcli.cli.client_properties import checked_login, load_properties
from kcli.cli.missing_rights import consumer_lacks, producer_lacks, watch
from kcli.cli.output import Output, warn
from kcli.cli.signals import raise_on_sigint
from kcli.cli.syntax.options import CallingOptions, Command, CommandError, Kind, option
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.topics import NewTopic
from kcli.client.config import client_config
from kcli.command.examples import USUAL, Example
from kcli.errors import KafkaError, UnknownTopicOrPartitionException
from kcli.rdkafka import objects
from kcli.rdkafka.client import kafka_error, new_client
from kcli.rdkafka.configuration import translate
from kcli.rdkafka.consumer import JAVA_DEFAULTS
from kcli.rdkafka.delivery import DeliveryReports
from kcli.rdkafka.producer import producer_config

# The usage line of Kafka 4.1, whose tool has only positional arguments.
USAGE = (
    "USAGE: java org.apache.kafka.tools.EndToEndLatency broker_list topic num_messages producer_acks "
    "message_size_bytes [optional] properties_file"
)
POSITIONAL_MIN, POSITIONAL_MAX = 5, 6
ACKS = ("1", "all")
TIMEOUT_S = 60.0
REPORT_EVERY_RECORDS = 1000
PARTITIONS, REPLICATION_FACTOR = 1, 1
LETTER_A, LETTERS = 65, 26


@dataclass(frozen=True, slots=True, kw_only=True)
class E2eLatencyOptions(CallingOptions):
    bootstrap_server: str | None = option(
        "The brokers to connect to first, as host:port,host:port.", metavar="server to connect to"
    )
    topic: str | None = option("The topic to send to and read from.", metavar="topic")
    num_records: int | None = option("How many records to send.", Kind.INTEGER, metavar="count")
    producer_acks: str | None = option(
        "The acknowledgements to wait for: 1 (the leader) or all (all in-sync replicas).", metavar="1 or all"
    )
    record_size: int | None = option("The size of each value in bytes.", Kind.INTEGER, metavar="bytes")
    command_config: str | None = option("A properties file for all clients.", metavar="config file")
    record_key_size: int = option(
        "The size of each key in bytes. 0 means no key.", Kind.INTEGER, metavar="bytes", default=0
    )
    num_headers: int = option(
        "The number of headers of each record.", Kind.INTEGER, metavar="count", default=0
    )
    record_header_key_size: int = option(
        "The size of the key of each header in bytes.", Kind.INTEGER, metavar="bytes", default=0
    )
    record_header_size: int = option(
        "The size of the value of each header in bytes. -1 means null.",
        Kind.INTEGER,
        metavar="bytes",
        default=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyTest:
    """The parameters of the measurement."""

    servers: str
    topic: str
    records: int
    acks: str
    record_size: int
    config_file: str | None


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """The result, in milliseconds."""

    average_ms: float
    p50_ms: int
    p99_ms: int
    p999_ms: int


async def run(options: E2eLatencyOptions, output: Output) -> None:
    """Creates the topic if it is missing, measures the latency of each record, and prints a summary."""
    plan = planned(options)
    properties = dict(load_properties(plan.config_file, options.client_properties))
    config = client_config(properties, bootstrap_servers=plan.servers, api_timeout_ms=options.timeout)
    async with AdminClient(config, on_answer=watch(config)) as client:
        partitions = await _partitions(client, plan.topic, output)
    # From here on, calls to librdkafka block, so asyncio's handler for Ctrl-C could not interrupt them.
    raise_on_sigint()
    latencies_ms = _Run(plan, options, properties, partitions).measure(output)
    row = summary(latencies_ms)
    output.row(
        row,
        f"Avg latency: {row.average_ms:.4f} ms\n"
        f"Percentiles: 50th = {row.p50_ms}, 99th = {row.p99_ms}, 99.9th = {row.p999_ms}",
    )


def planned(options: E2eLatencyOptions) -> LatencyTest:
    """Returns the parameters from positional arguments or from options. Raises CommandError if an argument is
    invalid."""
    if options.arguments:
        return _positional(options.arguments)
    names = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size")
    if not any(options.has(name) for name in names):
        raise CommandError(USAGE)
    missing = [name for name in names if not options.has(name)]
    if missing:
        raise CommandError(f"Missing required option(s) [{', '.join(missing)}]")
    assert options.bootstrap_server and options.topic and options.producer_acks
    assert options.num_records is not None and options.record_size is not None
    if options.num_records <= 0:
        raise CommandError("Value for --num-records must be a positive integer.")
    if options.record_size < 0:
        raise CommandError("Value for --record-size must be a non-negative integer.")
    return _checked(
        LatencyTest(
            servers=options.bootstrap_server,
            topic=options.topic,
            records=options.num_records,
            acks=options.producer_acks,
            record_size=options.record_size,
            config_file=options.command_config,
        )
    )


def summary(latencies_ms: list[float]) -> LatencyRow:
    """Returns the average of the exact latencies, and the percentiles of the truncated latencies, as Kafka does."""
    ordered = sorted(int(latency) for latency in latencies_ms)
    count = len(ordered)
    return LatencyRow(
        sum(latencies_ms) / count,
        ordered[int(count * 0.5)],
        ordered[int(count * 0.99)],
        ordered[int(count * 0.999)],
    )


def _positional(words: tuple[str, ...]) -> LatencyTest:
    if not POSITIONAL_MIN <= len(words) <= POSITIONAL_MAX:
        raise CommandError(USAGE)
    servers, topic, records, acks, record_size, *rest = words
    try:
        count, size = Kind.INTEGER.convert(records), Kind.INTEGER.convert(record_size)
    except ValueError as error:
        raise CommandError(str(error)) from error
    assert isinstance(count, int) and isinstance(size, int)
    return _checked(
        LatencyTest(
            servers=servers,
            topic=topic,
            records=count,
            acks=acks,
            record_size=size,
            config_file=rest[0] if rest else None,
        )
    )


def _checked(plan: LatencyTest) -> LatencyTest:
    if plan.acks not in ACKS:
        raise CommandError("Latency testing requires synchronous acknowledgement. Please use 1 or all")
    if plan.records < 1:
        raise CommandError(f"At least one record must be sent, not {plan.records}")
    return plan


async def _partitions(client: AdminClient, topic: str, output: Output) -> int:
    """Returns the number of partitions of the topic. Creates the topic if it does not exist."""
    described = (await client.describe_topics([topic]))[topic]
    if isinstance(described, UnknownTopicOrPartitionException):
        output.say(
            f'Topic "{topic}" does not exist. Will create topic with {PARTITIONS} partition(s) '
            f"and replication factor = {REPLICATION_FACTOR}"
        )
        new = NewTopic(name=topic, partitions=PARTITIONS, replication_factor=REPLICATION_FACTOR)
        error = (await client.create_topics([new]))[topic]
        if error is not None:
            raise error
        return PARTITIONS
    if isinstance(described, KafkaError):
        raise described
    return len(described.partitions)


class _Run:
    """One measurement, with a producer, and a consumer that starts at the end of every partition."""

    def __init__(
        self, plan: LatencyTest, options: E2eLatencyOptions, properties: dict[str, str], partitions: int
    ) -> None:
        from confluent_kafka import Consumer, Producer

        common = checked_login({**properties, "bootstrap.servers": plan.servers})
        reading = {
            "group.id": f"test-group-{int(time.time() * 1000)}",
            "enable.auto.commit": "false",
            "auto.offset.reset": "latest",
            "fetch.max.wait.ms": "0",
        }
        sending = {"linger.ms": "0", "acks": plan.acks}
        self.plan = plan
        self.options = options
        self.consumer: objects.Consumer = new_client(
            Consumer,
            {
                **JAVA_DEFAULTS,
                **translate(common | reading),
            },
        )
        self._reports = DeliveryReports()
        self.producer: objects.Producer = new_client(
            Producer,
            {
                **producer_config(common | sending),
                "on_delivery": self._reports.delivered,
            },
        )
        self._go_to_ends(partitions)

    def measure(self, output: Output) -> list[float]:
        latencies_ms: list[float] = []
        try:
            for number in range(self.plan.records):
                latency_ms = self._once()
                latencies_ms.append(latency_ms)
                if number % REPORT_EVERY_RECORDS == 0:
                    output.say(f"{number}\t{latency_ms!r}")
        finally:
            self.consumer.close()
        return latencies_ms

    def _go_to_ends(self, partitions: int) -> None:
        """Assigns the partitions with their current end offsets, so that a late first fetch misses no record."""
        from confluent_kafka import TopicPartition

        ends = []
        for number in range(partitions):
            here = TopicPartition(self.plan.topic, number)
            here.offset = self.consumer.get_watermark_offsets(here, timeout=TIMEOUT_S)[1]
            ends.append(here)
        self.consumer.assign(ends)

    def _once(self) -> float:
        options = self.options
        value = _random(self.plan.record_size)
        key = _random(options.record_key_size) if options.record_key_size else None
        headers = [
            (
                _random(options.record_header_key_size).decode("ascii"),
                None if options.record_header_size < 0 else _random(options.record_header_size),
            )
            for _ in range(options.num_headers)
        ]
        began_ns = time.perf_counter_ns()
        self._send(value, key, headers)
        message = self.consumer.poll(TIMEOUT_S)
        elapsed_ms = (time.perf_counter_ns() - began_ns) / 1e6
        if message is None:
            raise CommandError(
                f"poll() timed out before finding a result (timeout:[{TIMEOUT_S * 1000:.0f}ms])"
            )
        if (error := message.error()) is not None:
            consumer_lacks(error.code(), message.topic(), None)
            raise kafka_error(error)
        if message.value() != value:
            read = (message.value() or b"").decode("utf-8", "replace")
            raise CommandError(
                f"The message value read [{read}] did not match the message value sent [{value.decode('ascii')}]"
            )
        return elapsed_ms

    def _send(self, value: bytes, key: bytes | None, headers: objects.Headers) -> None:
        """Sends a record and waits for its acknowledgement."""
        with self._reports.keeping_fatal():
            self.producer.produce(self.plan.topic, value, key, headers=headers)
            if self.producer.flush(TIMEOUT_S):
                raise CommandError(f"The record was not acknowledged in {TIMEOUT_S:g} s")
        if self._reports.fatal is not None:
            self._reports.flush(self.producer)
        failed = [kafka_error(error) for error, _ in self._reports.taken() if error is not None]
        for refused in (self._reports.fatal, *failed):
            if refused is not None:
                producer_lacks(refused, self.plan.topic)
                raise refused


def _random(size_bytes: int) -> bytes:
    """Returns random capital letters."""
    return bytes(LETTER_A + random.randrange(LETTERS) for _ in range(size_bytes))


command = Command(
    name="e2e-latency",
    description="This tool measures end-to-end latency in Kafka by sending messages and timing their reception.",
    options=E2eLatencyOptions,
    run=run,
    bare=lambda: warn(USAGE),
    examples=(
        Example(
            "Measure the latency of 100 records of 1,000 bytes:",
            "kcli e2e-latency --bootstrap-server localhost:9092 --topic latency \\\n"
            "  --num-records 100 --producer-acks all --record-size 1000",
        ),
    ),
    exit_status=USUAL,
)
