"""Makes the truncations of followers' logs durable. A change of leaders may truncate many logs at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kcli.storage.directory import Background
from kcli.storage.log.log import PartitionLog

Waiting = list[tuple[PartitionLog, "asyncio.Future[None]"]]


class CutSyncs:
    """The truncations that are not durable yet. All truncations in one log directory share the writes of its checkpoint
    files.
    """

    def __init__(self, sync: Callable[[Sequence[PartitionLog]], None], background: Background) -> None:
        """Makes an empty queue. `sync` makes the truncations of logs durable, and blocks."""
        self._sync = sync
        self._background = background
        self._waiting: dict[str, Waiting] = {}
        self._running: set[str] = set()

    async def synced(self, log: PartitionLog) -> None:
        """Returns when the truncations of a log are durable, or when the directory of the log has failed."""
        done = asyncio.get_running_loop().create_future()
        path = log.directory.path
        self._waiting.setdefault(path, []).append((log, done))
        self._begin(path)
        await done

    def _begin(self, path: str) -> None:
        if path in self._running or path not in self._waiting:
            return
        self._running.add(path)
        waiting = self._waiting.pop(path)
        loop = asyncio.get_running_loop()

        def work() -> None:
            try:
                self._sync([log for log, _done in waiting])
            finally:
                loop.call_soon_threadsafe(self._ended, path, waiting)

        self._background(work)

    def _ended(self, path: str, waiting: Waiting) -> None:
        self._running.discard(path)
        for _log, done in waiting:
            if not done.done():
                done.set_result(None)
        self._begin(path)
