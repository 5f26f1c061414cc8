"""Errors of single records: retries, tolerance, and reports (KIP-298).

An operation on a record may be tried again after a RetriableException, until errors.retry.timeout is over. If it fails
in the end, the error is reported, and errors.tolerance decides whether the task fails or leaves the record out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

from kcli.connect.tasks.control import Control
from kcli.connect.tasks.spec import ErrorSpec
from kcli.errors import KafkaError
from kcli.formats.connect.errors import ConnectException, RetriableException

T = TypeVar("T")

RETRY_DELAY_MIN_MS = 300
"""The first delay between two attempts. Each next delay is twice as long (KIP-298)."""


class Stage(StrEnum):
    """The operation that failed, as logs and dead letters name it."""

    TASK_PUT = "TASK_PUT"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    TRANSFORMATION = "TRANSFORMATION"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"


class Skipped(Exception):
    """A tolerated error: the record is left out. Only this package catches it."""


class Stopping(Exception):
    """The task stops while an operation waits for its next attempt. The record is read again at the next start."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed operation. `record` is the consumed message of a sink task, or the record of a source task."""

    record: object
    stage: Stage
    class_name: str
    error: Exception


class Reporter(Protocol):
    def report(self, failure: Failure) -> None: ...


@dataclass(slots=True)
class ErrorCounts:
    """The counts of task-error-metrics."""

    failures: int = 0
    errors: int = 0
    skipped: int = 0
    retries: int = 0
    logged: int = 0
    dead_letter_requests: int = 0
    dead_letter_failures: int = 0
    last_ms: int = 0


@dataclass(slots=True)
class Tolerance:
    """Runs operations on records, and handles their errors."""

    spec: ErrorSpec
    control: Control
    reporters: Sequence[Reporter] = ()
    counts: ErrorCounts = field(default_factory=ErrorCounts)

    @property
    def tolerates(self) -> bool:
        return self.spec.tolerance == "all"

    def run(self, record: object, stage: Stage, class_name: str, operation: Callable[[], T]) -> T:
        """Runs an operation of a converter or a transformation.

        Raises Skipped if the record must be left out, and ConnectException if the task must fail.
        """
        try:
            return self._with_retries(operation)
        except Stopping:
            raise
        except Exception as error:
            self.failed(Failure(record, stage, class_name, error))
            raise Skipped from None

    def failed(self, failure: Failure) -> None:
        """Reports a failure. Raises ConnectException if failures are not tolerated."""
        counts = self.counts
        counts.failures += 1
        counts.errors += 1
        counts.last_ms = time.time_ns() // 1_000_000
        # The reports come first: with tolerance "none" too, the record goes to the dead-letter topic.
        for reporter in self.reporters:
            reporter.report(failure)
        if not self.tolerates:
            raise ConnectException("Tolerance exceeded in error handler") from failure.error
        counts.skipped += 1

    def _with_retries(self, operation: Callable[[], T]) -> T:
        attempt = 0
        start = time.monotonic()
        timeout_ms = self.spec.retry_timeout_ms
        while True:
            try:
                attempt += 1
                return operation()
            except Exception as error:
                left_ms = timeout_ms - (time.monotonic() - start) * 1000
                if not is_retriable(error) or (timeout_ms >= 0 and left_ms <= 0):
                    raise
                self.counts.failures += 1
                self.counts.retries += 1
                delay_ms = self._delay_ms(attempt)
                self._wait(delay_ms if timeout_ms < 0 else min(delay_ms, left_ms))
                if self.control.is_stopping:
                    raise Stopping from None

    def _delay_ms(self, attempt: int) -> float:
        delay_ms: float = RETRY_DELAY_MIN_MS * (1 << min(attempt - 1, 32))
        if delay_ms > self.spec.retry_delay_max_ms:
            return random.uniform(1, max(1, self.spec.retry_delay_max_ms))
        return delay_ms

    def _wait(self, milliseconds: float) -> None:
        end = time.monotonic() + milliseconds / 1000
        while not self.control.is_stopping and (left := end - time.monotonic()) > 0:
            self.control.wait(left)


def is_retriable(error: BaseException) -> bool:
    """Whether an error may go away if the operation is tried again."""
    return isinstance(error, RetriableException) or (isinstance(error, KafkaError) and error.retriable)
