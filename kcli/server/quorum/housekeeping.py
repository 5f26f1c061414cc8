"""The periodic work of the active controller: no-op records, fencing, and elections that no request asks for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from kcli.config.broker import BrokerConfig
from kcli.controller.brokers import fence_expired
from kcli.controller.controller import Controller
from kcli.controller.decision import Decision, DecisionSteps
from kcli.controller.leadership import elect_leaderless, elect_preferred
from kcli.errors import NotControllerException
from kcli.runtime.clock import Clock
from kcli.server.quorum.active_controller import ActiveController
from kcli.server.quorum.counts import ControllerCounts

_log = logging.getLogger("kcli.server.QuorumController")

AGAIN_S = 0.01
"""The pause after a round that left work for another round."""

AFTER_FAILURE_S = 300.0
"""The pause after a round that failed, as in Kafka."""

CHECKS_PER_SESSION = 8
"""The number of checks of the brokers' sessions in the time of one session timeout. So a silent broker is fenced too
late by at most an eighth of the timeout."""

Round = Callable[[], Awaitable[bool]]
"""One round of a periodic task. Returns True if it left work for another round."""


class QuorumHousekeeping:
    """The periodic work while this node leads the quorum, from `start` to `stop`."""

    def __init__(
        self, active: ActiveController, config: BrokerConfig, clock: Clock, counts: ControllerCounts
    ) -> None:
        self._active = active
        self._counts = counts
        self._config = config
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        config = self._config
        session_s = config.integer("broker.session.timeout.ms") / 1000
        self._repeat("fencing", self._fence, max(session_s / CHECKS_PER_SESSION, 0.001))
        # The first round comes at once, because the last controller may not have checked these partitions.
        self._active.configs_changed.set()
        self._repeat(
            "leaderless",
            partial(self._elect, elect_leaderless),
            config.integer("unclean.leader.election.interval.ms") / 1000,
            self._active.configs_changed,
        )
        if config.boolean("auto.leader.rebalance.enable"):
            interval_s = config.integer("leader.imbalance.check.interval.seconds")
            self._repeat("preferred", partial(self._elect, elect_preferred), interval_s)
        if config.text("delegation.token.secret.key"):
            check_s = config.integer("delegation.token.expiry.check.interval.ms") / 1000
            self._repeat("tokens", self._remove_expired_tokens, check_s)
        idle_s = config.integer("metadata.max.idle.interval.ms") / 1000
        if idle_s > 0:
            self._repeat("idle", self._write_no_op, idle_s)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _repeat(self, name: str, work: Round, interval_s: float, wake: asyncio.Event | None = None) -> None:
        """Does a round of the work at each interval, and when `wake` is set."""
        loop = self._loop(name, work, interval_s, wake or asyncio.Event())
        self._tasks.append(asyncio.create_task(loop, name=f"quorum-{name}"))

    async def _loop(self, name: str, work: Round, interval_s: float, wake: asyncio.Event) -> None:
        pause_s = interval_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await wake.wait()
            wake.clear()
            try:
                pause_s = AGAIN_S if await work() else interval_s
            except NotControllerException:
                return
            except Exception:
                _log.exception("Periodic task %s failed", name)
                pause_s = AFTER_FAILURE_S

    async def _write_no_op(self) -> bool:
        """Appends a no-op record, which shows that the quorum is alive (KIP-835)."""
        await self._active.write(self._active.controller.no_op())
        return False

    async def _fence(self) -> bool:
        own_broker = self._config.node_id if self._config.is_broker else None
        is_fenced = await self._active.carry_out(partial(fence_expired, exempt=own_broker), moves_broker=True)
        self._counts.timed_out_heartbeats += is_fenced
        return is_fenced

    async def _elect(self, elect: Callable[[Controller], Decision[bool] | DecisionSteps[bool]]) -> bool:
        return await self._active.carry_out(lambda controller, _now_ms: elect(controller))

    async def _remove_expired_tokens(self) -> bool:
        from kcli.controller.tokens import remove_expired_tokens  # the start of a node does not need it

        now_ms = self._clock.now_ms()
        return await self._active.carry_out(lambda controller, _: remove_expired_tokens(controller, now_ms))
