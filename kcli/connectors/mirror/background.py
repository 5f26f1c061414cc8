"""An event loop in a thread of its own, in which the clients of a connector or a task live."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from kcli.client.admin.admin import AdminClient
from kcli.client.config import client_config

S = TypeVar("S")
T = TypeVar("T")
Job = Callable[[], Awaitable[None]]

_log = logging.getLogger("org.apache.kafka.connect.mirror.Scheduler")

CLOSE_S = 5.0
"""The longest wait for the end of jobs."""
PAUSE_S = 0.1
"""The shortest pause between two runs of a job."""


class Closed(Exception):
    """Raised to a thread whose coroutine was ended by `close`."""


class Background:
    """Runs coroutines for other threads. `close` ends all of them, and closes the clients."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._clients: list[AdminClient] = []
        self._is_closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def client(self, properties: dict[str, str]) -> AdminClient:
        """Makes a client, which connects at its first call. Raises ClientConfigError."""
        client = AdminClient(client_config(properties))
        self._clients.append(client)
        return client

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Runs a coroutine, and returns its result. Raises its error, TimeoutError, or Closed."""

        async def limited() -> T:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                async with asyncio.timeout(timeout_s):
                    return await coroutine
            finally:
                self._tasks.discard(task)

        if self._is_closed:
            coroutine.close()
            raise Closed
        try:
            return asyncio.run_coroutine_threadsafe(limited(), self._loop).result()
        except concurrent.futures.CancelledError:
            raise Closed from None

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Begins a coroutine, which handles its own errors."""

        def begin() -> None:
            task = self._loop.create_task(coroutine)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(begin)

    def call(self, function: Callable[[S], None], argument: S) -> None:
        """Calls a function in the event loop soon. Does nothing after `close`."""
        if not self._is_closed:
            self._loop.call_soon_threadsafe(function, argument)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()

    async def _end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in self._clients:
            await client.close()


class Scheduler:
    """Runs the jobs of a connector one after the other. A job that fails is logged, and runs again at its next time."""

    def __init__(self, background: Background, name: str, timeout_s: float) -> None:
        self._background = background
        self._name = f"Scheduler for {name}"
        self._timeout_s = timeout_s
        self._turn = asyncio.Lock()

    def execute(self, job: Job, description: str) -> None:
        """Runs a job, and waits for its end or for the time limit."""
        try:
            self._background.run(self._run(job, description), self._timeout_s)
        except Closed:
            return
        except TimeoutError:
            _log.error("%s timed out running task: %s", self._name, description)

    def repeat(
        self, job: Job, interval_s: float | None, description: str, *, is_delayed: bool = False
    ) -> None:
        """Runs a job again and again: at once, or with `is_delayed` after the first interval."""
        if interval_s is not None:
            self._background.spawn(self._repeat(job, interval_s, description, is_delayed=is_delayed))

    async def _repeat(self, job: Job, interval_s: float, description: str, *, is_delayed: bool) -> None:
        if is_delayed:
            await asyncio.sleep(interval_s)
        while True:
            started = time.monotonic()
            await self._run(job, description)
            await asyncio.sleep(max(started + interval_s - time.monotonic(), PAUSE_S))

    async def _run(self, job: Job, description: str) -> None:
        async with self._turn:
            started = time.monotonic()
            try:
                await job()
            except Exception:
                _log.error(
                    "%s caught exception in scheduled task: %s", self._name, description, exc_info=True
                )
                return
            _log.info("%s took %d ms", description, (time.monotonic() - started) * 1000)
