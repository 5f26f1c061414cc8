"""WriteTxnMarkers (key 27, version 1): writes the markers that end transactions (KIP-98, KIP-664).

Transaction coordinators send it, and operators who end a hanging transaction. Each partition is answered when its
marker is committed.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.coordinator.transaction.state import TV0
from kcli.errors import ErrorCode, KafkaError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kcli.server.coordinators.transaction_markers import TransactionEnd
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import ALTER_CLUSTER, CLUSTER_ACTION, whole_request

ACCESS = whole_request(ALTER_CLUSTER, CLUSTER_ACTION)


async def handle(context: BrokerContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    # All markers are appended before the wait for any of them.
    begun = [(marker, _write(context, marker)) for marker in request.markers]
    return WriteTxnMarkersResponse(markers=tuple([await _result(*each) for each in begun]))


def error_response(
    _context: BrokerContext, request: WriteTxnMarkersRequest, error: KafkaError
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=tuple(
            _shaped(marker, dict.fromkeys(_partitions(marker), error.code)) for marker in request.markers
        )
    )


def _write(
    context: BrokerContext, marker: WritableTxnMarker
) -> dict[TopicPartition, ErrorCode | Awaitable[ErrorCode]]:
    # Version 1 does not name the protocol of the transaction, so the less strict rules of the older protocol apply.
    end = TransactionEnd(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=TV0,
    )
    return {key: context.ports.markers.write(end, *key) for key in _partitions(marker)}


async def _result(
    marker: WritableTxnMarker, outcomes: dict[TopicPartition, ErrorCode | Awaitable[ErrorCode]]
) -> WritableTxnMarkerResult:
    return _shaped(
        marker,
        {
            key: outcome if isinstance(outcome, ErrorCode) else await outcome
            for key, outcome in outcomes.items()
        },
    )


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, partition)
        for topic in marker.topics
        for partition in topic.partition_indexes
    ]


def _shaped(marker: WritableTxnMarker, codes: dict[TopicPartition, ErrorCode]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=tuple(
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=tuple(
                    WritableTxnMarkerPartitionResult(
                        partition_index=partition, error_code=codes[TopicPartition(topic.name, partition)]
                    )
                    for partition in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )
