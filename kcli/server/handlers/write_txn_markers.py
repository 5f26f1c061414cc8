"""WriteTxnMarkers (key 27, version 1): writes the markers that end transactions (KIP-98, KIP-664).

Transaction coordinators send this request. Operators send it too, to end a hanging transaction. The response is sent
when each marker is committed or has failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

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
from kcli.server.requests.answers import finished, then
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, nested_steps, next_turn, run_in_turns

PARTITIONS_PER_TURN = 10
"""Markers that are appended in one iteration of the event loop. A marker takes 100 µs."""

MARKERS_PER_TURN = 200
"""Markers whose result is reported in one iteration of the event loop. A marker takes 5 µs."""

Outcomes = dict[TopicPartition, ErrorCode | Awaitable[ErrorCode]]


async def handle(context: BrokerContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    # All markers are appended before the wait for any of them.
    begun = await finished(run_in_turns(_write_all(context, request), PARTITIONS_PER_TURN))
    results = []
    for at, (marker, outcomes) in enumerate(begun, start=1):
        results.append(await _result(marker, outcomes))
        if at % MARKERS_PER_TURN == 0:
            await next_turn()
    return WriteTxnMarkersResponse(markers=tuple(results))


def error_response(
    _context: BrokerContext, request: WriteTxnMarkersRequest, error: KafkaError
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    markers = run_in_turns(_failed(request, error), REFUSALS_PER_TURN)
    return then(markers, lambda failed: WriteTxnMarkersResponse(markers=failed))


def _failed(request: WriteTxnMarkersRequest, error: KafkaError) -> Steps[tuple[WritableTxnMarkerResult, ...]]:
    failed = []
    for marker in request.markers:
        failed.append((yield from _shaped(marker, lambda _: error.code)))
        yield
    return tuple(failed)


def _write_all(
    context: BrokerContext, request: WriteTxnMarkersRequest
) -> Steps[list[tuple[WritableTxnMarker, Outcomes]]]:
    begun = []
    for marker in request.markers:
        begun.append((marker, (yield from _write(context, marker))))
        yield
    return begun


def _write(context: BrokerContext, marker: WritableTxnMarker) -> Steps[Outcomes]:
    # Version 1 of the request does not contain the protocol version of the transaction. So the rules of TV1 apply,
    # which are less strict.
    end = TransactionEnd(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=TV0,
    )
    outcomes: Outcomes = {}
    for topic in marker.topics:
        for partition in topic.partition_indexes:
            outcomes[TopicPartition(topic.name, partition)] = context.ports.markers.write(
                end, topic.name, partition
            )
            yield
    return outcomes


async def _result(marker: WritableTxnMarker, outcomes: Outcomes) -> WritableTxnMarkerResult:
    codes = {}
    for at, (key, outcome) in enumerate(outcomes.items(), start=1):
        codes[key] = outcome if isinstance(outcome, ErrorCode) else await outcome
        if at % REFUSALS_PER_TURN == 0:
            await next_turn()
    return await finished(run_in_turns(_shaped(marker, codes.__getitem__), REFUSALS_PER_TURN))


def _shaped(
    marker: WritableTxnMarker, code_of: Callable[[TopicPartition], ErrorCode]
) -> Steps[WritableTxnMarkerResult]:
    topics = yield from nested_steps(
        marker.topics,
        lambda topic: topic.partition_indexes,
        lambda topic, partition: WritableTxnMarkerPartitionResult(
            partition_index=partition, error_code=code_of(TopicPartition(topic.name, partition))
        ),
        lambda topic, parts: WritableTxnMarkerTopicResult(name=topic.name, partitions=parts),
    )
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)
