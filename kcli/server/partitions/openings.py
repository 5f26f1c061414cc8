"""Opens large batches in a thread, while the event loop serves other clients. To open a batch is to decompress and
check it. Small batches are opened on the event loop, up to INLINE_BYTES in one iteration of the loop.

`Openings` works on a few megabytes of one batch, then on a few megabytes of the next batch, and so on. So a batch of
gigabytes delays another batch only by milliseconds at a time. `AppendQueue` keeps the order of the appends of a
partition. If an append comes while an earlier batch is being opened, the append waits until that batch is appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kcli.storage.log.late_opening import opening_of
from kcli.storage.log.log import AppendResult
from kcli.storage.log.record_validation import InlineBytes
from kcli.storage.log.validation import CheckedBatch, UnopenedBatch

ResultT = TypeVar("ResultT")

THREADS = 1
"""The number of threads that open batches. There is only one, because threads compete with the event loop for Python's
lock and for the processors."""

TURN_STEPS = 4
"""Steps of a turn. A step opens about a megabyte, so a turn takes 5 to 50 milliseconds."""


INLINE_BYTES = 16 << 20
"""The most decompressed bytes of lz4 that are checked in one iteration of the event loop, which takes about five
milliseconds. Of slower codecs, fewer bytes are checked. Later batches are opened in the thread."""


class Openings:
    """Opens the batches of a broker in a thread, which starts with the first batch. `inline` counts the bytes that are
    opened on the event loop."""

    def __init__(self) -> None:
        self.inline = InlineBytes(INLINE_BYTES, lambda renew: asyncio.get_running_loop().call_soon(renew))
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, steps: Generator[None, None, ResultT]) -> ResultT:
        """Runs the steps in the thread and returns their result. Raises the errors of the steps."""
        loop = asyncio.get_running_loop()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, "kcli-open-batches")
        while True:
            # The next turn of this batch waits for the turns of the other batches.
            results = await loop.run_in_executor(self._threads, _run_turn, steps)
            for result in results:
                return result


def _run_turn(steps: Generator[None, None, ResultT]) -> tuple[ResultT, ...]:
    """Runs a limited number of steps. Returns a tuple with the result, or an empty tuple if more steps remain."""
    try:
        for _ in range(TURN_STEPS):
            next(steps)
    except StopIteration as end:
        return (end.value,)
    return ()


class AppendQueue:
    """The appends of a partition that must wait until a batch is opened, in the order of their requests."""

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
        """Opens the batch, and calls `append` after all earlier appends."""
        task = asyncio.get_running_loop().create_task(self._append(batch, append, self._last), name="append")
        self._last = task
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[AppendResult]) -> None:
        """Drops a completed task. The error of a task may have a reference to the batch, and would keep the batch in
        memory.
        """
        if self._last is task:
            self._last = None

    async def _append(
        self,
        batch: CheckedBatch | UnopenedBatch,
        append: Callable[[CheckedBatch], AppendResult],
        before: asyncio.Task[AppendResult] | None,
    ) -> AppendResult:
        try:
            checked = (
                batch if isinstance(batch, CheckedBatch) else await self._openings.run(opening_of(batch))
            )
        finally:
            if before is not None:
                await asyncio.wait((before,))
        return append(checked)
