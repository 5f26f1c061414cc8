"""Offsets of sink connectors in REST requests, and in their consumer groups (KIP-875)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CommittedOffset
from kcli.connect.errors import BadRequest
from kcli.connect.model import SourceOffsets
from kcli.errors import ErrorCode, KafkaError
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_text import parse_long
from kcli.model.topic_partition import TopicPartition

TOPIC_KEY, PARTITION_KEY, OFFSET_KEY = "kafka_topic", "kafka_partition", "kafka_offset"

GroupOffsets = dict[TopicPartition, int | None]


def to_request(offsets: Mapping[TopicPartition, int]) -> SourceOffsets:
    """The form of REST answers."""
    return [
        ({PARTITION_KEY: partition.partition, TOPIC_KEY: partition.topic}, {OFFSET_KEY: offset})
        for partition, offset in offsets.items()
    ]


def from_request(offsets: SourceOffsets) -> GroupOffsets:
    """Reads the offsets of a request. Raises BadRequest with Java's text."""
    parsed: GroupOffsets = {}
    for partition, offset in offsets:
        if partition is None:
            raise BadRequest("The partition for a sink connector offset cannot be null or missing")
        if TOPIC_KEY not in partition or PARTITION_KEY not in partition:
            raise BadRequest(
                f"The partition for a sink connector offset must contain the keys '{TOPIC_KEY}' and '{PARTITION_KEY}'"
            )
        topic = partition[TOPIC_KEY]
        if topic is None:
            raise BadRequest("Kafka topic names must be valid strings and may not be null")
        number = partition[PARTITION_KEY]
        if number is None:
            raise BadRequest("Kafka partitions must be valid numbers and may not be null")
        place = TopicPartition(_text(topic), _number(number, "partition"))
        parsed[place] = None if offset is None else _offset(offset)
    return parsed


def _offset(offset: Mapping[str, object]) -> int:
    if OFFSET_KEY not in offset:
        raise BadRequest(
            f"The offset for a sink connector should either be null or contain the key '{OFFSET_KEY}'"
        )
    return _number(offset[OFFSET_KEY], "offset")


def _number(value: object, noun: str) -> int:
    try:
        return parse_long(_text(value))
    except ValueError:
        raise BadRequest(
            f"Failed to parse the following Kafka {noun} value in the provided offsets: '{_text(value)}'. "
            f"{noun.capitalize()} values for sink connectors need to be integers."
        ) from None


def _text(value: object) -> str:
    """The text of a JSON value, as Java's `String.valueOf` makes it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)


async def group_offsets(client: AdminClient, group: str) -> dict[TopicPartition, int]:
    """The committed offsets of a group. A group that does not exist has none."""
    committed = await client.list_group_offsets(group)
    offsets = {}
    for partition, place in committed.items():
        if isinstance(place, KafkaError):
            raise place
        if place is not None:
            offsets[partition] = place.offset
    return offsets


async def alter_group(client: AdminClient, connector: str, group: str, offsets: GroupOffsets) -> None:
    """Sets and deletes offsets of a group. Raises ConnectException."""
    changes = {
        partition: CommittedOffset(offset=offset)
        for partition, offset in offsets.items()
        if offset is not None
    }
    deletions = [partition for partition, offset in offsets.items() if offset is None]
    if any(place.offset < 0 for place in changes.values()):
        raise ConnectException(f"Failed to modify offsets for sink connector {connector}")
    if changes:
        results = await client.alter_group_offsets(group, changes)
        _check(f"Failed to alter consumer group offsets for connector {connector}", results.values())
    if deletions:
        results = await client.delete_group_offsets(group, deletions)
        _check(f"Failed to delete consumer group offsets for connector {connector}", results.values())


async def delete_group(client: AdminClient, connector: str, group: str) -> None:
    """Deletes a group. Raises ConnectException."""
    results = await client.delete_groups([group])
    _check(f"Failed to delete consumer group for connector {connector}", results.values())


_IN_USE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NON_EMPTY_GROUP)
"""Errors of a group that still has members."""


def _check(failure: str, results: Iterable[KafkaError | None]) -> None:
    for error in results:
        if error is None or error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            continue
        if error.code in _IN_USE:
            failure += (
                " either because its tasks haven't stopped completely yet or the connector was resumed before the "
                "request to modify its offsets could be successfully completed. If the connector is in a stopped "
                "state, this operation can be safely retried. If it doesn't eventually succeed, the Connect cluster "
                "may need to be restarted to get rid of the zombie sink tasks."
            )
        raise ConnectException(failure) from error
