"""DescribeProducers (key 61, version 0): the producer state of a partition (KIP-664). The leader and the followers of
the partition answer.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.errors import KafkaError, TopicAuthorizationException, UnknownTopicOrPartitionException
from kcli.model.topic_names import is_valid, validate
from kcli.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import READ_TOPIC
from kcli.server.requests.answers import then
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, nested_steps, run_in_turns
from kcli.storage.log.producer_entries import ProducerEntry

_NONE = -1


PARTITIONS_PER_TURN = 200
"""Partitions and producers that are described in one iteration of the event loop. Each takes 4 µs."""


def handle(
    context: BrokerContext, request: DescribeProducersRequest
) -> DescribeProducersResponse | Awaitable[DescribeProducersResponse]:
    return run_in_turns(_described_topics(context, request), PARTITIONS_PER_TURN)


def error_response(
    _context: BrokerContext, request: DescribeProducersRequest, error: KafkaError
) -> DescribeProducersResponse | Awaitable[DescribeProducersResponse]:
    steps = nested_steps(
        request.topics,
        lambda topic: topic.partition_indexes,
        lambda _, index: _failed(index, error),
        lambda topic, parts: TopicResponse(name=topic.name, partitions=parts),
    )
    topics = run_in_turns(steps, REFUSALS_PER_TURN)
    return then(topics, lambda failed: DescribeProducersResponse(topics=failed))


def _described_topics(
    context: BrokerContext, request: DescribeProducersRequest
) -> Steps[DescribeProducersResponse]:
    rights = context.rights
    topics = []
    for topic in request.topics:
        # A name that no topic can have is invalid for every client, so this answer needs no permission.
        is_refused = is_valid(topic.name) and not rights.allows(READ_TOPIC, topic.name)
        partitions = []
        for index in topic.partition_indexes:
            if is_refused:
                partitions.append(_failed(index, TopicAuthorizationException()))
            else:
                partitions.append((yield from _described(context, topic.name, index)))
            yield
        topics.append(TopicResponse(name=topic.name, partitions=tuple(partitions)))
        yield
    return DescribeProducersResponse(topics=tuple(topics))


def _described(context: BrokerContext, topic: str, index: int) -> Steps[PartitionResponse]:
    try:
        validate(topic)
    except KafkaError as error:
        return _failed(index, error)
    if topic not in context.ports.metadata.topics:
        return _failed(index, UnknownTopicOrPartitionException())
    try:
        log = context.ports.replicas.hosted(topic, index).log
    except KafkaError as error:
        # Kafka gives a text only for a topic that is unknown, invalid or refused.
        return PartitionResponse(partition_index=index, error_code=error.code)
    producers = []
    for entry in log.producers.active():
        producers.append(_state(entry))
        yield
    return PartitionResponse(partition_index=index, active_producers=tuple(producers))


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
