"""Writes the markers that end a transaction to all partitions of the transaction, on this broker and on other brokers.

This broker writes the markers of the partitions that it leads, and sends WriteTxnMarkers to the leaders of the other
partitions (`RemoteMarkers`). If a leader fails to write a marker, this broker repeats the request until the marker is
written. Each time, the request goes to the present leader. There is one task for each leader, so that a slow leader
does not delay the partitions of other leaders.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kcli.errors import ErrorCode, KafkaError, NetworkException, UnsupportedVersionException
from kcli.metadata.image import MetadataImage
from kcli.model.ids import NO_LEADER
from kcli.model.topic_partition import TopicPartition, numbers_by_topic
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.turns import Turn, started
from kcli.server.coordinators.broker_links import BrokerLinks, GatheredRequests
from kcli.server.coordinators.transaction_markers import MarkerWriter, TransactionEnd

_log = logging.getLogger("kcli.server.TransactionMarkerChannelManager")

MARKER_RETRY_SECONDS = 0.1
"""The first pause before a marker is written again, as in Kafka. The election of a leader takes about this time."""
MARKER_RETRY_MAX_SECONDS = 1.0
"""The longest pause. The pause doubles, because thousands of transactions may wait for one broker."""
PARTITIONS_PER_REQUEST = 5_000
"""A request is full when it has this number of markers. A marker takes about 100 µs on the other broker."""
MARKER_COST = 100
"""The cost to append a marker to a partition of this broker."""

Codes = Mapping[TopicPartition, ErrorCode]

# The errors which show that a newer coordinator or a newer producer has taken over the transaction.
_OVERTAKEN = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
# A partition with one of these codes counts as done. Its log cannot have transactions, as in Kafka.
_DONE = (ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION)


class Overtaken(Exception):
    """Raised if a partition refuses a marker, because a newer coordinator or a newer epoch of the producer has already
    written to the partition."""


@dataclass(frozen=True, slots=True)
class _Marker:
    """The marker of one transaction for partitions of one leader."""

    end: TransactionEnd
    partitions: Sequence[TopicPartition]


class RemoteMarkers:
    """Sends WriteTxnMarkers to other brokers. Several transactions share a request. Two transactions of the same
    producer id never share a request, because the response identifies a transaction only by its producer id.
    """

    def __init__(self, links: BrokerLinks) -> None:
        self._links = links
        self._requests: GatheredRequests[_Marker, Codes] = GatheredRequests(
            self._exchange,
            key_of=lambda marker: marker.end.producer_id,
            size_of=lambda marker: len(marker.partitions),
            max_size=PARTITIONS_PER_REQUEST,
        )

    async def write(self, broker_id: int, end: TransactionEnd, partitions: Sequence[TopicPartition]) -> Codes:
        """Returns the error code of each partition. A very large number of partitions is sent in several requests, one
        after another.
        """
        codes: dict[TopicPartition, ErrorCode] = {}
        for begin in range(0, len(partitions), PARTITIONS_PER_REQUEST):
            some = partitions[begin : begin + PARTITIONS_PER_REQUEST]
            try:
                codes.update(await self._requests.send(broker_id, _Marker(end, some)))
            except KafkaError as error:
                codes.update(dict.fromkeys(some, error.code))
        return codes

    async def stop(self) -> None:
        await self._requests.stop()
        self._links.close()

    async def _exchange(self, broker_id: int, markers: Sequence[_Marker]) -> list[Codes]:
        request = WriteTxnMarkersRequest(markers=tuple(map(_as_written, markers)))
        try:
            response: WriteTxnMarkersResponse = await self._links.ask(
                broker_id, ApiKey.WRITE_TXN_MARKERS, request
            )
        except UnsupportedVersionException as error:
            # The code UNSUPPORTED_VERSION of a partition means that the partition is done.
            raise NetworkException(error.message) from error
        codes = {
            (result.producer_id, TopicPartition(topic.name, partition.partition_index)): partition.error_code
            for result in response.markers
            for topic in result.topics
            for partition in topic.partitions
        }
        return [
            {
                key: codes.get((marker.end.producer_id, key), ErrorCode.NETWORK_EXCEPTION)
                for key in marker.partitions
            }
            for marker in markers
        ]


class MarkerSender:
    """Writes markers until every partition has its marker."""

    def __init__(
        self,
        node_id: int,
        metadata: Callable[[], MetadataImage],
        local: MarkerWriter,
        remote: RemoteMarkers,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._local = local
        self._remote = remote
        self.leaderless_count = 0
        """The number of markers that wait because their partitions have no leader."""

    async def write_all(
        self,
        end: TransactionEnd,
        partitions: Sequence[TopicPartition],
        written: Callable[[Sequence[TopicPartition]], None],
    ) -> None:
        """Returns when every partition has its marker. Calls `written` after each part of the partitions.

        If a partition was deleted, it needs no marker. Raises Overtaken.
        """
        if not partitions:
            written(())
            return
        overtaken: Exception | None = None
        try:
            async with asyncio.TaskGroup() as group:
                await self._write(group, end, partitions, written)
        except* Overtaken as errors:
            overtaken = errors.exceptions[0]
        # If an error is raised inside of `except*`, Python before 3.11.4 puts it into another group.
        if overtaken is not None:
            raise overtaken

    async def stop(self) -> None:
        await self._remote.stop()

    async def _write(
        self,
        group: asyncio.TaskGroup,
        end: TransactionEnd,
        left: Sequence[TopicPartition],
        written: Callable[[Sequence[TopicPartition]], None],
    ) -> None:
        """Writes to the leader of the first partition until this leader has all its markers. Starts a task for each
        other leader.
        """
        pause_s = MARKER_RETRY_SECONDS
        while True:
            (broker_id, partitions), *others = self._by_leader(left).items()
            for _, some in others:
                group.create_task(self._write(group, end, some, written))
            codes = await self._write_once(broker_id, end, partitions)
            _check_overtaken(end, codes)
            written([key for key in partitions if codes[key] in _DONE])
            left = [key for key in partitions if codes[key] not in _DONE]
            if not left:
                return
            await self._pause(pause_s, len(left) if broker_id == NO_LEADER else 0)
            if pause_s < MARKER_RETRY_MAX_SECONDS <= pause_s * 2:  # once, when the pauses have become long
                _log.warning(
                    "The marker of producer %d is not written to %s yet: %s",
                    end.producer_id,
                    left[0],
                    codes[left[0]].name,
                )
            pause_s = min(pause_s * 2, MARKER_RETRY_MAX_SECONDS)

    async def _pause(self, seconds: float, leaderless: int) -> None:
        self.leaderless_count += leaderless
        try:
            await asyncio.sleep(seconds)
        finally:
            self.leaderless_count -= leaderless

    def _by_leader(self, partitions: Sequence[TopicPartition]) -> dict[int | None, list[TopicPartition]]:
        """The partitions by the broker that leads them. The key is NO_LEADER for partitions without a leader, and None
        for deleted partitions."""
        metadata = self._metadata()
        by_leader: dict[int | None, list[TopicPartition]] = {}
        for key in partitions:
            image = metadata.partition(*key)
            by_leader.setdefault(None if image is None else image.leader, []).append(key)
        return by_leader

    async def _write_once(
        self, broker_id: int | None, end: TransactionEnd, partitions: Sequence[TopicPartition]
    ) -> Codes:
        if broker_id is None:
            return dict.fromkeys(partitions, ErrorCode.NONE)
        if broker_id == NO_LEADER:
            return dict.fromkeys(partitions, ErrorCode.LEADER_NOT_AVAILABLE)
        if broker_id == self._node_id:
            return await self._write_here(end, partitions)
        return await self._remote.write(broker_id, end, partitions)

    async def _write_here(self, end: TransactionEnd, partitions: Sequence[TopicPartition]) -> Codes:
        """Writes markers to partitions that this broker leads. First appends all markers, and then waits for their
        commits."""
        pace = Turn()
        outcomes = []
        for key in partitions:
            await pace(MARKER_COST)
            outcomes.append(started(self._local.write(end, *key)))
        return {key: await outcome for key, outcome in zip(partitions, outcomes, strict=True)}


def _check_overtaken(end: TransactionEnd, codes: Codes) -> None:
    for (topic, partition), code in codes.items():
        if code in _OVERTAKEN:
            raise Overtaken(
                f"{topic}-{partition} answered {code.name} to the marker of producer {end.producer_id} "
                f"with epoch {end.producer_epoch}"
            )


def _as_written(marker: _Marker) -> WritableTxnMarker:
    end = marker.end
    return WritableTxnMarker(
        producer_id=end.producer_id,
        producer_epoch=end.producer_epoch,
        transaction_result=end.committed,
        coordinator_epoch=end.coordinator_epoch,
        topics=tuple(
            WritableTxnMarkerTopic(name=name, partition_indexes=numbers)
            for name, numbers in numbers_by_topic(marker.partitions).items()
        ),
    )
