"""Lag in time: the age of the first record that a group has not consumed yet.

No API returns the timestamp of an offset, so the record itself is fetched. One Fetch request to a leader requests the
next batch of each of its partitions. A broker guarantees a whole batch only for the first partition of a request
(KIP-74). A partition without a whole batch is the first one in the next request. The requests are repeated until all
partitions have an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kcli.client.admin.offsets import list_offsets
from kcli.client.client import error_of
from kcli.errors import ErrorCode, KafkaError, ProtocolError, StorageError, error_for
from kcli.model.ids import NO_TIMESTAMP
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, iter_batches, read_records
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    import uuid

    from kcli.client.client import Client
    from kcli.protocol.messages.fetch import PartitionData
    from kcli.protocol.messages.metadata import MetadataResponse

PARTITION_MAX_BYTES = 16 * 1024
"""The most bytes of one partition in a response: a producer's usual batch (batch.size).

With this size, most partitions have an answer after the first round, and few unneeded bytes are fetched.
"""

RESPONSE_MAX_BYTES = 8 * 1024 * 1024
"""The size limit of one response, to save memory. Partitions beyond this limit are requested in the next round."""

Lag = float | KafkaError | None


@dataclass(frozen=True, slots=True)
class RecordSearch:
    """A partition, and the offset at which the search for its next record begins."""

    partition: TopicPartition
    topic_id: uuid.UUID | None
    offset: int


async def lag_seconds(
    client: Client, committed: Mapping[TopicPartition, int], now_ms: int
) -> dict[TopicPartition, Lag]:
    """Returns the age in seconds of the first record at or after each offset.

    If there is no such record, the age is 0.

    If the record has no timestamp, the value is None. If the request for a partition failed, the value is the error.
    The call does not wait for missing leaders, so a partition without a leader does not delay the other partitions.
    """
    lags: dict[TopicPartition, Lag] = {}
    if not committed:
        return lags
    try:
        metadata = await client.metadata(sorted({topic for topic, _ in committed}))
    except (KafkaError, ProtocolError) as error:
        return dict.fromkeys(committed, _as_kafka_error(error))
    by_leader = _places(metadata, committed, lags)
    answers = await asyncio.gather(
        *(_of_leader(client, leader, places) for leader, places in by_leader.items())
    )
    for answer in answers:
        for partition, timestamp in answer.items():
            lags[partition] = _age(timestamp, now_ms)
    return {partition: lags[partition] for partition in committed}


Timestamp = int | KafkaError | None
"""The timestamp of the first unread record in milliseconds, None at the end of the log, or an error."""


def _age(timestamp: Timestamp, now_ms: int) -> Lag:
    if timestamp is None:
        return 0.0
    if isinstance(timestamp, KafkaError):
        return timestamp
    if timestamp == NO_TIMESTAMP:
        return None
    return max(now_ms - timestamp, 0) / 1000


def _places(
    metadata: MetadataResponse, committed: Mapping[TopicPartition, int], lags: dict[TopicPartition, Lag]
) -> dict[int, list[RecordSearch]]:
    """Groups the searched offsets ("places") by the leader of the partition. A partition without a leader gets an error
    in `found`.
    """
    topics = {topic.name: topic for topic in metadata.topics}
    by_leader: dict[int, list[RecordSearch]] = {}
    for (name, number), offset in committed.items():
        topic = topics.get(name)
        error = error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code)
        entry = (
            next((partition for partition in topic.partitions if partition.partition_index == number), None)
            if topic
            else None
        )
        if error is not None or entry is None or topic is None:
            lags[TopicPartition(name, number)] = error or error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif entry.leader_id < 0:
            lags[TopicPartition(name, number)] = error_for(ErrorCode.LEADER_NOT_AVAILABLE)
        else:
            place = RecordSearch(TopicPartition(name, number), topic.topic_id, max(offset, 0))
            by_leader.setdefault(entry.leader_id, []).append(place)
    return by_leader


async def _of_leader(
    client: Client, leader: int, places: list[RecordSearch]
) -> dict[TopicPartition, Timestamp]:
    """Returns the timestamp of the first record at or after each searched offset."""
    timestamps: dict[TopicPartition, Timestamp] = {}
    left = places
    moved: set[TopicPartition] = set()
    while left:
        try:
            answers = await _fetched(client, leader, left)
        except (KafkaError, ProtocolError) as error:
            return timestamps | dict.fromkeys((place.partition for place in left), _as_kafka_error(error))
        again: list[RecordSearch] = []
        out_of_range: list[RecordSearch] = []
        for place in left:
            answer = answers.get(place.partition)
            if answer is not None and answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                if place.partition in moved:
                    timestamps[place.partition] = error_for(answer.error_code)
                else:
                    out_of_range.append(place)
                continue
            step = _step(place, answer, is_first=place is left[0])
            if isinstance(step, RecordSearch):
                again.append(step)
            else:
                timestamps[place.partition] = step
        moved.update(place.partition for place in out_of_range)
        left = again + await _into_range(client, out_of_range, timestamps)
    return timestamps


async def _fetched(
    client: Client, leader: int, places: list[RecordSearch]
) -> dict[TopicPartition, PartitionData]:
    from kcli.client.records.fetch import FetchLimits, fetch_request, fetched_partitions, topic_names
    from kcli.client.records.fetch_plan import FetchPosition, without_session

    positions = [(place.partition, FetchPosition(place.topic_id, place.offset)) for place in places]
    limits = FetchLimits(
        max_wait_ms=0, min_bytes=0, max_bytes=RESPONSE_MAX_BYTES, partition_max_bytes=PARTITION_MAX_BYTES
    )
    response = await client.send(fetch_request(without_session(positions), limits), ApiKey.FETCH, to=leader)
    return fetched_partitions(response, topic_names(positions))


def _step(place: RecordSearch, answer: PartitionData | None, *, is_first: bool) -> RecordSearch | Timestamp:
    """Returns the result of one answer: the record's timestamp, None at the log end, or the next offset to request."""
    if answer is None:
        return error_for(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The broker left {place.partition} out of its answer"
        )
    error = error_of(answer.error_code)
    if error is not None:
        return error
    if answer.high_watermark <= place.offset:
        return None
    records = answer.records or b""
    try:
        offset = place.offset
        for position, header in iter_batches(records):
            offset = max(header.next_offset, offset)
            if header.last_offset < place.offset or header.is_control:
                continue
            record = _first_from(records, position, place.offset)
            if record is not None:
                return header.max_timestamp_ms if header.is_log_append_time else record.timestamp_ms
    except (KafkaError, StorageError) as broken:
        return _as_kafka_error(broken)
    if offset > place.offset:
        return replace(place, offset=offset)
    # For the first partition, the broker sends a whole batch if one exists. So if the answer has no record, compaction
    # has removed all records up to the end.
    return None if is_first else place


def _first_from(records: bytes, position: int, offset: int) -> Record | None:
    return next((record for record in read_records(records, position) if record.offset >= offset), None)


async def _into_range(
    client: Client, places: list[RecordSearch], timestamps: dict[TopicPartition, Timestamp]
) -> list[RecordSearch]:
    """Replaces offsets before the log start by the log start offset. For offsets beyond the log end, stores None in
    `found`.
    """
    if not places:
        return []
    starts = await list_offsets(client, {place.partition: OffsetSpec.EARLIEST for place in places})
    inside: list[RecordSearch] = []
    for place in places:
        start = starts[place.partition]
        if not isinstance(start, OffsetAt):
            timestamps[place.partition] = start
        elif start.offset <= place.offset:
            timestamps[place.partition] = None
        else:
            inside.append(replace(place, offset=start.offset))
    return inside


def _as_kafka_error(error: Exception) -> KafkaError:
    return error if isinstance(error, KafkaError) else KafkaError(str(error))
