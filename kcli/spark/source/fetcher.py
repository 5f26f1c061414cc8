"""Reads one offset range of one partition as raw batches, which the task then decodes.

The reader sends the next Fetch request before the task decodes the batches of an answer. After a change of leader or a
lost connection, the reader tries again. If an offset is no longer in the log, failOnDataLoss decides whether the reader
continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kcli.client.records.fetch import FetchLimits, aborted_transactions, fetch_request
from kcli.client.records.fetch_plan import FetchPosition, without_session
from kcli.errors import CorruptRecordError, ErrorCode, KafkaError, error_for
from kcli.model.request_values import EARLIEST, LATEST
from kcli.protocol.batches.aborted import AbortedTransaction
from kcli.protocol.batches.batch import LENGTH_OVERHEAD
from kcli.protocol.batches.batch_headers import BatchHeaders, corrupt, read_headers
from kcli.protocol.messages.fetch import FetchResponse, PartitionData
from kcli.spark.client.calls import FETCH
from kcli.spark.client.cluster import Cluster, Retry
from kcli.spark.client.connection import InFlightRequest
from kcli.spark.options import SourceOptions
from kcli.spark.source.offsets import OffsetRange, data_loss

MAX_WAIT_MS = 500
"""The default of fetch.max.wait.ms."""

LEADER_ERRORS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)


@dataclass(frozen=True, slots=True)
class Fetched:
    """Complete batches of one answer. With read_committed, also the aborted transactions to which these batches may
    belong.
    """

    table: BatchHeaders
    first_offset: int
    aborted: tuple[AbortedTransaction, ...] | None


def fetch_range(cluster: Cluster, offset_range: OffsetRange, options: SourceOptions) -> Iterator[Fetched]:
    """Yields the batches with the offsets of `offset_range`. The first and last batch may also contain other offsets.

    Raises DataLossError, CorruptRecordError, UnreachableError, or the KafkaError of the broker.
    """
    reader = _RangeReader(cluster, offset_range, options)
    while (data := reader.next_answer()) is not None:
        first_offset = reader.position
        if not data.records:
            reader.waited()
            continue
        table = read_headers(data.records, str(offset_range.part))
        if not len(table):  # brokers send the first batch whole, even above the size limit (KIP-74)
            raise CorruptRecordError(
                f"the answer for offset {first_offset} of {offset_range.part} has bytes, but no whole batch"
            )
        check_order(table)
        if table.next_offset <= first_offset:
            raise corrupt(table, -1, f"ends before offset {first_offset}, which was requested")
        reader.advance(table.next_offset)
        yield Fetched(table, first_offset, aborted_transactions(data, options.client.isolation_level))


def check_order(table: BatchHeaders, first: int = 0) -> None:
    """Checks that the offsets rise from `first` on, because the checksum of a batch does not cover its base offset.

    Raises CorruptRecordError if the offsets do not rise.
    """
    bases = table.headers["base_offset"]
    ends = bases + table.headers["last_offset_delta"] + 1
    before = np.concatenate(([first], ends[:-1]))
    wrong = np.flatnonzero((bases < before) | (ends <= bases))
    if len(wrong):
        row = int(wrong[0])
        raise corrupt(table, row, f"overlaps the one before it, which ends at offset {before[row]}")


def bytes_per_offset(fetched: Iterator[Fetched], offset: int) -> float:
    """Estimates the stored bytes per offset from the first batches at `offset` or later."""
    for chunk in fetched:
        headers = chunk.table.headers
        span = chunk.table.next_offset - max(offset, int(headers["base_offset"][0]))
        return float(headers["length"].sum() + LENGTH_OVERHEAD * len(headers)) / max(span, 1)
    return 1.0  # the log has no batches for these offsets, so the estimate has no effect


class _RangeReader:
    """Reads one range. Keeps the next offset to read, and the unanswered request for this offset."""

    def __init__(self, cluster: Cluster, offset_range: OffsetRange, options: SourceOptions) -> None:
        self._cluster, self._range, self._options = cluster, offset_range, options
        self.position = offset_range.start
        self._pending: tuple[int, InFlightRequest[FetchResponse]] | None = None
        self._retry = Retry(options.poll_timeout_ms, f"reading {offset_range}")

    def next_answer(self) -> PartitionData | None:
        """Returns the answer for the current position, or None at the end of the range."""
        while self.position < self._range.end:
            try:
                node, pending = self._pending or self._send()
                self._pending = None
                answer = self._cluster.connection(node).receive(pending)
                if answer.error_code:
                    raise error_for(answer.error_code)
                data = answer.responses[0].partitions[0]
                if not data.error_code:
                    return data
                self._recover(data.error_code)
            except (OSError, KafkaError) as error:
                self._reconnect(error)
        return None

    def advance(self, next_offset: int) -> None:
        """Sets the position to `next_offset` and requests the records there, so that the broker works while the task
        decodes.
        """
        self.position = max(self.position, next_offset)
        self._retry.succeeded()
        if self.position < self._range.end:
            try:
                self._pending = self._send()
            except (OSError, KafkaError) as error:
                self._reconnect(error)

    def waited(self) -> None:
        """Waits after an answer without records. Raises UnreachableError if no records arrive in time.

        The range is below the high watermark, so the next answer should have records.
        """
        self._retry.after(error_for(ErrorCode.REQUEST_TIMED_OUT, "the broker answers without records"))

    def _send(self) -> tuple[int, InFlightRequest[FetchResponse]]:
        part = self._range.part
        client = self._options.client
        limits = FetchLimits(
            max_wait_ms=MAX_WAIT_MS,
            max_bytes=client.max_partition_fetch_bytes,
            partition_max_bytes=client.max_partition_fetch_bytes,
            isolation_level=client.isolation_level,
        )
        # Up to version 12, which this client speaks, Fetch has no topic ids.
        request = fetch_request(without_session([(part, FetchPosition(None, self.position))]), limits)
        node = self._cluster.leader(part)
        return node, self._cluster.connection(node).send(FETCH, request)

    def _recover(self, code: ErrorCode) -> None:
        """Handles an error code of the partition. Waits before the next attempt, or raises the error if it is final."""
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._out_of_range()
        error = error_for(code, f"reading {self._range.part} at offset {self.position}: {code.name}")
        if code in LEADER_ERRORS:
            self._cluster.forget(self._range.part)
        self._retry.after(error)
        return None

    def _reconnect(self, error: OSError | KafkaError) -> None:
        """Drops the connections after an error. Waits before the next attempt, or raises the error if it is final."""
        part = self._range.part
        self._pending = None
        self._retry.after(error)
        self._cluster.close()
        self._cluster.forget(part)

    def _out_of_range(self) -> None:
        """Sets the position to the start of the log if the offset was deleted.

        If the log ends before the offset, sets the position to the end of the range, so that reading ends.

        Reports the loss with `data_loss` first, which raises an error if failOnDataLoss is true.
        """
        part = self._range.part
        first = self._cluster.list_offsets({part: EARLIEST})[part].offset
        last = self._cluster.list_offsets({part: LATEST})[part].offset
        data_loss(
            self._options,
            f"offset {self.position} of {part} cannot be read: the log holds {first} up to {last}",
        )
        self.position = first if self.position < first else self._range.end
