"""Makes Fetch requests from positions, and reads their responses. A `PlannedFetch` says which partitions are listed."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from kcli.client.records.fetch_plan import FetchPosition, PlannedFetch
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.model.request_values import READ_COMMITTED, READ_UNCOMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.aborted import AbortedTransaction
from kcli.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

UNLIMITED_BYTES = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """The limits of a Fetch request. A broker answers after `max_wait_ms`, or as soon as it has `min_bytes`.

    A broker returns at least one whole batch, even if the batch is larger than the limits (KIP-74).
    """

    max_wait_ms: int
    partition_max_bytes: int
    max_bytes: int = UNLIMITED_BYTES
    min_bytes: int = 1
    isolation_level: int = READ_UNCOMMITTED


def fetch_request(planned: PlannedFetch, limits: FetchLimits) -> FetchRequest:
    """Returns the request. It lists the partitions in the given order, because the order decides which partition gets a
    whole batch."""
    return FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=limits.isolation_level,
        session_id=planned.session_id,
        session_epoch=planned.session_epoch,
        topics=tuple(
            FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=tuple(
                    FetchPartition(
                        partition=key.partition,
                        current_leader_epoch=position.leader_epoch,
                        fetch_offset=position.fetch_offset,
                        last_fetched_epoch=position.last_fetched_epoch,
                        log_start_offset=position.log_start_offset,
                        partition_max_bytes=limits.partition_max_bytes,
                    )
                    for key, position in of_topic
                ),
            )
            for (topic, topic_id), of_topic in groupby(
                planned.partitions, lambda listed: (listed[0].topic, listed[1].topic_id)
            )
        ),
        forgotten_topics_data=tuple(
            ForgottenTopic(
                topic=topic, topic_id=topic_id, partitions=tuple(key.partition for key, _ in of_topic)
            )
            for (topic, topic_id), of_topic in groupby(
                planned.forgotten, lambda left: (left[0].topic, left[1])
            )
        ),
    )


def topic_names(positions: Iterable[tuple[TopicPartition, FetchPosition]]) -> dict[uuid.UUID | None, str]:
    """Returns the names of topics by their ids, because a response since version 13 has only the ids."""
    return {position.topic_id: key.topic for key, position in positions}


def fetched_partitions(
    response: FetchResponse, names: Mapping[uuid.UUID | None, str]
) -> dict[TopicPartition, PartitionData]:
    """Returns the answer for each partition. Leaves out topics that are not in `names`.

    Raises the KafkaError of the whole response.
    """
    if response.error_code is not ErrorCode.NONE:
        raise error_for(response.error_code)
    return {
        TopicPartition(name, partition.partition_index): partition
        for topic in response.responses
        if (name := topic.topic or names.get(topic.topic_id))
        for partition in topic.partitions
    }


def reading_error(partition: TopicPartition, offset: int, code: ErrorCode) -> KafkaError:
    """Returns the exception for the error code of a partition."""
    return error_for(code, f"reading {partition} at offset {offset}: {code.name}")


def aborted_transactions(
    answer: PartitionData, isolation_level: int
) -> tuple[AbortedTransaction, ...] | None:
    """Returns the aborted transactions to which the batches of an answer may belong. None for read_uncommitted."""
    if isolation_level != READ_COMMITTED:
        return None
    return tuple(
        AbortedTransaction(transaction.producer_id, transaction.first_offset)
        for transaction in answer.aborted_transactions or ()
    )


def readable_end(answer: PartitionData, isolation_level: int) -> int:
    """Returns the offset after the last record that a consumer may read."""
    return answer.last_stable_offset if isolation_level == READ_COMMITTED else answer.high_watermark
