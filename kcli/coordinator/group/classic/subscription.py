"""Reads the topics to which a member subscribes from the member's metadata.

Members of protocol type `consumer` send a ConsumerProtocolSubscription: an int16 version, an array of topic names, and
fields that this module does not need. The coordinator needs the topic names for two rules. The offsets of a subscribed
topic do not expire (KIP-211). Clients may not delete these offsets (KIP-496).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

_INT16 = struct.Struct(">h")
_HEAD = struct.Struct(">hi")


def subscribed_topics(subscription: bytes) -> tuple[str, ...] | None:
    """The topic names of one subscription. None if the bytes are not a valid subscription."""
    try:
        version, count = _HEAD.unpack_from(subscription)
        if version < 0 or count < 0 or count * 2 > len(subscription):
            return None
        position = _HEAD.size
        topics = []
        for _ in range(count):
            (length,) = _INT16.unpack_from(subscription, position)
            start = position + 2
            position = start + length
            if length < 0 or position > len(subscription):
                return None
            topics.append(subscription[start:position].decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return tuple(topics)


def union_of_topics(subscriptions: Iterable[bytes]) -> dict[str, None] | None:
    """The topics to which any member subscribes, as an ordered set. None if any subscription is invalid."""
    union: dict[str, None] = {}
    for subscription in subscriptions:
        topics = subscribed_topics(subscription)
        if topics is None:
            return None
        union.update(dict.fromkeys(topics))
    return union
