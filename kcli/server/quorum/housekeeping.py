"""The periodic work of the active controller: no-op records, and the fencing of brokers whose sessions have expired."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from kcli.config.broker import BrokerConfig
from kcli.errors import KafkaError, NotControllerException, StorageError
from kcli.runtime.clock import Clock
from kcli.server.quorum.active_controller import ActiveController, session_ms

_log = logging.getLogger("kcli.server.QuorumController")

# The interval at which expired sessions are checked.
INTERVAL_S = 1.0


class QuorumHousekeeping:
    """The periodic work of one lead, from `start` to `stop`."""

    def __init__(self, active: ActiveController, config: BrokerConfig, clock: Clock) -> None:
        self._active = active
        self._config = config
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._idle_loop(), name="quorum-idle"),
            asyncio.create_task(self._fencing_loop(), name="quorum-fencing"),
        ]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _idle_loop(self) -> None:
        """Appends a no-op record at an interval, which shows that the quorum is alive (KIP-835)."""
        interval_ms = self._config.integer("metadata.max.idle.interval.ms")
        while interval_ms > 0:
            await asyncio.sleep(interval_ms / 1000)
            with contextlib.suppress(StorageError, KafkaError):
                await self._active.write(self._active.controller.no_op())

    async def _fencing_loop(self) -> None:
        own_broker = self._config.node_id if self._config.is_broker else None
        while True:
            await asyncio.sleep(INTERVAL_S)
            try:
                # Each decision fences one broker, as in Kafka.
                while records := self._active.controller.fence_expired(
                    session_ms(self._clock), exempt=own_broker
                ):
                    await self._active.write(records)
            except NotControllerException:
                return
            except (KafkaError, StorageError) as error:
                _log.error("The sessions of the brokers could not be checked: %s", error)
