"""The subscriptions and assignments that consumers of a classic group put into JoinGroup and SyncGroup as bytes.

Their form is `int16 version | fields`. No version is flexible. New fields are only added at the end (KIP-415, KIP-792,
KIP-881). So a reader treats an unknown newer version as the newest version that it knows.

A client may put any bytes in the place of a subscription or an assignment, and the coordinator stores and returns these
bytes unread. All code that does read them uses this module. `assigned_topics` and `subscribed_topics` decode one topic
at a time, so a caller that serves other clients can pause. The other functions decode everything at once, and a
coordinator calls them only for at most EMBEDDED_MAX_BYTES.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Annotated, TypeVar, cast

from kcli.errors import CorruptRecordError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.fields import Int32, since
from kcli.protocol.records.schema import NEVER_FLEXIBLE, decode, decode_elements, encode, record, schema_of

EMBEDDED_MAX_BYTES = 262_144
"""The most bytes of a subscription or an assignment that a broker decodes. This is enough for 60,000 partitions of one
member, and the decoding takes less than 50 ms."""

T = TypeVar("T")

_INT16 = struct.Struct(">h")


@record(flexible_since=NEVER_FLEXIBLE)
class TopicPartitions:
    topic: str = ""
    partitions: tuple[Int32, ...] = ()


@record(versions=(0, 3), flexible_since=NEVER_FLEXIBLE)
class ConsumerProtocolSubscription:
    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned_partitions: Annotated[tuple[TopicPartitions, ...], since(1, ignorable=True)] = ()
    generation_id: Annotated[Int32, since(2, ignorable=True)] = -1
    rack_id: Annotated[str | None, since(3, ignorable=True)] = None


@record(versions=(0, 3), flexible_since=NEVER_FLEXIBLE)
class ConsumerProtocolAssignment:
    assigned_partitions: tuple[TopicPartitions, ...] = ()
    user_data: bytes | None = None


def decode_subscription(embedded: bytes) -> tuple[ConsumerProtocolSubscription, int]:
    """Decodes a subscription. Returns the subscription and the version whose fields were read. Raises
    CorruptRecordError for invalid bytes."""
    return _decode(ConsumerProtocolSubscription, embedded)


def decode_assignment(embedded: bytes) -> tuple[ConsumerProtocolAssignment, int]:
    return _decode(ConsumerProtocolAssignment, embedded)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = 3) -> bytes:
    return _INT16.pack(version) + encode(subscription, version)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = 3) -> bytes:
    return _INT16.pack(version) + encode(assignment, version)


def assigned_topics(embedded: bytes) -> Iterator[TopicPartitions]:
    """Decodes the topics of an assignment, one at a time. Empty bytes have no topics: they are the assignment of a
    member that has none yet. Raises CorruptRecordError for invalid bytes, which may be after the first topics."""
    if not embedded:
        return iter(())
    version = _version(ConsumerProtocolAssignment, embedded)
    return cast(
        Iterator[TopicPartitions], decode_elements(ConsumerProtocolAssignment, version, embedded, _INT16.size)
    )


def assigned_partitions(embedded: bytes) -> tuple[TopicPartition, ...]:
    """Decodes the partitions of an assignment. Raises CorruptRecordError like `assigned_topics`."""
    return tuple(
        TopicPartition(topic.topic, number)
        for topic in assigned_topics(embedded)
        for number in topic.partitions
    )


def subscribed_topics(embedded: bytes) -> Iterator[str]:
    """Decodes the topics of a subscription, one at a time. As in Kafka's coordinator, only the fields of version 0 are
    read. Raises CorruptRecordError for invalid bytes, which may be after the first topics."""
    _version(ConsumerProtocolSubscription, embedded)
    return cast(Iterator[str], decode_elements(ConsumerProtocolSubscription, 0, embedded, _INT16.size))


def _decode(cls: type[T], embedded: bytes) -> tuple[T, int]:
    version = _version(cls, embedded)
    return decode(cls, version, embedded, _INT16.size, exact=False), version


def _version(cls: type, embedded: bytes) -> int:
    """Reads the version before the fields. Returns the newest known version for a newer version."""
    if len(embedded) < _INT16.size:
        raise CorruptRecordError(f"An embedded {cls.__name__} of {len(embedded)} bytes has no version")
    version: int = _INT16.unpack_from(embedded)[0]
    if version < 0:
        raise CorruptRecordError(f"An embedded {cls.__name__} of version {version}")
    return min(version, schema_of(cls).max_version)


def check_size(embedded: bytes) -> None:
    """Raises CorruptRecordError if a broker must not decode these bytes at once."""
    if len(embedded) > EMBEDDED_MAX_BYTES:
        raise CorruptRecordError(
            f"{len(embedded)} bytes of a consumer, and at most {EMBEDDED_MAX_BYTES} are read"
        )
