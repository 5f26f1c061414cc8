"""Makes Produce requests from batches, and reads their responses. The producer fields are in the batches already."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from kcli.model.request_values import ACKS_ALL
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)


def produce_request(
    batches: Mapping[TopicPartition, bytes],
    topic_ids: Mapping[str, uuid.UUID | None],
    *,
    timeout_ms: int,
    acks: int = ACKS_ALL,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Returns a request with one batch for each partition, as brokers require (KIP-98).

    Versions before 13 need no topic ids, so `topic_ids` may lack topics if the request is sent in such a version.
    """
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for (topic, partition), batch in batches.items():
        by_topic.setdefault(topic, []).append(PartitionProduceData(index=partition, records=batch))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=tuple(
            TopicProduceData(name=topic, topic_id=topic_ids.get(topic), partition_data=tuple(data))
            for topic, data in by_topic.items()
        ),
    )


def produced_partitions(
    response: ProduceResponse, topic_ids: Mapping[str, uuid.UUID | None]
) -> dict[TopicPartition, PartitionProduceResponse]:
    """Returns the answer for each partition. A response since version 13 has only the ids of the topics."""
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    return {
        TopicPartition(topic.name or names[topic.topic_id], partition.index): partition
        for topic in response.responses
        for partition in topic.partition_responses
    }
