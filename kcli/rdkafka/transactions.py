"""Runs consecutive transactions of one producer. Each transaction is committed after a given time."""

from __future__ import annotations

import io
import select
import time
from collections.abc import Callable
from typing import Protocol

from kcli.rdkafka.client import client_errors, kafka_error
from kcli.rdkafka.errors import TransactionError
from kcli.rdkafka.objects import Producer

DEFAULT_DURATION_MS = 3000
"""The default length of a transaction in kafka-producer-perf-test."""


class Source(Protocol):
    """A stream of input."""

    def read(self, size: int, /) -> bytes: ...
    def fileno(self) -> int: ...


class Transactions:
    """The transactions of one librdkafka producer. The constructor fences earlier producers with the same transactional
    id.
    """

    def __init__(self, producer: Producer, duration_ms: int) -> None:
        self._producer = producer
        self._duration_s = duration_ms / 1000
        self._began: float | None = None
        self._pending = 0
        self.committed = 0
        """The number of records whose transaction is committed."""
        self._call(producer.init_transactions)

    def begin(self) -> None:
        """Commits the open transaction if its time is over. Begins a transaction if none is open.

        The caller must call this method before it sends each record.
        """
        self.commit_if_due()
        if self._began is None:
            self._call(self._producer.begin_transaction)
            self._began = time.monotonic()
        self._pending += 1

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the open transaction must be committed, or None if no transaction is open."""
        if self._began is None:
            return None
        return max(0.0, self._began + self._duration_s - time.monotonic())

    def commit_if_due(self) -> None:
        if self._began is not None and time.monotonic() - self._began >= self._duration_s:
            self.commit()

    def commit(self) -> None:
        """Commits the open transaction. Raises TransactionError if the transaction had to be aborted."""
        if self._began is None:
            return
        try:
            self._call(self._producer.commit_transaction)
        except TransactionError:
            self.abort()
            raise
        self.committed += self._pending
        self._began, self._pending = None, 0

    def abort(self) -> None:
        """Aborts the open transaction. Call this after any failure."""
        if self._began is None:
            return
        self._began, self._pending = None, 0
        try:
            self._call(self._producer.abort_transaction)
        except TransactionError:
            # the producer is fenced or no broker answers, so the time-out ends the transaction
            self._producer.purge()

    def _call(self, step: Callable[[], object]) -> None:
        from confluent_kafka import KafkaException

        try:
            step()
        except (KafkaException, SystemError) as raised:
            error = next(client_errors(raised), None)
            if error is None:
                raise
            text = f"org.apache.kafka.common.KafkaException: {error.str()}"
            raise TransactionError(text) from kafka_error(error)

    def while_waiting(self, source: Source) -> Callable[[int], bytes]:
        """Returns a function that reads like `source.read`, and commits a transaction that is due while it waits for
        input."""
        read = source.read
        try:
            descriptor = source.fileno()
        except (AttributeError, io.UnsupportedOperation):
            return read  # a stream in memory has no file descriptor, and never waits

        def read_in_time(size: int) -> bytes:
            while (left := self.seconds_left) is not None and not select.select([descriptor], [], [], left)[
                0
            ]:
                self.commit_if_due()
            return read(size)

        return read_in_time
