"""The threads for the steps of logins that would block the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

LOGIN_THREADS = 4
"""The number of threads in a node. There are few, because each step uses CPU time of the node for a client that is not
logged in yet."""

T = TypeVar("T")


class LoginThreads:
    """Runs a step when a thread is free. If the client disconnects before, the step does not run."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOGIN_THREADS, "kcli-login")
        self._free = asyncio.Semaphore(LOGIN_THREADS)

    async def run(self, work: Callable[[], T]) -> T:
        """Runs the work in a thread. If the caller is cancelled before the work begins, the work does not run."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()

        def ended(_future: Future[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._free.release)

        try:
            started = self._threads.submit(work)
        except BaseException:
            self._free.release()
            raise
        # If the client disconnects, the thread is still busy until the work has ended.
        started.add_done_callback(ended)
        return await asyncio.wrap_future(started)

    def close(self) -> None:
        """Ends the threads, without waiting for their work."""
        self._threads.shutdown(wait=False, cancel_futures=True)
