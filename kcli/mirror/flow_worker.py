"""The worker of one flow: a worker of Kafka Connect that keeps the configurations of the flow's three connectors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping

from kcli.config.definition import ConfigError
from kcli.connect.assembly import DistributedWorker, Peering
from kcli.connect.config.worker import WorkerConfig
from kcli.connect.errors import NotFound, NotLeader
from kcli.connect.herders.distributed import DistributedHerder
from kcli.connect.model import Config
from kcli.errors import KcliError
from kcli.mirror.config.grammar import CONNECTORS, Flow
from kcli.mirror.flow_log import name_lines
from kcli.model.object_name import quoted

_log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorHerder")


class FlowWorker:
    """Runs the worker of a flow. `connectors` has the configurations of the flow's connectors by name."""

    def __init__(
        self,
        flow: Flow,
        config: WorkerConfig,
        connectors: Mapping[str, Config],
        cluster_id: str,
        peering: Peering,
    ) -> None:
        assert config.group is not None, "the worker of a group"
        assert set(connectors) == set(CONNECTORS), connectors.keys()
        self.flow = flow
        self.group = config.group
        self._connectors = connectors
        self._name = peering.name
        self._worker = DistributedWorker(config, cluster_id, peering)
        self._worker.herder.on_lead = self._start_to_configure
        self._running: asyncio.Task[None] | None = None
        self._configuring: set[asyncio.Task[None]] = set()

    @property
    def herder(self) -> DistributedHerder:
        return self._worker.herder

    def start(self) -> asyncio.Task[None]:
        """Returns the task of the worker, which runs until `stop`. It raises the error of a start that fails."""
        self._running = asyncio.create_task(self._run())
        return self._running

    def stop(self) -> None:
        assert self._running is not None, "started"
        if self.herder.health().is_ready:
            self._worker.stop()
        else:
            self._running.cancel()  # the start may wait a long time for a cluster that is down

    def beans(self) -> Iterator[tuple[str, Mapping[str, float | str]]]:
        """The metrics of the worker. Their names have the flow, because the connectors of all flows are namesakes."""
        for name, values in self._worker.beans():
            yield f"{name},flow={quoted(str(self.flow))}", values

    async def _run(self) -> None:
        name_lines(self.group.client_id, self.group.group_id)
        try:
            await self._worker.run()
        finally:
            for task in self._configuring:
                task.cancel()
            await asyncio.gather(*self._configuring, return_exceptions=True)

    def _start_to_configure(self) -> None:
        """Configures beside the herder, because the herder carries out the writes."""
        task = asyncio.create_task(self._configure_all())
        self._configuring.add(task)
        task.add_done_callback(self._configuring.discard)

    async def _configure_all(self) -> None:
        _log.info("This node %s is now a leader for %s. Configuring connectors...", self._name, self.flow)
        await asyncio.gather(*(self._configure(name, config) for name, config in self._connectors.items()))

    async def _configure(self, name: str, config: Config) -> None:
        """Writes a configuration, if it differs from the stored one."""
        if self._stored(name) == config:
            _log.info(
                "This node is a leader for %s and configuration for %s is already up to date.",
                self.flow,
                name,
            )
            return
        try:
            await self.herder.put_config(name, config, None, may_replace=True)
            _log.info("%s connector configured for %s.", name, self.flow)
        except NotLeader:
            _log.info("This node is a follower for %s. Using existing connector configuration.", self.flow)
        except (KcliError, ConfigError, OSError) as error:
            _log.error("Failed to configure %s connector for %s: %s", name, self.flow, error)

    def _stored(self, name: str) -> Config | None:
        try:
            return self.herder.views.config(name)
        except NotFound:
            return None
