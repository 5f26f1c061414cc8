"""The subscriptions and assignments that consumers of a classic group put into JoinGroup and SyncGroup as bytes.

Their form is `int16 version | fields`. No version is flexible. New fields are only added at the end (KIP-415, KIP-792,
KIP-881). So a reader treats an unknown newer version as the newest version that it knows.
"""

from __future__ import annotations

import struct
from typing import Annotated, TypeVar

from kcli.errors import CorruptRecordError
from kcli.protocol.fields import Int32, since
from kcli.protocol.records.schema import NEVER_FLEXIBLE, decode, encode, record, schema_of

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


def _decode(cls: type[T], embedded: bytes) -> tuple[T, int]:
    if len(embedded) < 2:
        raise CorruptRecordError(f"An embedded {cls.__name__} of {len(embedded)} bytes has no version")
    version = min(_INT16.unpack_from(embedded)[0], schema_of(cls).max_version)
    if version < 0:
        raise CorruptRecordError(f"An embedded {cls.__name__} of version {version}")
    return decode(cls, version, embedded, 2, exact=False), version
