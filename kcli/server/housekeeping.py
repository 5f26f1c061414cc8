"""What a broker does by the clock: retention, checkpoints, flushes, expiry. Each job has its interval in the config."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from kcli.errors import KcliError

_log = logging.getLogger("kcli.server.Scheduler")

# A job that is due in more than ten years is one that is switched off (Kafka's default is Long.MAX_VALUE).
NEVER_MS = 10 * 365 * 86_400_000


@dataclass(frozen=True, slots=True)
class Job:
    """`blocking` work waits for a disk and runs in a thread; the rest runs on the event loop.

    `first_ms`: a long interval need not pass before the first turn after a start.
    """

    name: str
    interval_ms: int
    work: Callable[[], object]
    blocking: bool = False
    first_ms: int = NEVER_MS


class Housekeeping:
    """Runs the jobs until it is cancelled. A job that fails is logged and comes again at its next turn."""

    def __init__(self, jobs: Sequence[Job], executor: Executor) -> None:
        self._jobs = [job for job in jobs if 0 < job.interval_ms < NEVER_MS]
        self._executor = executor

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for job in self._jobs:
                group.create_task(self._repeat(job), name=job.name)

    async def _repeat(self, job: Job) -> None:
        loop = asyncio.get_running_loop()
        wait_ms = min(job.first_ms, job.interval_ms)
        while True:
            await asyncio.sleep(wait_ms / 1000)
            wait_ms = job.interval_ms
            try:
                if job.blocking:
                    await loop.run_in_executor(self._executor, job.work)
                else:
                    job.work()
            except KcliError as error:
                _log.error("%s failed: %s", job.name, error)
            except Exception:
                _log.exception("%s failed", job.name)
