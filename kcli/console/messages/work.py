"""The worker threads of a console, and the limit on simultaneous reading requests. All sessions share the threads and
the limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from kcli.console.messages.limits import FETCHES_AT_ONCE, READS_AT_ONCE, WORKERS
from kcli.errors import KcliError

T = TypeVar("T")


class TooManyReads(KcliError):
    """Raised if too many reading requests run already."""


class Workers:
    """Runs heavy functions in a few threads, so that the event loop serves other pages meanwhile."""

    def __init__(self, threads: int = WORKERS, places: int = READS_AT_ONCE) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="console-records")
        self._places = self._free = places

    async def run(self, work: Callable[[], T]) -> T:
        """Runs a function in a thread, and returns its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Counts a reading request while it runs. Raises TooManyReads if too many reading requests run already."""
        if self._free <= 0:
            raise TooManyReads(
                f"the console already reads topics for {self._places} pages: close one of them, or try again"
            )
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1

    async def close(self) -> None:
        """Ends the threads after their present work."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def few_at_once(items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Calls `work` with each item, FETCHES_AT_ONCE at a time. Raises the first error."""
    left = iter(items)

    async def one_by_one() -> None:
        for item in left:
            await work(item)

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(FETCHES_AT_ONCE):
                tasks.create_task(one_by_one())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
