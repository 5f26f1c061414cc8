"""Runs the log cleaner: every `log.cleaner.backoff.ms`, it begins a round of passes, each of which compacts one log.

A pass runs in another process (`cleaner_process`), so that the pass does not slow down the event loop. A thread of the
broker waits for the events of the process and replaces the segments under the log's lock. Changed settings apply from
the next round on. As in Kafka, a change of the cleaner's memory or rate ends the running passes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.errors import StorageError
from kcli.runtime.clock import Clock
from kcli.runtime.disk import SystemDisk
from kcli.server.partitions.cleaner_process import CleanerProcess
from kcli.storage.cleaner.cleaner import CleaningResult, Dirtiest, LogCleaner
from kcli.storage.cleaner.plan import CleanerLimits
from kcli.storage.store.store import LogStore

_log = logging.getLogger("kcli.server.LogCleaner")

# The shortest pause. log.cleaner.backoff.ms may be 0, and rounds without a pause would block the event loop.
MIN_BACKOFF_MS = 10
# The largest offset map in bytes. In Kafka, this size is a Java int.
MAX_DEDUPE_BUFFER_BYTES = (1 << 31) - 1


@dataclass(slots=True, eq=False, weakref_slot=True)
class CleanerCounts:
    """The bytes that completed passes have read and written."""

    io_bytes: int = 0


class LogCleaning:
    """The log cleaner of a broker, unless `log.cleaner.enable` is false. `stop` cancels running passes."""

    def __init__(
        self,
        logs: LogStore,
        clock: Clock,
        config: Callable[[], BrokerConfig],
        *,
        executor: Executor | None = None,
    ) -> None:
        """Makes a cleaner. `config` returns the present configuration. If `executor` is None, the cleaner makes its own
        threads."""
        self._logs = logs
        self._clock = clock
        self._config = config
        self._executor = executor
        self._threads: ThreadPoolExecutor | None = None
        self._thread_count = 0
        self._cleaner = LogCleaner(logs)
        self._processes: set[CleanerProcess] = set()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.last_run_ms = 0  # the start time of the last round; 0 before the first round
        self.last_result: CleaningResult | None = None
        self.last_pass_seconds = 0.0
        self.counts = CleanerCounts()
        self.uncleanable = self._cleaner.uncleanable

    @property
    def dirtiest(self) -> Dirtiest:
        """The result of the last search for a log to clean."""
        return self._cleaner.dirtiest

    @property
    def is_dead(self) -> bool:
        """Whether the task has ended, which must not happen before `stop`."""
        return self._task is not None and self._task.done() and not self._stopping.is_set()

    def start(self) -> None:
        if self._config().boolean("log.cleaner.enable"):
            self._task = asyncio.get_running_loop().create_task(self._run(), name="log cleaner")
        else:
            _log.info(
                "log.cleaner.enable is false: compacted topics, __consumer_offsets among them, only grow"
            )

    def reconfigure(self) -> None:
        """Applies a change of the broker's configuration."""
        if limits_of(self._config()) != self._cleaner.limits:
            for process in list(self._processes):
                process.stop("the cleaner's settings have changed")

    async def stop(self) -> None:
        """Stops the cleaner. Returns when no thread works on a log any more."""
        self._stopping.set()
        for process in list(self._processes):
            process.stop()
        if self._task is not None:
            await self._task
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    async def _run(self) -> None:
        while not await self._is_stopped_after(
            max(self._config().integer("log.cleaner.backoff.ms"), MIN_BACKOFF_MS)
        ):
            try:
                await self.clean_once()
            except Exception:
                _log.exception("A round of the log cleaner failed; the next one starts after the back-off")

    async def _is_stopped_after(self, wait_ms: int) -> bool:
        try:
            async with asyncio.timeout(wait_ms / 1000):
                return await self._stopping.wait()
        except TimeoutError:
            return False

    async def clean_once(self) -> None:
        """Runs one round: runs passes until no log needs a pass."""
        self.last_run_ms = self._clock.now_ms()
        threads = max(self._config().integer("log.cleaner.threads"), 1)
        self._delete_old_segments()
        loop, executor = asyncio.get_running_loop(), self._executor or self._threads_for(threads)
        await asyncio.gather(*(loop.run_in_executor(executor, self._clean) for _ in range(threads)))

    def _threads_for(self, count: int) -> ThreadPoolExecutor:
        if self._threads is None or self._thread_count != count:
            if self._threads is not None:
                self._threads.shutdown(wait=False)
            self._threads, self._thread_count = ThreadPoolExecutor(count, "kcli-log-cleaner"), count
        return self._threads

    def _delete_old_segments(self) -> None:
        """Applies retention to the logs with both compact and delete in cleanup.policy, as Kafka's cleaner does."""
        now_ms = self._clock.now_ms()
        for log in self._logs.all_logs():
            if log.config.compact and log.config.delete and log.directory.error is None:
                try:
                    log.delete_old_segments(now_ms)
                except StorageError as error:
                    _log.error("%s: %s", log.path, error)

    def _clean(self) -> None:
        """Runs passes until no log needs a pass. This method blocks, so call it in a thread."""
        process = CleanerProcess()
        self._processes.add(process)
        # With a simulated disk the pass runs in this process, because another process has no access to that disk.
        run_pass = process.run_pass if isinstance(self._logs.disk, SystemDisk) else None
        try:
            while not self._stopping.is_set():
                self._cleaner.limits = limits_of(self._config())
                began = self._clock.monotonic()
                result = self._cleaner.clean_dirtiest(self._clock.now_ms(), run_pass)
                if result is None:
                    return
                self.last_result = result
                self.last_pass_seconds = self._clock.monotonic() - began
                self.counts.io_bytes += result.bytes_read + result.bytes_after
        finally:
            process.stop()
            self._processes.discard(process)


def limits_of(config: BrokerConfig) -> CleanerLimits:
    """The limits of one thread. The configuration sets memory and rate for all threads together, so each thread gets an
    equal part."""
    threads = max(config.integer("log.cleaner.threads"), 1)
    return CleanerLimits(
        dedupe_buffer_bytes=min(
            config.integer("log.cleaner.dedupe.buffer.size") // threads, MAX_DEDUPE_BUFFER_BYTES
        ),
        load_factor=config.number("log.cleaner.io.buffer.load.factor"),
        io_buffer_bytes=config.integer("log.cleaner.io.buffer.size") // threads,
        bytes_per_second=config.number("log.cleaner.io.max.bytes.per.second") / threads,
    )
