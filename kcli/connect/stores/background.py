"""Writes records in the background, in their order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kcli.connect.decisions.json_values import Entry
from kcli.errors import KafkaError, KcliError

BATCH_MAX = 500
"""Records of one write, so that a write takes at most some tens of milliseconds."""

QUEUE_MAX = 10_000
"""Records that may wait. If more wait, only the last record of each key stays, and there are few keys."""

FLUSH_TIMEOUT_S = 30
"""The time after which a flush gives up, because the cluster does not answer."""

_log = logging.getLogger("kcli.connect.statuses")


@dataclass(frozen=True, slots=True)
class _Item:
    entry: Entry
    is_valid: Callable[[], bool] | None


class BackgroundWriter:
    """A queue of records, and the task that writes them. A write is repeated after an error that may pass.

    If a record waits for another attempt, and a later record has the same key, only the later one is written.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Entry]], Awaitable[None]],
        read_to_end: Callable[[], Awaitable[None]],
        retry_s: float,
    ) -> None:
        self._write = write
        self._read_to_end = read_to_end
        self._retry_s = retry_s
        self._items: deque[_Item | asyncio.Future[None]] = deque()
        """Records, and the flushes that wait for the records before them."""
        self._has_items = asyncio.Event()
        self._is_writing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stops without writing what is left in the queue."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def send(self, entry: Entry, is_valid: Callable[[], bool] | None = None) -> None:
        """`is_valid` is called when all records that others have written are read."""
        self._items.append(_Item(entry, is_valid))
        if len(self._items) > QUEUE_MAX:
            self._drop_replaced()
        self._has_items.set()

    async def flush(self) -> None:
        """Returns when the records that were sent before are written, or after FLUSH_TIMEOUT_S."""
        if not self._items and not self._is_writing:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._items.append(future)
        self._has_items.set()
        try:
            async with asyncio.timeout(FLUSH_TIMEOUT_S):
                await future
        except TimeoutError:
            _log.warning("The statuses were not written within %d s", FLUSH_TIMEOUT_S)

    async def _run(self) -> None:
        while True:
            await self._has_items.wait()
            self._end_flushes()
            batch = self._take_batch()
            if batch and not await self._is_done(batch):
                self._items.extendleft(reversed(batch))
                self._drop_replaced()
                await asyncio.sleep(self._retry_s)
            elif not self._items:
                self._has_items.clear()

    async def _is_done(self, batch: Sequence[_Item]) -> bool:
        """Writes the valid records. Returns False if another attempt may succeed after an error."""
        self._is_writing = True
        try:
            if any(item.is_valid is not None for item in batch):
                # A worker that was frozen has not read yet what the next owners of its work have written.
                await self._read_to_end()
            entries = [item.entry for item in batch if item.is_valid is None or item.is_valid()]
            if entries:
                await self._write(entries)
        except (KcliError, OSError) as error:
            _log.error("Failed to write status update: %s", error)
            return isinstance(error, KcliError) and not (isinstance(error, KafkaError) and error.retriable)
        finally:
            self._is_writing = False
        return True

    def _take_batch(self) -> list[_Item]:
        """Takes the records at the front of the queue, up to the next flush."""
        batch: list[_Item] = []
        while self._items and len(batch) < BATCH_MAX and isinstance(item := self._items[0], _Item):
            batch.append(item)
            self._items.popleft()
        return batch

    def _end_flushes(self) -> None:
        """Ends the flushes at the front of the queue."""
        while self._items and isinstance(future := self._items[0], asyncio.Future):
            self._items.popleft()
            if not future.done():
                future.set_result(None)

    def _drop_replaced(self) -> None:
        last = {item.entry[0]: item for item in self._items if isinstance(item, _Item)}
        self._items = deque(
            item for item in self._items if not isinstance(item, _Item) or last[item.entry[0]] is item
        )
