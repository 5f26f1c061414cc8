"""A cache of the topics that a client may describe. It is valid until an ACL changes, or a topic is created or deleted.

The cache saves CPU time, because clients ask for all topics every few minutes, and a check takes about 3 µs for each
topic.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Container, Mapping

from kcli.metadata.image import Topics
from kcli.model.pace import Pace
from kcli.server.requests.access import DESCRIBE_TOPIC
from kcli.server.requests.rights import EVERY_NAME, Rights

NAMES_MAX = 1_000_000
"""The most names that are kept for all clients together. A name takes about 60 bytes. This is without the text of the
name, because the metadata and the cache share the text."""


class VisibleTopics:
    """The topic names that each client may see. The cache keeps only the clients that asked last."""

    def __init__(self) -> None:
        self._by_permissions: OrderedDict[object, tuple[Mapping[str, uuid.UUID], Container[str]]] = (
            OrderedDict()
        )
        self._sizes: dict[object, int] = {}

    async def of(self, rights: Rights, topics: Topics, pace: Pace) -> Container[str]:
        """Returns the names of all topics that the client may describe."""
        if rights.is_open:
            return EVERY_NAME
        key = rights.permissions_key()
        entry = self._by_permissions.get(key) if key is not None else None
        if entry is not None and entry[0] is topics.ids:
            self._by_permissions.move_to_end(key)
            return entry[1]
        visible = await rights.checked(DESCRIBE_TOPIC, topics.names, pace, traced=True)
        # An ACL may have changed between two slices.
        if key is not None and key == rights.permissions_key():
            self._keep(key, topics, visible)
        return visible

    def _keep(self, key: object, topics: Topics, visible: Container[str]) -> None:
        self._by_permissions[key] = (topics.ids, visible)
        self._by_permissions.move_to_end(key)
        self._sizes[key] = 1 + len(topics.names)
        while sum(self._sizes.values()) > NAMES_MAX and self._by_permissions:
            oldest, _ = self._by_permissions.popitem(last=False)
            del self._sizes[oldest]
