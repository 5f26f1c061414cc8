"""Admin calls about records: offsets of partitions, and deletion of records."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from kcli.client.admin.topics import group_partitions
from kcli.client.client import error_of, looking_up
from kcli.errors import ErrorCode, KafkaError, error_for
from kcli.model.ids import NO_LEADER
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.protocol.messages.metadata import MetadataResponse

TRIES_WITHOUT_LEADER = 3
"""The attempts for a partition without a live leader, if the caller does not wait.

An election that is in progress ends during these attempts.
"""

R = TypeVar("R")


_FIRST_VERSION: dict[int, int] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
}
"""The first version of ListOffsets that supports each special timestamp.

An older broker would read the special value as a normal timestamp.
"""


async def list_offsets(
    client: Client,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    wait_for_leaders: bool = True,
) -> dict[TopicPartition, OffsetAt | KafkaError]:
    """Returns the offset of each partition at a timestamp or OffsetSpec.

    If a leader is missing or unreachable, the call waits until default.api.timeout.ms. With `wait_for_leaders=False`,
    the call does not wait, and the partition gets an error.
    """
    from kcli.protocol.messages import list_offsets as messages

    async def ask(leader: int, part: list[TopicPartition]) -> dict[TopicPartition, OffsetAt | KafkaError]:
        request = messages.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=tuple(
                messages.ListOffsetsTopic(
                    name=topic,
                    partitions=tuple(
                        messages.ListOffsetsPartition(
                            partition_index=number, timestamp=wanted[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ),
                )
                for topic, numbers in group_partitions(part).items()
            ),
            timeout_ms=client.config.request_timeout_ms,
        )
        at_least = max(_FIRST_VERSION.get(wanted[partition], 0) for partition in part)
        response = await client.send(request, ApiKey.LIST_OFFSETS, to=leader, at_least=at_least)
        return {
            TopicPartition(topic.name, result.partition_index): error_of(result.error_code)
            or OffsetAt(offset=result.offset, timestamp=result.timestamp, leader_epoch=result.leader_epoch)
            for topic in response.topics
            for result in topic.partitions
        }

    return await _by_leader(
        client, "listOffsets", list(wanted), ask, wait_for_topics=False, wait_for_leaders=wait_for_leaders
    )


async def delete_records(
    client: Client, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Deletes records before an offset (-1: the high watermark).

    Returns the new low watermark of each partition, or its error.
    """
    from kcli.protocol.messages import delete_records as messages

    async def ask(leader: int, part: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        request = messages.DeleteRecordsRequest(
            topics=tuple(
                messages.DeleteRecordsTopic(
                    name=topic,
                    partitions=tuple(
                        messages.DeleteRecordsPartition(
                            partition_index=number, offset=before[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ),
                )
                for topic, numbers in group_partitions(part).items()
            ),
            timeout_ms=client.config.request_timeout_ms,
        )
        response = await client.send(request, ApiKey.DELETE_RECORDS, to=leader)
        return {
            TopicPartition(topic.name, partition.partition_index): error_of(partition.error_code)
            or partition.low_watermark
            for topic in response.topics
            for partition in topic.partitions
        }

    return await _by_leader(client, "deleteRecords", list(before), ask, wait_for_topics=True)


def _by_leader_or_missing(
    partitions: Iterable[TopicPartition], leaders: Mapping[TopicPartition, int]
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaError]]:
    """Returns the partitions by leader, and the errors of partitions without a leader."""
    by_leader: dict[int, list[TopicPartition]] = {}
    missing: dict[TopicPartition, KafkaError] = {}
    for partition in partitions:
        if leaders.get(partition, NO_LEADER) != NO_LEADER:
            by_leader.setdefault(leaders[partition], []).append(partition)
        else:
            is_there = partition in leaders
            missing[partition] = error_for(
                ErrorCode.LEADER_NOT_AVAILABLE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
    return by_leader, missing


async def _by_leader(
    client: Client,
    name: str,
    partitions: list[TopicPartition],
    ask: Callable[[int, list[TopicPartition]], Awaitable[dict[TopicPartition, R | KafkaError]]],
    *,
    wait_for_topics: bool,
    wait_for_leaders: bool = True,
) -> dict[TopicPartition, R | KafkaError]:
    """Sends requests to all leaders at the same time. Returns the result or the error of each partition.

    A partition is requested again only if its leader has moved, is unknown or does not answer.

    A partition that does not exist may still be created. So the call waits for this partition, and ends with
    TimeoutException if it is not created, as in Kafka. The call also waits for a missing topic, unless
    `wait_for_topics` is False.
    """
    results: dict[TopicPartition, R | KafkaError] = {}
    left = dict.fromkeys(partitions)

    tries = 0

    async def of_leader(leader: int, part: list[TopicPartition]) -> dict[TopicPartition, R | KafkaError]:
        try:
            return await ask(leader, part)
        except KafkaError as error:
            return dict.fromkeys(part, error)

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        with looking_up():
            metadata = await client.metadata(sorted({topic for topic, _ in left}))
        results.update(_of_topics(metadata, left, wait_for_topics=wait_for_topics))
        leaders = _leaders(metadata)
        results.update(
            _not_there(
                client, metadata, [partition for partition in left if partition not in {**results, **leaders}]
            )
        )
        by_leader, missing = _by_leader_or_missing(
            (partition for partition in left if partition not in results), leaders
        )
        requests = itertools.starmap(of_leader, by_leader.items())
        for answer in await asyncio.gather(*requests):
            for partition, result in answer.items():
                if isinstance(result, KafkaError) and result.retriable:
                    missing[partition] = result
                else:
                    results[partition] = result
        if not wait_for_leaders and tries == TRIES_WITHOUT_LEADER:
            results.update(missing)
        for partition in results:
            left.pop(partition, None)
        if left:
            # An error from a leader counts as an attempt of the call. A missing leader does not.
            for partition, error in missing.items():
                if leaders.get(partition, NO_LEADER) != NO_LEADER:
                    raise error
            with looking_up():
                raise next(iter(missing.values()))

    try:
        await client.call(f"{name}(api=METADATA)", attempt)
    except KafkaError as error:
        results.update(dict.fromkeys(left, error))
    return results


def _of_topics(
    metadata: MetadataResponse, partitions: Iterable[TopicPartition], *, wait_for_topics: bool
) -> dict[TopicPartition, KafkaError]:
    """Returns the errors of partitions whose topic has a permanent error."""
    hopeless: dict[str, KafkaError] = {}
    for topic in metadata.topics:
        error = error_of(topic.error_code)
        if error is None:
            continue
        if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if wait_for_topics:
                continue
        elif error.retriable:
            continue
        hopeless[topic.name or ""] = error
    return {
        TopicPartition(topic, number): _without_metadata(TopicPartition(topic, number), hopeless[topic])
        for topic, number in partitions
        if topic in hopeless
    }


def _not_there(
    client: Client, metadata: MetadataResponse, partitions: list[TopicPartition]
) -> dict[TopicPartition, KafkaError]:
    """Returns the final errors of partitions that their topics do not have, if the client does not wait for them."""
    counts = {topic.name: len(topic.partitions) for topic in metadata.topics if not topic.error_code}
    errors = {
        partition: client.missing_partition(partition, counts[partition.topic])
        for partition in partitions
        if partition.topic in counts
    }
    return {partition: error for partition, error in errors.items() if not error.retriable}


def _without_metadata(partition: TopicPartition, error: KafkaError) -> KafkaError:
    """The error for a partition without metadata, with the text of Java's client."""
    what = f"Failed to fetch metadata for partition {partition.topic}-{partition.partition}"
    match error.code:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            why = f"because metadata for topic `{partition.topic}` could not be found"
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            why = "due to topic authorization failure"
        case _:
            return error
    return error_for(error.code, f"{what} {why}")


def _leaders(metadata: MetadataResponse) -> dict[TopicPartition, int]:
    """Returns the leader of each existing partition, or NO_LEADER."""
    return {
        TopicPartition(topic.name or "", partition.partition_index): partition.leader_id
        for topic in metadata.topics
        for partition in topic.partitions
    }
