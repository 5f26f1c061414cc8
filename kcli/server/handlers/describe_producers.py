"""DescribeProducers (key 61, version 0): the producer state of a partition, from its leader (KIP-664)."""

from __future__ import annotations

from kcli.errors import KafkaError
from kcli.model.topic_names import validate
from kcli.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import READ_TOPIC, per_resource
from kcli.storage.log.producer_state import ProducerEntry

ACCESS = per_resource(READ_TOPIC)

_NONE = -1


def handle(context: BrokerContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(_described(context, topic.name, index) for index in topic.partition_indexes),
            )
            for topic in request.topics
        )
    )


def error_response(
    _context: BrokerContext, request: DescribeProducersRequest, error: KafkaError
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(_failed(index, error) for index in topic.partition_indexes),
            )
            for topic in request.topics
        )
    )


def _described(context: BrokerContext, topic: str, index: int) -> PartitionResponse:
    try:
        validate(topic)
        log = context.ports.replicas.get(topic, index).log
    except KafkaError as error:
        return _failed(index, error)
    return PartitionResponse(
        partition_index=index,
        active_producers=tuple(_state(entry) for entry in log.active_producers()),
    )


def _failed(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)


def _state(entry: ProducerEntry) -> ProducerState:
    start = entry.current_txn_first_offset
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=_NONE if start is None else start,
    )
