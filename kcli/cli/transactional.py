"""Transactions of a tool that sends records: one after another, each as long as was asked, by the clock."""

from __future__ import annotations

import io
import select
import time
from collections.abc import Callable, Mapping
from typing import Any

from kcli.cli.rdkafka import TRANSACTION_TIMEOUT_MS
from kcli.cli.syntax.options import CommandError, UsageError

DEFAULT_DURATION_MS = 3000
"""How long the records of one transaction are gathered: what kafka-producer-perf-test takes."""


def check_duration(duration_ms: int, properties: Mapping[str, object]) -> None:
    """Raises UsageError for a duration after which there is no transaction left to commit."""
    if duration_ms <= 0:
        raise UsageError("--transaction-duration-ms should be greater than zero")
    timeout_ms = int(str(properties.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)))
    if duration_ms >= timeout_ms:
        raise UsageError(
            f"--transaction-duration-ms {duration_ms} is not less than transaction.timeout.ms ({timeout_ms}), after "
            "which the broker aborts a transaction"
        )


def is_purged(error: Any) -> bool:
    """Whether a record was not sent because its transaction was aborted."""
    from confluent_kafka import KafkaError

    return error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


class Transactions:
    """The transactions of one librdkafka producer, whose predecessors under the same id are fenced here."""

    def __init__(self, producer: Any, duration_ms: int) -> None:
        self._producer = producer
        self._duration_s = duration_ms / 1000
        self._began: float | None = None
        self._pending = 0
        self.committed = 0
        """Records whose transaction is committed."""
        self._call(producer.init_transactions)

    def begin(self) -> None:
        """Before each record is sent: commits what is due, and opens the next where none is open."""
        self.commit_if_due()
        if self._began is None:
            self._call(self._producer.begin_transaction)
            self._began = time.monotonic()
        self._pending += 1

    @property
    def seconds_left(self) -> float | None:
        """Until the open transaction is due; None when none is open."""
        if self._began is None:
            return None
        return max(0.0, self._began + self._duration_s - time.monotonic())

    def commit_if_due(self) -> None:
        if self._began is not None and time.monotonic() - self._began >= self._duration_s:
            self.commit()

    def commit(self) -> None:
        """Waits for every acknowledgement. Raises CommandError when the transaction could only be aborted."""
        if self._began is None:
            return
        try:
            self._call(self._producer.commit_transaction)
        except CommandError:
            self.abort()
            raise
        self.committed += self._pending
        self._began, self._pending = None, 0

    def abort(self) -> None:
        """Leaves nothing of the open transaction; after a failure of any kind."""
        from confluent_kafka import KafkaException

        if self._began is None:
            return
        self._began, self._pending = None, 0
        try:
            self._producer.abort_transaction()
        except KafkaException:
            self._producer.purge()  # fenced, or no broker: its time-out ends the transaction

    def _call(self, step: Callable[[], object]) -> None:
        from confluent_kafka import KafkaException

        try:
            step()
        except KafkaException as error:
            raise CommandError(f"org.apache.kafka.common.KafkaException: {error.args[0].str()}") from None

    def while_waiting(self, source: Any) -> Callable[[int], bytes]:
        """`source.read`, but while nothing comes an open transaction is committed in time all the same."""
        read: Callable[[int], bytes] = source.read
        try:
            descriptor = source.fileno()
        except (AttributeError, io.UnsupportedOperation):
            return read  # in memory: it never keeps anybody waiting

        def read_in_time(size: int) -> bytes:
            while (left := self.seconds_left) is not None and not select.select([descriptor], [], [], left)[
                0
            ]:
                self.commit_if_due()
            return read(size)

        return read_in_time
