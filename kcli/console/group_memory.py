"""Stores the commits and the lag of the last hour of the groups that a user looks at.

Each session has its own memory, because another user may not be allowed to see the same groups. For an hour
after the user has opened the page of a group, the console takes a sample of this group every 10 seconds. So
the graph has no gap if the user closes the page and opens it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kcli.client.lag_watch import LagWatch
from kcli.errors import KcliError
from kcli.lag.group_lag import GroupLag

WATCHED_GROUPS_MAX = 10
"""The most groups that are sampled in the background. The group that was shown longest ago is dropped first."""

SAMPLE_SECONDS = 10.0
KEPT_SECONDS = 3600.0
POINTS_MAX = 400
"""The most points of a graph: an hour of samples."""

TOPICS_MAX = 5
"""The most topics that have their own line in the graph. Each point has the topics with the largest lag at its time."""

WINDOWS_MAX = 20_000
"""The most pairs of group and partition whose commits one session stores: about 20 MB."""


@dataclass(frozen=True, slots=True)
class LagPoint:
    """The lag of a group at a time, or None if the lag of a partition was unknown. `topics` has the lag of the topics
    with the largest lag."""

    time_ms: int
    lag: int | None
    lag_seconds: float | None
    topics: dict[str, int]


@dataclass(slots=True)
class _Watched:
    shown_at: float
    points: deque[LagPoint] = field(default_factory=lambda: deque(maxlen=POINTS_MAX))


class GroupMemory:
    """The commits and the lag that one session has stored. `sample` reads the lag of a group and calls `remember`."""

    def __init__(self, sample: Callable[[str], Awaitable[object]]) -> None:
        self.watch = LagWatch(windows_max=WINDOWS_MAX)
        self._sample = sample
        self._groups: OrderedDict[str, _Watched] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def shown(self, group_id: str) -> None:
        """Begins or continues to take samples of a group, because a page shows the group."""
        watched = self._groups.setdefault(group_id, _Watched(0.0))
        watched.shown_at = time.monotonic()
        self._groups.move_to_end(group_id)
        while len(self._groups) > WATCHED_GROUPS_MAX:
            self._groups.popitem(last=False)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="lag of watched groups")

    def remember(self, lag: GroupLag) -> None:
        """Adds a point to the graph of a group, if the console takes samples of this group."""
        watched = self._groups.get(lag.group_id)
        if watched is None:
            return
        if lag.unknown_partitions:
            # A sum without a partition would look as if the group had caught up, so it leaves a gap in the graph.
            watched.points.append(LagPoint(int(time.time() * 1000), None, None, {}))
            return
        largest = sorted(lag.topics.items(), key=lambda item: (-item[1].lag, item[0]))[:TOPICS_MAX]
        topics = {topic: sums.lag for topic, sums in largest}
        watched.points.append(LagPoint(int(time.time() * 1000), lag.lag, lag.lag_seconds, topics))

    def points(self, group_id: str) -> list[LagPoint]:
        watched = self._groups.get(group_id)
        return [] if watched is None else list(watched.points)

    def forget(self, group_id: str) -> None:
        """Forgets a group that was deleted, or whose offsets were reset."""
        self._groups.pop(group_id, None)
        self.watch.forget([group_id])

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            for group_id, watched in list(self._groups.items()):
                if time.monotonic() - watched.shown_at > KEPT_SECONDS:
                    self._groups.pop(group_id, None)
                    continue
                # A cluster that does not answer leaves a gap in the graph. The page shows the error itself.
                with contextlib.suppress(KcliError, OSError, TimeoutError):
                    await self._sample(group_id)
