"""Clients with producers of librdkafka: an idempotent producer, and a producer with transactions of the first protocol
(TV1).
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from simulation.checks.operations import Operation, Outcome, Protocol, Sent
from simulation.histories.consumers import AssignedReader
from simulation.histories.recorder import PARTITIONS, TOPIC, Recorder

# A paused broker does not answer. With the default time-outs of 60 s, a producer would wait as long as a short run
# takes.
TIMEOUT_MS = 4_000
MESSAGE_TIMEOUT_MS = 60_000
API_TIMEOUT_S = 20.0
END_TIMEOUT_S = 60.0
COMMIT_CHANCE = 0.75
POLL_CHANCE = 0.4
SENDS_MAX = 4
TRANSACTION_PAUSE_S = 0.05

COMMON: Mapping[str, object] = {
    "linger.ms": 1,
    "reconnect.backoff.max.ms": 500,
    "socket.timeout.ms": TIMEOUT_MS,
    "request.timeout.ms": TIMEOUT_MS,
    "message.timeout.ms": MESSAGE_TIMEOUT_MS,
    "log_level": 0,
}


class IdempotentProducer:
    """Sends single records with acks=all. In the history, each record is an operation."""

    def __init__(self, recorder: Recorder, name: str, rng: random.Random, pause_s: float) -> None:
        self.recorder, self.name, self._rng, self._pause_s = recorder, name, rng, pause_s

    def run(self) -> None:
        producer = Producer(
            {
                **COMMON,
                "bootstrap.servers": self.recorder.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
            }
        )
        while not self.recorder.is_stopping:
            for _ in range(self._rng.randint(1, 4)):
                self._send(producer)
            producer.poll(self._rng.random() * self._pause_s)
        if producer.flush(END_TIMEOUT_S):
            self.recorder.problems.append(f"{self.name}: records have no answer after {END_TIMEOUT_S:g} s")

    def _send(self, producer: Producer) -> None:
        operation = self.recorder.begin(self.name)
        operation.asked, operation.outcome = operation.begun, Outcome.UNKNOWN
        partition, value = self._rng.randrange(PARTITIONS), self.recorder.value(self.name)
        operation.actions.append(Sent(partition, value))
        producer.produce(
            TOPIC,
            value,
            partition=partition,
            on_delivery=self._noting(operation, Sent(partition, value)),
        )

    def _noting(self, operation: Operation, sent: Sent) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                operation.outcome, operation.ended = Outcome.COMMITTED, time.monotonic()
                operation.actions[0] = Sent(sent.partition, sent.value, _offset(message))
            elif error.code() not in (KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_INFLIGHT):
                self.recorder.problems.append(f"{self.name}: {sent.value}: {error}")

        return note


class OldTransactionalProducer:
    """Sends transactions to several partitions. Some transactions poll too."""

    def __init__(self, recorder: Recorder, name: str, rng: random.Random) -> None:
        self.recorder, self.name, self._rng = recorder, name, rng
        self._producer: Producer | None = None
        self._reader = AssignedReader(recorder, f"{name} reads", rng)

    def run(self) -> None:
        while not self.recorder.is_stopping:
            try:
                self._transaction(self._ready())
            except KafkaException as error:
                if error.args[0].fatal():
                    self._producer = None
                self.recorder.pause(self._rng, TRANSACTION_PAUSE_S)
            self.recorder.pause(self._rng, TRANSACTION_PAUSE_S)
        self._reader.close()
        self._finish()

    def _ready(self) -> Producer:
        if self._producer is None:
            producer = Producer(
                {
                    **COMMON,
                    "bootstrap.servers": self.recorder.bootstrap,
                    "transactional.id": self.name,
                    "transaction.timeout.ms": MESSAGE_TIMEOUT_MS,
                }
            )
            producer.init_transactions(API_TIMEOUT_S)
            self._producer = producer
        return self._producer

    def _transaction(self, producer: Producer) -> None:
        producer.begin_transaction()
        operation = self.recorder.begin(self.name, Protocol.TV1)
        try:
            for _ in range(self._rng.randint(1, SENDS_MAX)):
                self._send(producer, operation)
                if self._rng.random() < POLL_CHANCE:
                    self._reader.poll(operation)
            if self._rng.random() < COMMIT_CHANCE:
                self._commit(producer, operation)
            else:
                producer.abort_transaction(API_TIMEOUT_S)
        except KafkaException as error:
            self._note_lost_state(error.args[0], operation)
            if error.args[0].fatal():
                raise
            self._abort(producer, operation)

    def _send(self, producer: Producer, operation: Operation) -> None:
        partition, value = self._rng.randrange(PARTITIONS), self.recorder.value(self.name)
        at = len(operation.actions)
        operation.actions.append(Sent(partition, value))

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                operation.actions[at] = Sent(partition, value, _offset(message))

        producer.produce(TOPIC, value, partition=partition, on_delivery=note)
        if self._rng.random() < 0.5:
            producer.flush(API_TIMEOUT_S)

    def _commit(self, producer: Producer, operation: Operation) -> None:
        operation.asked, operation.outcome = time.monotonic(), Outcome.UNKNOWN
        while True:
            try:
                producer.commit_transaction(API_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].retriable():
                    continue
                raise
            operation.outcome, operation.ended = Outcome.COMMITTED, time.monotonic()
            return

    def _abort(self, producer: Producer, operation: Operation) -> None:
        """Aborts the transaction after an error. If the abort succeeds, the transaction was certainly not committed."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                producer.abort_transaction(API_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].retriable():
                    continue
                self._note_lost_state(error.args[0], operation)
                self._producer = None
                return
            operation.outcome = Outcome.ABORTED
            return
        self._producer = None

    def _note_lost_state(self, error: KafkaError, operation: Operation) -> None:
        """Adds a problem if the coordinator does not know a transaction that has acknowledged records.

        The error INVALID_TXN_STATE is correct in two cases: the coordinator has not added any partition yet, or a
        commit that seemed to fail has succeeded. The first case is possible because librdkafka sends EndTxn even
        without an answer to AddPartitionsToTxn.
        """
        is_known = any(sent.offset is not None for sent in operation.sent)
        if error.code() == KafkaError.INVALID_TXN_STATE and is_known and operation.outcome is Outcome.ABORTED:
            self.recorder.problems.append(f"{self.name}: {operation} is unknown to its coordinator: {error}")

    def _finish(self) -> None:
        """Ends the open transaction, if there is one. To do this, starts a new producer with the same transactional id,
        because its InitProducerId request ends the transaction."""
        self._producer = None
        deadline = time.monotonic() + END_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                self._ready()
                return
        self.recorder.problems.append(f"{self.name}: InitProducerId fails for {END_TIMEOUT_S:g} s")


def _offset(message: Message) -> int | None:
    """The offset of an acknowledged record. None if the answer contains no offset, because the broker has recognised a
    duplicate.
    """
    offset = message.offset()
    return offset if offset is not None and offset >= 0 else None
