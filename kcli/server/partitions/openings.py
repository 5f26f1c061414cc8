"""Batches that take long to open are opened in threads, while the event loop serves others.

`Openings` works on all unopened batches in turns, a few megabytes of each at a time. So a batch that holds gigabytes
delays the others by milliseconds. `AppendQueue` keeps the order of the appends of a partition: an append that comes
while a batch is being opened waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kcli.storage.log.log import AppendResult
from kcli.storage.log.validation import CheckedBatch, UnopenedBatch

ResultT = TypeVar("ResultT")

THREADS = 1
"""Threads that open batches: they compete with the event loop for Python's lock and for the processors."""

TURN_STEPS = 4
"""Steps of a turn, each about a megabyte: 5 to 50 milliseconds."""


class Openings:
    """The batches that a broker is opening. The thread starts with the first of them."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, steps: Generator[None, None, ResultT]) -> ResultT:
        """Takes the steps in the thread. Raises what they raise."""
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, "kcli-open-batches")
        while True:
            # Further turns wait behind those of the other batches.
            results = await loop.run_in_executor(self._threads, _take_turn, steps)
            for result in results:
                return result


def _take_turn(steps: Generator[None, None, ResultT]) -> tuple[ResultT, ...]:
    """The result, if it is reached in this turn."""
    try:
        for _ in range(TURN_STEPS):
            next(steps)
    except StopIteration as end:
        return (end.value,)
    return ()


class AppendQueue:
    """The appends of a partition that could not be done at once, in the order in which they came."""

    __slots__ = ("_last", "_openings")

    def __init__(self, openings: Openings) -> None:
        self._openings = openings
        self._last: asyncio.Task[AppendResult] | None = None

    @property
    def is_empty(self) -> bool:
        return self._last is None or self._last.done()

    def add(
        self, batch: CheckedBatch | UnopenedBatch, append: Callable[[CheckedBatch], AppendResult]
    ) -> asyncio.Task[AppendResult]:
        """Opens the batch, and calls `append` after the appends that came before. The batch is copied now."""
        kept = (
            batch._replace(records=bytes(batch.records)) if isinstance(batch, CheckedBatch) else batch.kept()
        )
        task = asyncio.get_running_loop().create_task(self._append(kept, append, self._last), name="append")
        self._last = task
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[AppendResult]) -> None:
        """Drops a task that is done, because its error may hold the batch."""
        if self._last is task:
            self._last = None

    async def _append(
        self,
        batch: CheckedBatch | UnopenedBatch,
        append: Callable[[CheckedBatch], AppendResult],
        before: asyncio.Task[AppendResult] | None,
    ) -> AppendResult:
        try:
            checked = batch if isinstance(batch, CheckedBatch) else await self._openings.run(batch.open())
        finally:
            if before is not None:
                await asyncio.wait((before,))
        return append(checked)
