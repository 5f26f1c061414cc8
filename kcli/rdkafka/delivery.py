"""Keeps the delivery reports and the fatal error of a producer until the tool can report them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from kcli.errors import KafkaError, TimeoutException
from kcli.rdkafka.client import fatal_error, is_fatal
from kcli.rdkafka.objects import ClientError, Message, Producer

REST_S = 10.0
"""The most seconds in which librdkafka removes the records that wait. It does so immediately after a fatal error."""


def is_purged(error: ClientError) -> bool:
    """Whether this error of a record means that the producer removed the record from its queue, because the transaction
    was aborted, or after a fatal error."""
    from confluent_kafka import KafkaError

    return error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


def raise_fatal(producer: Producer, error: ClientError) -> None:
    """Raises the fatal error of a producer, if `produce` was refused with `error` because of an earlier fatal error."""
    if is_fatal(error):
        producer.poll(0)


class DeliveryReports:
    """The delivery reports of a producer, and its fatal error.

    librdkafka calls `delivered` in `poll` and `flush`, also while these raise a fatal error. Code that catches an
    exception there would lose the fatal error, so `delivered` only stores the report.
    """

    def __init__(self) -> None:
        self.fatal: KafkaError | None = None
        """The error after which the producer cannot continue. The records that wait are then removed."""
        self._reports: deque[tuple[ClientError | None, Message]] = deque()

    def delivered(self, error: ClientError | None, message: Message) -> None:
        self._reports.append((error, message))

    def __bool__(self) -> bool:
        return bool(self._reports)

    def taken(self) -> Iterator[tuple[ClientError | None, Message]]:
        """Returns the reports that came since the last call."""
        while self._reports:
            yield self._reports.popleft()

    @contextmanager
    def keeping_fatal(self) -> Iterator[None]:
        """Ends the block at a fatal error, and keeps the error in `fatal`."""
        from confluent_kafka import KafkaException

        try:
            yield
        except (KafkaException, SystemError) as raised:
            fatal = fatal_error(raised)
            if fatal is None:
                raise
            # `produce` may only tell, as a TimeoutException, that there was a fatal error. A later error is its reason.
            if self.fatal is None or isinstance(self.fatal, TimeoutException):
                self.fatal = fatal

    def wait_for_rest(self, producer: Producer) -> None:
        """After a fatal error, waits for the reports of the records that librdkafka removes."""
        with self.keeping_fatal():
            producer.flush(REST_S)
