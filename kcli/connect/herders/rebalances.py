"""Rebalances of the group, as one of its workers carries them out: stop revoked work, catch up, start assigned work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from kcli.connect.herders.assigned_work import AssignedWork
from kcli.connect.herders.group import GroupAssignment
from kcli.connect.herders.leadership import Leadership
from kcli.connect.herders.rebalance_metrics import RebalanceMetrics
from kcli.connect.herders.settings import HerderParts, HerderSettings
from kcli.connect.herders.stage import Stages
from kcli.connect.model import State, TaskId

_log = logging.getLogger("org.apache.kafka.connect.runtime.distributed.DistributedHerder")

CATCH_UP_RETRIES = 5
"""The failures to read the config topic after which a worker gives up its work (Java's BACKOFF_RETRIES)."""


class Rebalances:
    """Implements `WorkListener`. Hands each assignment to the work of this worker, or joins the group again.

    `lock` is the herder's: no request and no start of work runs while work is revoked. `wake` wakes the herder, which
    then calls `complete`. `on_lead` is called when the worker has become the leader and has started its work.
    """

    def __init__(
        self,
        settings: HerderSettings,
        parts: HerderParts,
        leadership: Leadership,
        work: AssignedWork,
        stages: Stages,
        lock: asyncio.Lock,
        *,
        wake: Callable[[], None],
        on_lead: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._membership = parts.membership
        self._configs = parts.configs
        self._statuses = parts.statuses
        self._reports = parts.reports
        self._engine = parts.engine
        self._clock = parts.clock
        self._leadership = leadership
        self._work = work
        self._stages = stages
        self._lock = lock
        self._wake = wake
        self._on_lead = on_lead
        self._has_led = False
        """Whether this worker was the leader when its last assignment was complete."""
        self._metrics = RebalanceMetrics(parts.clock)
        self.is_waiting = True
        """Whether another assignment is to come, so that nothing else is done."""
        self._is_resolved = False
        """Whether the work of the last assignment has been started."""
        self._rejoin_at_ms: int | None = None
        """The end of the delay after which the work of workers that have gone is assigned."""
        self._catch_up_at_ms: int | None = None
        """The time at which the worker joins again, after it could not read the config topic."""
        self._retries = CATCH_UP_RETRIES

    @property
    def is_settled(self) -> bool:
        return self._is_resolved and not self.is_waiting

    @property
    def is_behind(self) -> bool:
        """Whether the worker waits before it tries again to read the config topic."""
        return self._catch_up_at_ms is not None

    @property
    def due_ms(self) -> Sequence[int]:
        """The times at which the herder must call `complete`."""
        return [time for time in (self._rejoin_at_ms, self._catch_up_at_ms) if time is not None]

    @property
    def delay_ms(self) -> int:
        """The time until the work of workers that have gone is assigned to others, or 0."""
        return 0 if self._rejoin_at_ms is None else max(self._rejoin_at_ms - self._clock.now_ms(), 0)

    def beans(self) -> Mapping[str, Mapping[str, float | str]]:
        """The metrics of rebalances, by the name of an MBean."""
        assignment, running = self._leadership.assignment, self._work.running
        return self._metrics.beans(
            protocol="eager" if self._membership.is_eager else self._membership.protocol,
            leader="" if assignment is None else assignment.leader,
            generation=self._reports.generation,
            connectors=len(running.connectors),
            tasks=len(running.tasks),
        )

    # News of the group.

    async def assigned(self, assignment: GroupAssignment, generation: int) -> None:
        _log.info("Joined group at generation %d and got assignment: %s", generation, assignment)
        async with self._lock:
            is_new_leader = self._leadership.follow(assignment)
            self._reports.generation = generation
            delay = assignment.delay_ms
            self._rejoin_at_ms = self._clock.now_ms() + delay if delay > 0 else None
            if delay > 0:
                _log.info("The work of workers that have gone is assigned to others in %g s", delay / 1000)
            self._catch_up_at_ms = None
            self._is_resolved = self.is_waiting = False
            self._metrics.started()
            if self._leadership.is_leader:
                self._forget_deleted()
                if is_new_leader:
                    await self._leadership.claim()
        self._wake()

    def lease(self, end_s: float) -> None:
        self._engine.lease(end_s)

    async def revoked(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> None:
        if not connectors and not tasks:
            return
        async with self._lock:
            self.is_waiting = True
            with self._stages.stage(f"stopping {len(connectors)} connectors and {len(tasks)} tasks"):
                await self._work.give_up(connectors, tasks)
            state = self._configs.state
            for name in {*connectors, *(task.connector for task in tasks)} - state.connectors.keys():
                self._statuses.delete_topics(name)
            with self._stages.stage("flushing updates to the status topic"):
                await self._statuses.flush()
        _log.info("Finished stopping tasks in preparation for rebalance")

    def _forget_deleted(self) -> None:
        """Deletes the statuses of connectors and tasks that were removed before this rebalance."""
        state = self._configs.state
        for name in sorted(self._statuses.connectors()):
            if name not in state.connectors:
                self._reports.deleted(name)
                continue
            count = len(state.tasks.get(name, ()))
            for number in sorted(self._statuses.tasks(name)):
                if number >= count:
                    self._reports.changed(TaskId(name, number), State.DESTROYED)

    # Steps of the herder.

    async def complete(self) -> bool:
        """Starts the work of the last assignment. Returns whether the worker is an up-to-date member of its group."""
        assignment = self._leadership.assignment
        if self.is_waiting or assignment is None:
            return False
        if self._rejoin_at_ms is not None and self._rejoin_at_ms <= self._clock.now_ms():
            self._rejoin_at_ms = None
            return self.rejoin("the scheduled rebalance delay is over")
        if self._is_resolved:
            return True
        if self._catch_up_at_ms is not None:
            if self._clock.now_ms() < self._catch_up_at_ms:
                return False
            self._catch_up_at_ms = None
            return self.rejoin("the worker could not read the config topic to its end")
        is_behind = self._work.state.offset < assignment.offset
        must_read = is_behind or (assignment.has_failed and self._leadership.is_leader)
        if must_read and not await self.catch_up():
            await self._back_off()
            return False
        self._retries = CATCH_UP_RETRIES
        if assignment.has_failed:
            return self.rejoin("the assignment has failed")
        if self._work.state.offset != assignment.offset:
            _log.info(
                "Current config state offset %d does not match group assignment %d. Forcing rebalance.",
                self._work.state.offset,
                assignment.offset,
            )
            return self.rejoin("the configurations of the assignment are not the current ones")
        await self._work.start(assignment)
        self._is_resolved = True
        self._metrics.succeeded()
        if self._leadership.is_leader and not self._has_led:
            self._on_lead()
        self._has_led = self._leadership.is_leader
        if assignment.has_revoked:
            return self.rejoin("the worker has given up work")
        return True

    def rejoin(self, reason: str) -> bool:
        """Joins again. The next assignment wakes the herder. Returns False, as `complete` does."""
        self.is_waiting = True
        self._membership.rejoin(reason)
        return False

    async def catch_up(self) -> bool:
        """Reads to the end of the config topic. Returns whether this was done in time."""
        with self._stages.stage("reading to the end of the config topic"):
            try:
                async with asyncio.timeout(self._settings.sync_timeout_ms / 1000):
                    await self._configs.refresh()
            except TimeoutError:
                _log.warning("Didn't reach end of config log quickly enough")
                return False
        self._work.state = self._configs.state
        return True

    async def _back_off(self) -> None:
        """Sets the time of the next attempt to read the config topic. At last gives up all work.

        The herder's lock is free until then, because a rebalance may revoke work meanwhile.
        """
        delay_ms = 0.0
        if self._membership.is_eager:
            delay_ms = self._settings.unsync_backoff_ms
        elif self._retries > 0:
            delay_ms = self._settings.rebalance_delay_max_ms / 10 / self._retries
            self._retries -= 1
        else:
            running = self._work.running
            _log.info("Giving up the work %s because the worker cannot read the config topic", running)
            self._retries = CATCH_UP_RETRIES
            await self._work.give_up(sorted(running.connectors), sorted(running.tasks))
            await self._membership.give_up_work()
        self._catch_up_at_ms = self._clock.now_ms() + round(delay_ms)
