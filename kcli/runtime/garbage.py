"""Decides when a server runs Python's cyclic garbage collector, and when it gives free memory back to the system. A
server is a node of a cluster, or a worker of Kafka Connect.

Nearly all objects are freed by their reference counts. The collector is needed only for unused objects that refer to
each other in a cycle. To find cycles, the collector examines every object of a generation, about 3,000 objects in a
millisecond. The event loop waits meanwhile. A node with 10,000 topics has half a million objects, so a collection that
examines all objects would block every client for 0.2 s.

Young objects. Python's collector has three generations, and examines an object once in each generation. Then
`freeze_survivors` excludes the object from all later automatic collections ("freezes" it). So an automatic collection
examines only new objects, no matter how large the metadata and the requests are. A frozen object is still freed by its
reference count.

Before clients are served, long pauses do no harm, so the collector examines each object only once, in long collections.

Thorough collections. If a cycle was in use when it was frozen, only a thorough collection finds it later, because such
a collection examines all objects. The number of allocated memory blocks decides when a thorough collection runs. If the
number has grown by a quarter, there may be many such cycles. So a thorough collection runs in the next second in which
no client sends or receives a byte. If the number stays doubled for ten minutes, the collection runs without waiting for
such a second.

Free memory. Large requests and answers leave free memory in the heap of the C library. This memory is also given back
in a second without traffic of clients. Python keeps some of the freed objects for reuse, and each of them can keep a
megabyte of free memory in use. So a short collection follows, which also drops these objects. This collection waits
until the large messages are freed completely, because each freed message adds objects for reuse.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Mapping

THRESHOLDS = (700, 10, 2)
"""The first generation is collected after 700 new objects, as is Python's default. Each later generation is collected
after 10 or 2 collections of the generation before it. So a collection examines at most about 25,000 new objects, which
takes less than 10 ms."""
START_THRESHOLDS = (10_000, 1_000, 1_000)
"""While a node starts, it makes many objects, and nearly all of them stay. With these thresholds, the collector
examines each object only once. With THRESHOLDS, the collections take 0.3 s when a node starts with 20,000
partitions."""
CHECK_SECONDS = 1.0
QUIET_SECONDS = 1.0
"""If no client has sent or received a byte for this time, a pause probably delays no client."""
GROWTH_IF_QUIET = 1.25
"""The growth of the allocated blocks since the last thorough collection that leads to the next one. Python itself also
uses a quarter."""
GROWTH_ALWAYS = 2.0
STEADY = 0.99
"""If the number of blocks is less than this share of the number at the last check, the node is still freeing a large
message."""
GROWN_CHECKS_MAX = 600
"""The number of checks in a row in which the number of blocks must be doubled before a thorough collection runs at any
time. No request lives for ten minutes, so only metadata and leaks can cause such a long growth."""


def freeze_survivors(phase: str, info: Mapping[str, int]) -> None:
    """Excludes all objects from later collections ("freezes" them) after a collection of the oldest generation. This
    call takes the same time for any number of objects."""
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


class GarbagePolicy:
    """The rules by which one process collects garbage and frees memory."""

    def __init__(
        self,
        *,
        allocated_blocks: Callable[[], int] = sys.getallocatedblocks,
        give_back: Callable[[], None] | None = None,
    ) -> None:
        """`give_back` returns free memory to the system. If it is None, `watch` sets the default function."""
        self._allocated_blocks = allocated_blocks
        self._give_back = give_back
        self._blocks = 0
        self._most_blocks = 0
        self._last_blocks = 0
        self._grown_checks = 0

    def prepare(self) -> None:
        """Limits the cost of automatic collections until `start` is called."""
        gc.set_threshold(*START_THRESHOLDS)

    def start(self) -> None:
        """Limits the length of automatic collections until the process ends."""
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(freeze_survivors)
        self._rebase()

    def watch(self, last_active: Callable[[], float]) -> None:
        """Begins the checks. Call `start` first. `last_active` returns the loop's time of the last byte from or
        to a client."""
        from kcli.runtime.heap import Heap  # imports ctypes, which would make the start slower

        self._give_back = self._give_back or Heap().trim_if_changed
        self._check_later(last_active)

    def check(self, idle_seconds: float) -> None:
        """Runs a thorough collection if this is likely to free enough memory, and gives free memory back to the system.
        Called every CHECK_SECONDS.
        """
        blocks = self._allocated_blocks()
        self._most_blocks = max(self._most_blocks, blocks)
        growth = blocks / self._blocks
        self._grown_checks = self._grown_checks + 1 if growth >= GROWTH_ALWAYS else 0
        is_steady, self._last_blocks = blocks >= STEADY * self._last_blocks, blocks
        is_quiet = idle_seconds >= QUIET_SECONDS
        if self._grown_checks >= GROWN_CHECKS_MAX or (is_quiet and growth >= GROWTH_IF_QUIET):
            gc.unfreeze()
            gc.collect()
            self._rebase()
        elif is_quiet and is_steady and self._most_blocks >= GROWTH_IF_QUIET * blocks:
            # Large messages were freed. This collection does not examine frozen objects.
            gc.collect()
            self._most_blocks = blocks
            self._blocks = min(self._blocks, blocks)
        if is_quiet and self._give_back is not None:
            self._give_back()

    def _rebase(self) -> None:
        """Freezes all present objects, and measures growth from now on."""
        gc.freeze()
        gc.collect()  # Examines no object, but decides when Python next collects the oldest generation.
        self._blocks = self._most_blocks = self._allocated_blocks()
        self._grown_checks = 0

    def _check_later(self, last_active: Callable[[], float]) -> None:
        loop = asyncio.get_running_loop()

        def checked() -> None:
            self.check(loop.time() - last_active())
            self._check_later(last_active)

        loop.call_later(CHECK_SECONDS, checked)
