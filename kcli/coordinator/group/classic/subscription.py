"""The one thing a coordinator reads in a member's opaque metadata: the topics it subscribes.

Members of protocol type `consumer` send a ConsumerProtocolSubscription: an int16 version, then an array of topic names;
what follows differs by version and is of no concern here. The coordinator needs the names for two rules only: offsets
of a topic that someone subscribes neither expire nor may be deleted (KIP-211, KIP-496).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

_INT16 = struct.Struct(">h")
_HEAD = struct.Struct(">hi")


def subscribed_topics(subscription: bytes) -> tuple[str, ...] | None:
    """The topic names of one subscription; None when the bytes are not one."""
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
    """The topics that any member subscribes, as an ordered set; None as soon as one subscription cannot be read."""
    union: dict[str, None] = {}
    for subscription in subscriptions:
        topics = subscribed_topics(subscription)
        if topics is None:
            return None
        union.update(dict.fromkeys(topics))
    return union
