"""The sink's producer: sends batches to their leaders, without duplicates during the life of the producer (KIP-98)."""

from __future__ import annotations

import time
from collections import deque

from kcli.client.records.produce import produce_request, produced_partitions
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.produce import ProduceRequest, ProduceResponse
from kcli.spark.client.calls import PRODUCE
from kcli.spark.client.cluster import Cluster, Retry
from kcli.spark.client.connection import InFlightRequest
from kcli.spark.options import SinkOptions
from kcli.spark.sink.encoder import RecordsArea, seal
from kcli.spark.sink.transaction import NOT_OURS, Transaction, add_partitions

REQUEST_BYTES = 8 << 20
"""The total size at which waiting batches are sent. It is far below socket.request.max.bytes (100 MiB)."""

MAX_SEQUENCE = 0x7FFF_FFFF


class Producer:
    """An idempotent producer. Each leader has at most one unanswered request, so that batches keep their order.

    If a transaction is given, the batches are part of it. The driver ends the transaction.
    """

    def __init__(
        self, cluster: Cluster, options: SinkOptions, transaction: Transaction | None = None
    ) -> None:
        self._cluster, self._options, self._transaction = cluster, options, transaction
        if transaction is None:
            self._producer_id, self._epoch = cluster.init_producer_id()
        else:
            self._producer_id, self._epoch = transaction.producer_id, transaction.producer_epoch
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self.began: float | None = None
        """The time at which the first partition was added to the transaction. At this time, the time-out of the
        transaction starts."""
        self._waiting: dict[TopicPartition, deque[bytes]] = {}
        self._waiting_bytes = 0

    def add(self, part: TopicPartition, area: RecordsArea) -> None:
        """Adds one batch. The batch waits until REQUEST_BYTES are waiting or `flush` is called, and is then sent."""
        sequence = self._sequences.get(part, 0)
        self._sequences[part] = (sequence + area.count) & MAX_SEQUENCE
        batch = seal(
            area,
            self._options.codec,
            time.time_ns() // 1_000_000,
            self._producer_id,
            self._epoch,
            sequence,
            level=self._options.level,
            is_transactional=self._transaction is not None,
        )
        self._waiting.setdefault(part, deque()).append(batch)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= REQUEST_BYTES:
            self.flush()

    def flush(self) -> None:
        """Sends all waiting batches and waits for the answers.

        A request has at most one batch for each partition, as brokers require (KIP-98).
        """
        if self._transaction is not None and (new := self._waiting.keys() - self._added):
            self.began = self.began or time.time()
            add_partitions(self._cluster, self._transaction, new)
            self._added |= new
        while self._waiting:
            self._produce({part: batches.popleft() for part, batches in self._waiting.items()})
            self._waiting = {part: batches for part, batches in self._waiting.items() if batches}
        self._waiting_bytes = 0

    def _produce(self, batches: dict[TopicPartition, bytes]) -> None:
        retry = Retry(self._cluster.settings.api_timeout_ms, "producing")
        while batches:
            errors = self._attempt(batches)
            if not errors:
                continue
            retry.after(min(errors, key=_can_be_retried))  # raises a final error, if there is one
            for part in batches:
                self._cluster.forget(part)

    def _attempt(self, batches: dict[TopicPartition, bytes]) -> list[OSError | KafkaError]:
        """Sends batches to all leaders at the same time. Removes the batches that were written from `batches`.

        Returns the errors of the other batches.

        Reads every answer, even after an error. Otherwise the next request would read the answer of an earlier request.
        """
        errors: list[OSError | KafkaError] = []
        sent: list[tuple[int, InFlightRequest[ProduceResponse]]] = []
        try:
            leaders = self._cluster.by_leader(batches)
        except (OSError, KafkaError) as error:
            return [error]
        for node, parts in leaders.items():
            try:
                request = self._request({part: batches[part] for part in parts})
                sent.append((node, self._cluster.connection(node).send(PRODUCE, request)))
            except OSError as error:
                self._cluster.drop(node)
                errors.append(error)
        for node, pending in sent:
            try:
                errors += self._remove_written(self._cluster.connection(node).receive(pending), batches)
            except OSError as error:
                self._cluster.drop(node)
                errors.append(error)
        return errors

    def _remove_written(
        self, answer: ProduceResponse, batches: dict[TopicPartition, bytes]
    ) -> list[KafkaError]:
        """Handles one answer: removes the written batches from `batches`, and returns the errors of the other batches
        in the answer.
        """
        errors = []
        for part, result in produced_partitions(answer, {}).items():
            if result.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                del batches[part]
            else:
                errors.append(self._error(part, result.error_code, result.error_message))
        return errors

    def _error(self, part: TopicPartition, code: ErrorCode, message: str | None) -> KafkaError:
        if self._transaction is not None and code in NOT_OURS:
            return self._transaction.refused(code, f"producing to {part}")
        what = f": {message}" if message else ""
        return error_for(code, f"producing to {part}: {code.name}{what}")

    def _request(self, batches: dict[TopicPartition, bytes]) -> ProduceRequest:
        return produce_request(
            batches,
            {},  # up to version 11, which this client speaks, Produce has no topic ids
            timeout_ms=self._options.client.request_timeout_ms,
            transactional_id=None if self._transaction is None else self._transaction.transactional_id,
        )


def _can_be_retried(error: OSError | KafkaError) -> bool:
    return not isinstance(error, KafkaError) or error.retriable
