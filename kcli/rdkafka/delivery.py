"""Keeps the delivery reports and the fatal error of a producer until the tool can report them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum

from kcli.errors import ErrorCode, KafkaError, TimeoutException
from kcli.rdkafka.client import fatal_error
from kcli.rdkafka.objects import ClientError, Message, Producer


def is_purged(error: ClientError) -> bool:
    """Whether this error of a record means that the producer removed the record from its queue, because the transaction
    was aborted, or after a fatal error."""
    from confluent_kafka import KafkaError

    return error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


class Outcome(Enum):
    """The state of a record whose sending has failed. Each value completes "N of M lines … topic T"."""

    NOT_SENT = "were not sent to"
    REFUSED = "were refused, and are not in"
    UNKNOWN = "were not acknowledged. They may be in"


_MAYBE_WRITTEN = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Errors of a broker after which the leader may have the record, so that it may still be replicated."""


def outcome_of(error: ClientError) -> Outcome:
    """What is known about a record whose delivery report has this error. A time-out of librdkafka does not tell whether
    the record was sent."""
    from confluent_kafka import KafkaError

    code = error.code()
    if code == KafkaError._PURGE_QUEUE:
        return Outcome.NOT_SENT
    return Outcome.REFUSED if code > 0 and code not in _MAYBE_WRITTEN else Outcome.UNKNOWN


def failure_lines(failed: Mapping[Outcome, int], sent: int, what: str, topic: str) -> list[str]:
    """A line for each outcome of the records that failed. `what` is the noun for records, such as "lines"."""
    return [
        f"{number} of {sent} {what} {outcome.value} topic {topic}."
        for outcome, number in failed.items()
        if number
    ]


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
            # `produce` tells only that there was a fatal error, as a TimeoutException. `poll` and `flush` tell why.
            if self.fatal is None or isinstance(self.fatal, TimeoutException):
                self.fatal = fatal

    def flush(self, producer: Producer) -> None:
        """Waits for the reports of all records, also of those that librdkafka removes after a fatal error."""
        with self.keeping_fatal():
            producer.flush()
        if self.fatal is not None:
            with self.keeping_fatal():
                producer.flush()  # the first call may have ended at the fatal error
