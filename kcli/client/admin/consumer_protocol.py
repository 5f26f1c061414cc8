"""The bytes that classic consumers exchange through the group coordinator (ConsumerProtocolAssignment).

The format is: int16 version, then an array of (topic, array of partition), then nullable user data. Newer versions only
add fields at the end, so all versions are read as version 0.
"""

from __future__ import annotations

import struct

from kcli.errors import ProtocolError
from kcli.model.topic_partition import TopicPartition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def decode_assignment(raw: bytes) -> tuple[TopicPartition, ...]:
    """Returns the partitions of an assignment. Empty bytes have no partitions.

    Raises ProtocolError if the bytes are invalid.
    """
    if not raw:
        return ()
    partitions: list[TopicPartition] = []
    try:
        at = _INT16.size
        (topics,) = _INT32.unpack_from(raw, at)
        at += _INT32.size
        for _ in range(topics):
            (length,) = _INT16.unpack_from(raw, at)
            at += _INT16.size
            topic = raw[at : at + length].decode("utf-8")
            at += length
            (count,) = _INT32.unpack_from(raw, at)
            at += _INT32.size
            if count > len(raw):
                raise ProtocolError(f"an assignment of {len(raw)} bytes announces {count} partitions")
            partitions += [
                TopicPartition(topic, number) for number in struct.unpack_from(f">{count}i", raw, at)
            ]
            at += count * _INT32.size
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"an assignment of {len(raw)} bytes is malformed: {error}") from error
    return tuple(partitions)
