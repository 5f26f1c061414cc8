"""A node: its roles, the parts that they share, and the order in which all of them start and stop.

The order is one list of parts, in which the broker role is one row with a list of its own. The start has these steps:

1. format new directories and open the logs;
2. bind the listeners: clients can connect, but must wait, and other controllers are served;
3. start the controller and the quorum, which does not wait for a leader;
4. register the broker and load the metadata;
5. start the broker: it loads its partitions and is unfenced;
6. serve the clients.

At a clean stop the broker first asks for a controlled shutdown, and serves its clients until the controller has moved
its leaderships, before the parts stop in the reverse order. If the start fails, the node stops without the controlled
shutdown, and raises the error. No other module uses the whole node.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING

from kcli.config.broker import BrokerConfig
from kcli.config.dynamic import DynamicConfig
from kcli.controller.policies import NO_POLICIES, configured_policies
from kcli.errors import StorageError
from kcli.metadata.image import MetadataImage
from kcli.runtime.clock import Clock
from kcli.runtime.disk import Disk
from kcli.runtime.network import Network
from kcli.runtime.rng import Rng
from kcli.runtime.threads import NodeThreads
from kcli.security.acls.configured import node_authorizer
from kcli.security.authorizer import FollowsMetadata
from kcli.server.handlers.shared.config_answers import ConfigAnswers
from kcli.server.logins.listener_security import NodeSecurity
from kcli.server.metrics.metrics import TICK_MS, Metrics
from kcli.server.network.listener_settings import check_limits
from kcli.server.parts.housekeeping import Housekeeping, PeriodicJob, log_jobs
from kcli.server.parts.part import Part, Parts, always, if_clean, when
from kcli.server.quorum.channels import ControllerChannels
from kcli.server.quorum.controller_registrar import ControllerRegistrar
from kcli.server.quorum.controller_role import ControllerRole
from kcli.server.quorum.producer_ids import UNREGISTERED_EPOCH
from kcli.server.quorum.remote_controller import REGISTRATION_LIMIT_S
from kcli.server.requests.quotas import ClientQuotas
from kcli.server.requests.warm_up import load_handlers
from kcli.server.roles.broker_role import BrokerRole
from kcli.server.roles.listeners import Listeners, node_sockets
from kcli.server.roles.observers import metrics_endpoint, node_traces, observed
from kcli.server.roles.own_config import OwnConfig
from kcli.server.roles.shared import Shared, node_metrics, open_shared
from kcli.storage.directory import LogDirectory

if TYPE_CHECKING:
    from kcli.server.requests.node_traces import NodeTraces

_log = logging.getLogger("kcli.server.KafkaRaftServer")

# The interval at which the node searches for idle connections.
IDLE_CHECK_INTERVAL_MS = 10_000
# The interval at which the node looks at the modification times of its certificates.
CERTIFICATES_CHECK_INTERVAL_MS = 10_000


class Node:
    """A node, which serves clients from `start` to `stop`. A failure that ends the node sets `halted` to the reason.

    `controller` and `broker` are None if `process.roles` does not contain them.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        disk: Disk,
        network: Network,
        rng: Rng,
        background: Executor | None = None,
    ) -> None:
        """Opens the directories. Raises StorageError if they cannot be used.

        `background` does the work that blocks. If it is None, the node makes threads for this (`NodeThreads`).
        """
        self.config = config
        self.clock = clock
        loop = asyncio.get_running_loop()
        self.halted: asyncio.Future[str] = loop.create_future()
        self.warming_up: asyncio.Task[None] | None = None
        self.is_ready = False  # whether clients are served
        self._starting: asyncio.Task[object] | None = None
        self._has_failed = False  # whether the start has failed, and stops the node
        self.threads = NodeThreads(background)
        self.parts = Parts([])  # empty until all parts are made

        # All that reads only the configuration comes before the directories, so that a mistake in the configuration
        # leaves the disks unchanged.
        authorizer = node_authorizer(config)
        policies = configured_policies(config) if config.is_controller else NO_POLICIES
        self.dynamic_config = DynamicConfig(config)
        security = NodeSecurity(config, clock, lambda: self.metadata)
        security.load_stores()
        self.dynamic_config.limit_with(check_limits)
        self.dynamic_config.check_with(security.check_change, security.prepare_change)
        metrics = node_metrics(config, clock)
        traces = node_traces(config, clock, metrics)

        def directory_failed(directory: LogDirectory, error: StorageError) -> None:
            loop.call_soon_threadsafe(self._directory_failed, directory, error)

        shared = open_shared(
            config,
            self.dynamic_config,
            metrics,
            clock=clock,
            disk=disk,
            network=network,
            rng=rng,
            threads=self.threads,
            directory_failed=directory_failed,
            halt=self._halt,
        )
        self.logs, self.loader, self.quorum = shared.logs, shared.loader, shared.quorum
        # The authorizer is the first subscriber, so that no other part acts on metadata whose ACLs are not in force
        # yet.
        if isinstance(authorizer, FollowsMetadata):
            self.loader.subscribe(authorizer.metadata_changed)
        self.controller = None
        if config.is_controller:
            self.controller = ControllerRole(
                self.quorum, config, clock, rng, on_fatal=self._halt, policies=policies
            )
        channels = ControllerChannels(
            config, network, self.quorum.view, self.controller, shared.links.to_controllers
        )
        self.broker = BrokerRole(shared, channels, background) if config.is_broker else None
        quotas = ClientQuotas(config, clock)
        self.sockets = node_sockets(config, network, quotas)
        self.listeners = Listeners(
            config, self.sockets, security=security, quotas=quotas, metrics=metrics, authorizer=authorizer
        )
        role = {"channel": self.controller} if self.broker is None else self.broker.parts.offers()
        self.offers = {
            **shared.offers(),
            **self.listeners.offers(),
            "channels": channels.by_purpose,
            "config_answers": ConfigAnswers(),
            "controller": self.controller,
            "is_ready": lambda: self.is_ready,
            **role,
        }
        self.metrics_endpoint = metrics_endpoint(config, network, self.loader, self.listeners, self.offers)
        self.parts = Parts(self._ordered_parts(shared, channels, traces))

    @property
    def metadata(self) -> MetadataImage:
        """The committed metadata."""
        return self.loader.image

    def _ordered_parts(
        self, shared: Shared, channels: ControllerChannels, traces: NodeTraces | None
    ) -> list[Part | None]:
        """The parts in the order of their start. A part is None if this node does not have it."""
        config, quorum, listeners, sockets = self.config, self.quorum, self.listeners, self.sockets
        controller, broker = self.controller, self.broker
        security, quotas = listeners.security, listeners.quotas
        own_config = OwnConfig(config.node_id, self.dynamic_config, security.look_at_files)
        housekeeping = Housekeeping(self.threads.housekeeping)
        return [
            Part(name="threads", stop=lambda clean: self.threads.close(wait=clean)),
            Part(name="log directories", stop=self._close_logs, jobs=log_jobs(self.logs, config, self.clock)),
            # The quorum stops before this row, so no later change of the metadata deletes another log.
            when(
                broker,
                lambda it: Part(name="deleted topics", stop=if_clean(it.replicas.finish_deletions)),
            ),
            when(traces, lambda it: Part(name="traces", stop=always(it.stop))),
            # Before the listeners, so that operators can watch the start and the stop.
            when(
                self.metrics_endpoint,
                lambda it: Part(
                    name="metrics endpoint",
                    start=it.start,
                    stop=always(it.stop),
                    reconfigure=lambda _, after: it.reconfigure(after),
                    jobs=[PeriodicJob("metrics", TICK_MS, shared.metrics.tick)],
                ),
            ),
            Part(
                name="certificates",
                reconfigure=lambda _, after: security.change(after),
                jobs=[certificates_job(security)],
            ),
            Part(
                name="listeners",
                start=partial(self._open_listeners, traces, shared.metrics),
                stop=always(sockets.close),
                reconfigure=listeners.reconfigure,
                jobs=[PeriodicJob("idle connections", IDLE_CHECK_INTERVAL_MS, sockets.close_idle)],
            ),
            # The controller starts before the quorum, because the quorum may make it the leader immediately, and it
            # stops before the quorum. So the quorum has a row on each side.
            Part(name="end of the quorum", stop=lambda clean: quorum.stop(clean=clean)),
            when(
                controller,
                lambda it: Part(
                    name="controller",
                    start=lambda: it.start(listeners.bound(config.advertised_controller_listeners)),
                    stop=lambda clean: it.stop(clean=clean),
                ),
            ),
            Part(
                name="quorum",
                start=lambda: quorum.start(listeners.bound(config.advertised_controller_listeners)),
            ),
            # The broker's clients leave before the controller stops, because brokers of other nodes may need it.
            Part(name="connections of clients", stop=always(listeners.close_clients)),
            Part(name="channels to the controller", stop=always(channels.stop)),
            when(controller, lambda it: self._registrar(it, channels, shared.rng)),
            when(
                broker,
                lambda it: Part(
                    name="registration of the broker",
                    start=lambda: self._unless_halted(
                        it.lifecycle.start(listeners.bound(config.advertised_listeners))
                    ),
                ),
            ),
            Part(name="metadata", start=lambda: self.parts.follow(self.dynamic_config, self.loader)),
            Part(name="own configs", load=own_config.load, apply=own_config.apply),
            Part(name="quotas", load=quotas.load, apply=quotas.apply),
            when(
                broker,
                lambda it: Part(
                    name="broker",
                    start=lambda: self._unless_halted(it.start()),
                    stop=lambda clean: it.stop(clean=clean),
                    directory_failed=it.parts.directory_failed,
                ),
            ),
            Part(name="ports of clients", stop=always(listeners.stop_accepting_clients)),
            Part(
                name="housekeeping",
                start=lambda: housekeeping.start(self._jobs()),
                stop=always(housekeeping.stop),
            ),
        ]

    def _registrar(self, controller: ControllerRole, channels: ControllerChannels, rng: Rng) -> Part:
        registrar = ControllerRegistrar(channels.open("registration", REGISTRATION_LIMIT_S), self.loader, rng)

        def start() -> None:
            assert controller.registration is not None, "the start of the controller has made it"
            registrar.start(controller.registration)

        return Part(
            name="registration of the controller",
            start=start,
            stop=always(registrar.stop),
            # The broker may register for long after the start above, and `apply` does not get the changes until then.
            load=registrar.load,
            apply=registrar.apply,
        )

    async def _open_listeners(self, traces: NodeTraces | None, metrics: Metrics) -> None:
        if self.controller is not None:
            # A controller never forwards a request.
            offers = {**self.offers, "channel": self.controller, "controller_versions": dict}
            self.listeners.serve(offers, on_controller=True)
        if self.broker is not None:
            self.listeners.serve(self.offers, on_controller=False, forwarder=self.broker.channel)
        await self.listeners.open(lambda dispatch: observed(dispatch, traces, self.metrics_endpoint, metrics))

    def _jobs(self) -> list[PeriodicJob]:
        of_broker = [] if self.broker is None else self.broker.parts.jobs()
        return [*self.parts.jobs(), *of_broker]

    async def _close_logs(self, clean: bool) -> None:
        epoch = UNREGISTERED_EPOCH if self.broker is None else self.broker.lifecycle.epoch
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, lambda: self.logs.close(clean, broker_epoch=epoch))

    # Start and stop.

    async def start(self) -> None:
        """Starts the node. Returns when clients are served. Raises OSError, KafkaError or StorageError."""
        began = self.clock.monotonic()
        self._starting = asyncio.current_task()
        try:
            await self.parts.start()
        except BaseException:
            self._has_failed = True
            # An error of the stop is in the log already, and must not hide the error of the start.
            with contextlib.suppress(Exception):
                await self.stop(clean=False)
            raise
        finally:
            self._starting = None
        self.sockets.admit()
        self.is_ready = True
        elapsed_ms = (self.clock.monotonic() - began) * 1000
        _log.info("[%s id=%d] Ready after %.0f ms", self._server, self.config.node_id, elapsed_ms)
        _log.info("[KafkaRaftServer nodeId=%d] Kafka Server started", self.config.node_id)
        loading = load_handlers(self.listeners.dispatches.values())
        self.warming_up = asyncio.get_running_loop().create_task(loading, name="warming-up")

    async def _unless_halted(self, work: Coroutine[None, None, None]) -> None:
        """Waits for a part of the start. Raises StorageError if the node must halt before this part is complete."""
        task = asyncio.get_running_loop().create_task(work)
        try:
            await asyncio.wait((task, self.halted), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise StorageError(self.halted.result())
            task.result()
        finally:
            task.cancel()

    async def stop(self, *, clean: bool = True) -> None:
        """Stops the node: gives up its leaderships, answers waiting requests, flushes and closes its logs.

        If `clean` is False, the node keeps its leaderships and leaves the disks unchanged, as after a crash. If the
        node is still starting, the start is cancelled, and the parts that have started are stopped. If a disk fails
        during the controlled shutdown, the rest of the stop is not clean.
        """
        starting = self._starting
        if starting is not None and starting is not asyncio.current_task():
            if not self._has_failed:
                starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        began = self.clock.monotonic()
        _log.info("[%s id=%d] shutting down", self._server, self.config.node_id)
        self.is_ready = False
        if self.warming_up is not None:
            self.warming_up.cancel()
        try:
            if clean and self.broker is not None:
                clean = await self._leave(self.broker)
            await self.parts.stop(clean=clean)
        finally:
            self.listeners.security.close()
        elapsed_ms = (self.clock.monotonic() - began) * 1000
        _log.info("[%s id=%d] shut down completed in %.0f ms", self._server, self.config.node_id, elapsed_ms)

    def stop_waiting(self) -> None:
        """Ends the wait for the controller during a stop. The other parts of the stop do not change."""
        if self.broker is not None:
            self.broker.lifecycle.stop_waiting()

    async def _leave(self, broker: BrokerRole) -> bool:
        """Lets the controller move the leaderships of the broker away. Returns False if the node must halt instead.

        Meanwhile the broker serves clients and followers and applies the metadata, because its leaderships move one
        after another.
        """
        try:
            await self._unless_halted(broker.lifecycle.leave())
        except StorageError:
            return False
        return True

    @property
    def _server(self) -> str:
        """The name of the server in the log, as in Kafka's log."""
        return "ControllerServer" if self.broker is None else "BrokerServer"

    # Failures.

    def _directory_failed(self, directory: LogDirectory, error: StorageError) -> None:
        if not self.parts.rows:
            return  # the parts are not made, so __init__ has raised the error itself
        self.parts.directory_failed(directory)
        if directory.path == self.config.metadata_log_dir:
            self._halt(f"the metadata log directory {directory.path} has failed: {error}")
        elif all(log_directory.error is not None for log_directory in self.logs.directories):
            self._halt(f"all log directories have failed: {', '.join(self.config.log_dirs)}")

    def _halt(self, reason: object) -> None:
        if not self.halted.done():
            _log.critical("[KafkaRaftServer nodeId=%d] Shutting down: %s", self.config.node_id, reason)
            self.halted.set_result(str(reason))


def certificates_job(security: NodeSecurity) -> PeriodicJob:
    return PeriodicJob(
        "changed certificates",
        CERTIFICATES_CHECK_INTERVAL_MS,
        security.look_at_files,
        prepare=security.prepare_files,
    )
