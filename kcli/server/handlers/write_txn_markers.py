"""WriteTxnMarkers (key 27, version 1): writes the markers that end transactions (KIP-98, KIP-664).

Transaction coordinators send this request. Operators send it too, to end a hanging transaction. The response is sent
when each marker is committed or has failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from kcli.coordinator.transaction.state import TV0
from kcli.errors import ErrorCode, KafkaError
from kcli.model.pace import nested
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kcli.runtime.turns import started
from kcli.server.coordinators.transaction_markers import MarkerWriter, TransactionEnd
from kcli.server.requests.context import REFUSAL_COST, RequestContext

MARKER_COST = 100
RESULT_COST = 5


@dataclass(frozen=True, slots=True)
class Ports:
    markers: MarkerWriter


Context = RequestContext[Ports]
Outcomes = dict[TopicPartition, asyncio.Future[ErrorCode]]


async def handle(context: Context, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    # All markers are appended before the wait for any of them.
    begun = [(marker, await _begin(context, marker)) for marker in request.markers]
    results = []
    for marker, outcomes in begun:
        await context.pace(RESULT_COST)
        codes = {}
        for key, outcome in outcomes.items():
            await context.pace(REFUSAL_COST)
            codes[key] = await outcome
        results.append(await _shaped(context, marker, codes.__getitem__))
    return WriteTxnMarkersResponse(markers=tuple(results))


async def error_response(
    context: Context, request: WriteTxnMarkersRequest, error: KafkaError
) -> WriteTxnMarkersResponse:
    failed = [await _shaped(context, marker, lambda _: error.code) for marker in request.markers]
    return WriteTxnMarkersResponse(markers=tuple(failed))


async def _begin(context: Context, marker: WritableTxnMarker) -> Outcomes:
    """Appends a marker to its partitions."""
    # Version 1 of the request does not contain the protocol version of the transaction. So the rules of TV1 apply,
    # which are less strict.
    end = TransactionEnd(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=TV0,
    )
    await context.pace(RESULT_COST)
    outcomes: Outcomes = {}
    for topic in marker.topics:
        await context.pace(RESULT_COST)
        for partition in topic.partition_indexes:
            await context.pace(MARKER_COST)
            outcome = started(context.ports.markers.write(end, topic.name, partition))
            outcomes[TopicPartition(topic.name, partition)] = outcome
    return outcomes


async def _shaped(
    context: Context, marker: WritableTxnMarker, code_of: Callable[[TopicPartition], ErrorCode]
) -> WritableTxnMarkerResult:
    topics = await nested(
        context.pace,
        REFUSAL_COST,
        marker.topics,
        lambda topic: topic.partition_indexes,
        lambda topic, partition: WritableTxnMarkerPartitionResult(
            partition_index=partition, error_code=code_of(TopicPartition(topic.name, partition))
        ),
        lambda topic, parts: WritableTxnMarkerTopicResult(name=topic.name, partitions=parts),
    )
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)
