"""The periodic jobs of a node: retention, checkpoints, flushes, expiry. Most intervals are in the configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.errors import KcliError
from kcli.runtime.clock import Clock
from kcli.runtime.turns import Turn
from kcli.storage.store.store import LogStore

_log = logging.getLogger("kcli.server.Scheduler")

# A job with an interval of more than ten years is disabled. For example, Kafka's default for some intervals is
# Long.MAX_VALUE.
NEVER_MS = 10 * 365 * 86_400_000
# The interval at which the broker removes files whose deletion delay is over.
DELETION_INTERVAL_MS = 1_000
# A log takes about 4 µs if nothing is to be deleted.
LOG_COST = 5


@dataclass(frozen=True, slots=True)
class PeriodicJob:
    """A job that is repeated. A `blocking` job waits for a disk, so it runs in a thread. Other jobs run on the event
    loop. If `work` of such a job returns steps, the loop serves clients between two steps.

    `prepare` runs in a thread before each run of the work.

    If `is_due` returns False, the job does nothing and waits for another interval, so that an idle node uses less CPU.

    `first_ms` is the longest time between the start of the node and the first run of the job.
    """

    name: str
    interval_ms: int
    work: Callable[[], object]
    blocking: bool = False
    first_ms: int = NEVER_MS
    prepare: Callable[[], object] | None = None
    is_due: Callable[[], bool] | None = None


class Housekeeping:
    """Runs the jobs from `start` to `stop`. If a job fails, the error is logged, and the job runs again after its
    interval."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._running: asyncio.Task[None] | None = None

    def start(self, jobs: Iterable[PeriodicJob]) -> None:
        enabled = [job for job in jobs if 0 < job.interval_ms < NEVER_MS]
        self._running = asyncio.get_running_loop().create_task(self._run(enabled), name="housekeeping")

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self, jobs: list[PeriodicJob]) -> None:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(self._repeat(job), name=job.name)

    async def _repeat(self, job: PeriodicJob) -> None:
        loop = asyncio.get_running_loop()
        wait_ms = min(job.first_ms, job.interval_ms)
        while True:
            await asyncio.sleep(wait_ms / 1000)
            wait_ms = job.interval_ms
            if job.is_due is not None and not job.is_due():
                continue
            try:
                if job.prepare is not None:
                    await loop.run_in_executor(self._executor, job.prepare)
                if job.blocking:
                    await loop.run_in_executor(self._executor, job.work)
                elif isinstance(steps := job.work(), Generator):
                    pace = Turn()
                    for _ in steps:
                        await pace(LOG_COST)
            except KcliError as error:
                _log.error("%s failed: %s", job.name, error)
            except Exception:
                _log.exception("%s failed", job.name)


def log_jobs(logs: LogStore, config: BrokerConfig, clock: Clock) -> list[PeriodicJob]:
    """The jobs of a node's log directories."""
    every, now_ms = config.integer, clock.now_ms
    return [
        PeriodicJob(
            "log retention",
            every("log.retention.check.interval.ms"),
            lambda: logs.maintenance.delete_old_segments(now_ms()),
            first_ms=every("log.initial.task.delay.ms"),
        ),
        PeriodicJob(
            "log flusher",
            every("log.flush.scheduler.interval.ms"),
            lambda: logs.maintenance.flush_due(now_ms()),
            blocking=True,
        ),
        PeriodicJob(
            "recovery point checkpoint",
            every("log.flush.offset.checkpoint.interval.ms"),
            logs.maintenance.checkpoint_recovery_points,
            blocking=True,
        ),
        PeriodicJob(
            "log start offset checkpoint",
            every("log.flush.start.offset.checkpoint.interval.ms"),
            logs.maintenance.checkpoint_log_start_offsets,
            blocking=True,
        ),
        PeriodicJob(
            "high watermark checkpoint",
            every("replica.high.watermark.checkpoint.interval.ms"),
            logs.maintenance.checkpoint_high_watermarks,
            blocking=True,
        ),
        PeriodicJob(
            "producer id expiry",
            every("producer.id.expiration.check.interval.ms"),
            lambda: logs.maintenance.remove_expired_producers(now_ms()),
        ),
        PeriodicJob(
            "file deletion",
            DELETION_INTERVAL_MS,
            logs.maintenance.delete_due_files,
            blocking=True,
            is_due=logs.maintenance.has_due_files,
        ),
    ]
