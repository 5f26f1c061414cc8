"""Limits the producer ids that a node remembers.

A client may invent producer ids, because a batch needs no id of the coordinator. Kafka remembers each id for
producer.id.expiration.ms (a day), so one client can fill the memory (KIP-936). kcli counts the ids of all partitions.
Above the limit, a partition that gets new ids forgets the ids that have written longest ago.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Sized

_log = logging.getLogger("kcli.storage.ProducerState")

MAX_PRODUCER_IDS = 1_000_000
"""The most producer ids of a node, which take about 200 MB."""

KEPT_PRODUCER_IDS = 1_000
"""A partition with fewer ids forgets none, so that a flood of ids in other partitions does no harm."""

_ADDITIONS_PER_COUNT = 10_000
"""The new ids between two counts of the ids of all partitions. A count takes a few milliseconds on a large node."""


class ProducerIds:
    """The number of producer ids of a node. May be used in any thread."""

    def __init__(self, most: int = MAX_PRODUCER_IDS) -> None:
        self.most = most
        self._states: weakref.WeakSet[Sized] = weakref.WeakSet()
        self._guard = threading.Lock()
        self._known = 0  # the number at the last count, with the later changes
        self._until_count = _ADDITIONS_PER_COUNT
        self._is_logged = False

    def join(self, state: Sized) -> None:
        """Adds the ids of a partition to the count."""
        with self._guard:
            self._states.add(state)

    def added(self) -> bool:
        """Counts a new id. Returns True if the node has too many."""
        self._known += 1
        self._until_count -= 1
        if self._until_count <= 0 or (self._known > self.most and not self._is_logged):
            self._count()
        if self._known <= self.most:
            return False
        if not self._is_logged:
            self._is_logged = True
            _log.warning(
                "This node remembers %d producer ids, which is the limit. Partitions with new ids forget the ids that "
                "have written longest ago. A client may have invented ids, or may use a new id for each batch.",
                self.most,
            )
        return True

    def forgotten(self) -> None:
        """Counts an id that was forgotten because of the limit."""
        self._known -= 1

    def _count(self) -> None:
        with self._guard:
            self._known = sum(map(len, self._states))
        self._until_count = _ADDITIONS_PER_COUNT
