"""Takes the records of kafka-console-consumer from librdkafka and prints them."""

from __future__ import annotations

import math
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kcli.cli.missing_rights import consumer_lacks
from kcli.cli.output import java_text, warn
from kcli.cli.record_traces import ConsumedRecords, RecordTraces, now_ns
from kcli.cli.script_form import is_kafkas_script
from kcli.cli.syntax.options import CommandError, UsageError
from kcli.cli.tools.console import formatters
from kcli.cli.tools.console.positions import partitions_of, refuse_missing, start_ms, starts
from kcli.cli.tools.console.record_filter import Filter
from kcli.cli.unreadable_records import UnreadableRecords, refuse_undecodable
from kcli.errors import ErrorCode, InvalidTopicException
from kcli.model.java_text import parse_long
from kcli.model.topic_names import is_valid
from kcli.model.topic_partition import TopicPartition
from kcli.rdkafka import objects
from kcli.rdkafka.client import is_fatal, kafka_error, new_client
from kcli.rdkafka.consumer import JavaPositions, gathered, is_end, store_offsets
from kcli.rdkafka.log import logger
from kcli.rdkafka.lookup import looked_up
from kcli.rdkafka.matching_topics import MatchingTopics, matcher, max_age_s

if TYPE_CHECKING:
    from kcli.cli.tools.console.consumer import ConsoleConsumerOptions
    from kcli.cli.tools.console.schema_records import RecordDecoder

# The most records in one call to librdkafka. With fewer records, the calls would take more CPU time. More records would
# need much memory.
BATCH_RECORDS = 2000
# The longest wait between two checks for Ctrl-C, SIGTERM and --timeout-ms.
POLL_S = 0.2
NO_LIMIT = -1


class Printer:
    """Takes records from librdkafka and prints them.

    `seen` counts all records. `count` counts the records that match --filter.
    """

    def __init__(
        self,
        options: ConsoleConsumerOptions,
        show: formatters.Formatter,
        message_filter: Filter | None,
        decoder: RecordDecoder | None = None,
    ) -> None:
        self.options = options
        self.show = show
        self._decoder = decoder
        self.message_filter = message_filter
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
        if is_positioned(options):
            self._assign(consumer, _positions(consumer, options, self._unreadable))
        elif options.partition is not None:
            assert options.topic is not None
            if not is_kafkas_script():
                self._refuse_missing_partition(consumer, options.topic, options.partition)
            start = ClientPartition(options.topic, options.partition, start_offset(options))
            self._assign(consumer, [start])
        else:
            self._is_in_group = True
            positions = JavaPositions(config, on_placed=self._unreadable.begin_at)
            subscribe = partial(consumer.subscribe, on_assign=positions.assigned)
            if options.topic is not None:
                subscribe([options.topic])
            else:
                matches = matcher(options.include or "")
                self._matching = MatchingTopics(consumer, matches, subscribe, every_s=max_age_s(config))

    def _assign(self, consumer: objects.Consumer, starts: list[objects.PartitionOffset]) -> None:
        self._unreadable.begin_at(starts)
        consumer.assign(starts)

    def _refuse_missing_partition(self, consumer: objects.Consumer, topic: str, partition: int) -> None:
        """Raises CommandError if the topic exists without this partition, for which librdkafka would wait without end.

        If the topic is missing, it may still be created. Kafka's script waits in both cases.
        """
        from confluent_kafka import KafkaException

        limit_s = (self.options.timeout_ms or 0) / 1000 if self._has_limit() else math.inf
        try:
            metadata = looked_up(consumer, partial(consumer.list_topics, topic), limit_s)
        except KafkaException:
            return  # the loop that reads records reports the problem, and ends after --timeout-ms
        refuse_missing(TopicPartition(topic, partition), metadata.topics[topic])

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
        assigned = {(partition.topic, partition.partition) for partition in consumer.assignment()}
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
        for message, shown in zip(messages, self._decoded(messages), strict=True):
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
            try:
                if isinstance(shown, formatters.UndecodableRecord):
                    raise shown
                if self.message_filter is not None and not self.message_filter(shown):
                    continue
                lines.append(self.show(shown))
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
            is_own = isinstance(failure, formatters.UndecodableRecord)
            raise CommandError(
                str(failure) if is_own else f"java.lang.RuntimeException: {failure}"
            ) from failure
        return is_open

    def _decoded(
        self, messages: list[objects.Message]
    ) -> Sequence[objects.Message | formatters.UndecodableRecord]:
        """Decodes the records among the messages. An error is in the place of its record."""
        if self._decoder is None:
            return messages
        places = [nth for nth, message in enumerate(messages) if message.error() is None]
        shown: list[objects.Message | formatters.UndecodableRecord] = [*messages]
        for nth, decoded in zip(
            places, self._decoder.decode_all([messages[nth] for nth in places]), strict=True
        ):
            shown[nth] = decoded
        return shown

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
    partitions = partitions_of(consumer, options.topic, options.include, options.partition)
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


def is_positioned(options: ConsoleConsumerOptions) -> bool:
    """Whether --from-time or --last determines the start of every partition, so that no group is needed."""
    return options.from_time is not None or options.last is not None


def start_offset(options: ConsoleConsumerOptions) -> int:
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
