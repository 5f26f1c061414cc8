"""The topics to which the members of a classic group subscribe, from the members' metadata.

Members of protocol type `consumer` send a ConsumerProtocolSubscription. The coordinator needs its topic names,
because the offsets of a subscribed topic do not expire (KIP-211), and clients may not delete them (KIP-496).
"""

from __future__ import annotations

from collections.abc import Iterable

from kcli.errors import CorruptRecordError
from kcli.protocol.records.consumer_protocol import subscribed_topics

NAMES_MAX_BYTES = 131_072
"""The most bytes of subscriptions that are decoded for one generation of a group, because the coordinator decodes them
without a pause. It takes at most 50 ms. The names of 4,000 topics fit. The same names in several members count once."""

_VERSION_BYTES, _COUNT_BYTES, _LENGTH_BYTES = 2, 4, 2
_REMEMBERED_MAX = 8
"""The most lists of names with which the next subscription is compared."""


def union_of_topics(subscriptions: Iterable[bytes]) -> dict[str, None] | None:
    """The topics to which any member subscribes, as an ordered set. None if any subscription is invalid, or if the
    subscriptions are too long. The group then counts as subscribed to every topic, as in Kafka."""
    union: dict[str, None] = {}
    seen: list[bytes] = []
    left = NAMES_MAX_BYTES
    for subscription in subscriptions:
        # Most members list the same topics, but their user data differs.
        if any(subscription.startswith(names, _VERSION_BYTES) for names in seen):
            continue
        begin = left
        try:
            for topic in subscribed_topics(subscription):
                union[topic] = None
                left -= _LENGTH_BYTES + len(topic.encode())
                if left < 0:
                    return None
        except CorruptRecordError:
            return None
        if len(seen) < _REMEMBERED_MAX:
            names_end = _VERSION_BYTES + _COUNT_BYTES + begin - left
            seen.append(subscription[_VERSION_BYTES:names_end])
    return union
