"""A node: its roles, the parts that they share, and the order in which all of them start and stop.

The start has these steps:

1. format new directories and open the logs;
2. bind the listeners: clients can connect, but must wait, and other controllers are served;
3. start the controller and the quorum, which does not wait for a leader;
4. register the broker and load the metadata;
5. start the broker: it loads its partitions and is unfenced;
6. serve the clients.

At a clean stop the broker first asks for a controlled shutdown, and serves its clients until the controller has moved
its leaderships. Then the parts stop in the reverse order. If the start fails, the node stops without the controlled
shutdown, and raises the error. No other module uses the whole node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.dynamic import DynamicConfig
from kcli.config.listeners import Listener
from kcli.config.topic import LogConfig
from kcli.controller.policies import NO_POLICIES, configured_policies
from kcli.errors import StorageError
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.model.configs import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType
from kcli.model.ids import NO_LEADER
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.clock import Clock
from kcli.runtime.disk import Disk
from kcli.runtime.hosts import InvalidHost
from kcli.runtime.network import Network
from kcli.runtime.rng import Rng
from kcli.runtime.threads import NodeThreads
from kcli.security.acls.configured import node_authorizer
from kcli.security.authorizer import FollowsMetadata
from kcli.server.broker_role import BrokerRole, Surroundings
from kcli.server.formatting.format import Machine, ensure_formatted
from kcli.server.handlers.ports import NodePorts
from kcli.server.housekeeping import Housekeeping, PeriodicJob, log_jobs
from kcli.server.logins.link_security import LinkSecurity
from kcli.server.logins.listener_security import NodeSecurity
from kcli.server.metrics.metrics import TICK_MS, Metrics
from kcli.server.metrics.requests import measured
from kcli.server.network.connection import Serve
from kcli.server.network.listener import SocketServer
from kcli.server.network.listener_settings import (
    check_limits,
    connection_limits,
    idle_max_seconds,
    listener_settings,
    queued_bytes_max,
)
from kcli.server.network.loop_shared import LoopShared
from kcli.server.quorum.channel import ControllerChannel, NodeChannel
from kcli.server.quorum.controller_registrar import ControllerRegistrar
from kcli.server.quorum.controller_role import ControllerRole
from kcli.server.quorum.counts import PartitionCounts
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.producer_ids import UNREGISTERED_EPOCH
from kcli.server.quorum.quorum import Quorum
from kcli.server.quorum.remote_controller import (
    ASSIGNMENTS_LIMIT_S,
    FORWARDING_LIMIT_S,
    REGISTRATION_LIMIT_S,
    RemoteController,
)
from kcli.server.requests.apis import WAITING_BY_DESIGN, Api, served_on_broker, served_on_controller
from kcli.server.requests.dispatch import Dispatch, warm_up
from kcli.server.requests.forwarding import ForwardedCaller, Forwarder
from kcli.server.requests.quotas import ClientQuotas
from kcli.server.requests.turns import turns_given
from kcli.storage.directory import LogDirectory
from kcli.storage.log.record_validation import Validation
from kcli.storage.store.store import LogStore

if TYPE_CHECKING:
    from kcli.server.beans.exposition.endpoint import MetricsEndpoint
    from kcli.server.requests.node_traces import NodeTraces

_log = logging.getLogger("kcli.server.KafkaRaftServer")

# The pause between the imports of two handlers. An import takes 2 to 20 ms, so the imports use only a few percent of
# the event loop.
PAUSE_BETWEEN_IMPORTS_S = 0.25
# The most pauses between the imports of two handlers. Some nodes always serve a large request.
PAUSES_PER_IMPORT_MAX = 40
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
        self.disk = disk
        self.network = network
        self.rng = rng
        self.halted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.warming_up: asyncio.Task[None] | None = None
        self.is_ready = False  # whether clients are served
        self._starting: asyncio.Task[object] | None = None
        self._has_failed = False  # whether the start has failed, and stops the node
        self._loop = asyncio.get_running_loop()
        self._threads = NodeThreads(background)
        self._housekeeping: asyncio.Task[None] | None = None
        self.registrar: ControllerRegistrar | None = None
        self._is_made = False
        self.authorizer = node_authorizer(config)
        self._policies = configured_policies(config) if config.is_controller else NO_POLICIES

        self.dynamic_config = DynamicConfig(config)
        # TLS stores and traces come before the directories, so that a mistake in their configuration leaves the disks
        # unchanged.
        self.security = NodeSecurity(config, clock, lambda: self.loader.image)
        self.security.load_stores()
        self.metrics = self._make_metrics()
        self.traces = self._make_traces()
        self.links = self._make_links()
        cluster_id = ensure_formatted(config, Machine(disk, clock, rng), _log.info)
        self.quotas = ClientQuotas(config, clock)
        self.logs = self._open_logs()
        self.loader = self._make_loader(cluster_id)
        self.quorum = self._make_quorum()
        self.channels: dict[str, NodeChannel] = {}
        self.controller = self._make_controller() if config.is_controller else None
        self.broker = self._make_broker(background) if config.is_broker else None
        self._controller_dispatch: Dispatch | None = None
        self._dispatches: list[Dispatch] = []
        self.ports = self._make_ports()
        self.sockets = self._make_sockets()
        self.metrics_endpoint = self._make_metrics_endpoint()
        self._is_made = True

    def _make_loader(self, cluster_id: str) -> MetadataLoader:
        loader = MetadataLoader(MetadataImage(cluster_id=cluster_id), self.clock)
        # The authorizer is the first subscriber, so that no other part acts on metadata whose ACLs are not in force
        # yet.
        if isinstance(self.authorizer, FollowsMetadata):
            loader.subscribe(self.authorizer.metadata_changed)
        return loader

    def _make_quorum(self) -> Quorum:
        parts = (self.logs, self.config, self.clock, self.rng, self.network, self.loader)
        return Quorum(
            *parts, on_fatal=self._halt, secure=self.links.to_controllers, threads=self._threads.quorum
        )

    def _open_logs(self) -> LogStore:
        config = self.config
        return LogStore.open(
            self.disk,
            self.clock,
            config.log_dirs if config.is_broker else (config.metadata_log_dir,),
            node_id=config.node_id,
            rng=self.rng,
            default_config=LogConfig.resolve({}, config),
            recovery_threads=config.integer("num.recovery.threads.per.data.dir"),
            producer_expiration_ms=config.integer("producer.id.expiration.ms"),
            validation=Validation(config.text("kcli.validate.records")),
            metadata_log_dir=config.metadata_log_dir,
            background=self._threads.flushes,
            on_failure=self._directory_failed_in_any_thread,
        )

    def _make_links(self) -> LinkSecurity:
        links = LinkSecurity(lambda: self.dynamic_config.links)
        for warning in links.check():
            _log.warning("%s", warning)
        return links

    def _make_metrics(self) -> Metrics:
        return Metrics(
            self.clock,
            samples=self.config.integer("metrics.num.samples"),
            window_seconds=self.config.integer("metrics.sample.window.ms") / 1000,
            waiting_by_design=WAITING_BY_DESIGN,
        )

    def _make_controller(self) -> ControllerRole:
        return ControllerRole(
            self.quorum,
            self.config,
            self.clock,
            self.rng,
            on_fatal=self._halt,
            policies=self._policies,
        )

    def _make_broker(self, cleaner_executor: Executor | None) -> BrokerRole:
        return BrokerRole(
            Surroundings(
                config=self.config,
                dynamic_config=self.dynamic_config,
                clock=self.clock,
                rng=self.rng,
                logs=self.logs,
                loader=self.loader,
                channel=self._channel("forwarding", FORWARDING_LIMIT_S),
                heartbeats=self._channel(
                    "heartbeat", self.config.integer("broker.heartbeat.interval.ms") / 1000
                ),
                assignments=self._channel("directory-assignments", ASSIGNMENTS_LIMIT_S),
                network=self.network,
                secure=self.links.to_brokers,
                isr_changes=self._channel("alter-partition", None),
                removed_topics=self.quorum.log.removed_topics,
                traffic=self.metrics.traffic,
                threads=self._threads,
                cleaner_executor=cleaner_executor,
            )
        )

    def _channel(self, purpose: str, limit_s: float | None) -> NodeChannel:
        """A connection to the active controller, with its own queue. `purpose` is its name in the metrics. `limit_s` is
        the longest wait of a request, or None.
        """
        remote = RemoteController(
            self.network,
            lambda: self.quorum.view.leader_address,
            client_id=str(self.config.node_id),
            limit_s=limit_s,
            socket_timeout_s=self.config.integer("controller.socket.timeout.ms") / 1000,
            secure=self.links.to_controllers,
        )
        channel = NodeChannel(self.controller, remote, self._leads_elsewhere)
        self.channels[purpose] = channel
        return channel

    def _leads_elsewhere(self) -> bool:
        return self.quorum.view.leader_id not in (NO_LEADER, self.config.node_id)

    def _make_ports(self) -> NodePorts:
        """The ports of handlers on broker listeners or, on a node without the broker role, on controller listeners."""
        if self.broker is not None:
            return self.broker.ports(self._node_ports(self.broker.channel))
        assert self.controller is not None, "a node has at least one role"
        return self._node_ports(self.controller)

    def _node_ports(self, channel: ControllerChannel) -> NodePorts:
        return NodePorts(
            config=self.config,
            dynamic_config=self.dynamic_config,
            clock=self.clock,
            rng=self.rng,
            loader=self.loader,
            channel=channel,
            quorum=self.quorum.view,
            raft=self.quorum,
            metrics=self.metrics,
            served_on=self._served_on,
            serve_forwarded=self._serve_forwarded,
        )

    async def _serve_forwarded(self, frame: bytes, client: ForwardedCaller) -> bytes:
        assert self._controller_dispatch is not None, "an Envelope comes through it"
        return await self._controller_dispatch.serve_forwarded(frame, client)

    def _make_sockets(self) -> SocketServer:
        config = self.config
        return SocketServer(
            self.network,
            limits=connection_limits(config),
            request_size_max_bytes=config.integer("socket.request.max.bytes"),
            idle_max_seconds=idle_max_seconds(config),
            protected_listener=config.inter_broker_listener_name,
            now=self._loop.time,
            rate_window_seconds=self.quotas.windows.total_seconds,
            throttle_seconds=self.quotas.connections.throttle_seconds,
            shared=LoopShared(
                queued_bytes_max=queued_bytes_max(config),
                queued_requests_max=config.integer("queued.max.requests"),
            ),
        )

    def _served_on(self, listener: str) -> tuple[ApiKey, ...]:
        is_controller = listener in self.config.controller_listener_names
        return tuple(served_on_controller() if is_controller else served_on_broker())

    @property
    def metadata(self) -> MetadataImage:
        """The committed metadata."""
        return self.loader.image

    # Start and stop.

    async def start(self) -> None:
        """Starts the node. Returns when clients are served. Raises OSError, KafkaError or StorageError."""
        began = self.clock.monotonic()
        self._starting = asyncio.current_task()
        try:
            await self._start_parts()
        except BaseException:
            self._has_failed = True
            await self.stop(clean=False)
            raise
        finally:
            self._starting = None
        self.sockets.admit()
        self.is_ready = True
        elapsed_ms = (self.clock.monotonic() - began) * 1000
        _log.info("[%s id=%d] Ready after %.0f ms", self._server, self.config.node_id, elapsed_ms)
        _log.info("[KafkaRaftServer nodeId=%d] Kafka Server started", self.config.node_id)
        self.warming_up = self._loop.create_task(self._warm_up(), name="warming-up")

    async def _start_parts(self) -> None:
        await self._bind()
        controller_listeners = self._bound(self.config.advertised_controller_listeners)
        if self.controller is not None:
            await self.controller.start(controller_listeners)
        await self.quorum.start(controller_listeners)
        if self.controller is not None:
            self.registrar = self._start_registrar(self.controller)
        if self.broker is not None:
            listeners = self._bound(self.config.advertised_listeners)
            await self._unless_halted(self.broker.register(listeners))
        self._load_metadata()
        if self.broker is not None:
            await self._unless_halted(self.broker.start())
        housekeeping = Housekeeping(self._jobs(), self._threads.housekeeping)
        self._housekeeping = self._loop.create_task(housekeeping.run(), name="housekeeping")

    def _start_registrar(self, controller: ControllerRole) -> ControllerRegistrar:
        assert controller.registration is not None, "its start has made it"
        channel = self._channel("registration", REGISTRATION_LIMIT_S)
        return ControllerRegistrar(channel, self.loader, self.rng, controller.registration)

    async def _unless_halted(self, work: Coroutine[None, None, None]) -> None:
        """Waits for a part of the start. Raises StorageError if the node must halt before this part is complete."""
        task = self._loop.create_task(work)
        try:
            await asyncio.wait((task, self.halted), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise StorageError(self.halted.result())
            task.result()
        finally:
            task.cancel()

    async def _warm_up(self) -> None:
        """Loads, after the start, the modules that the first client needs, and then slowly all other handlers."""
        await self._loop.run_in_executor(None, warm_up)
        for dispatch in self._dispatches:
            for _ in dispatch.load_routes():
                await self._pause_between_imports()

    async def _pause_between_imports(self) -> None:
        """Waits until no large request has been served for a while. Otherwise the objects of an imported handler would
        lie in memory between the objects of the request. Python could then not give the memory of the request back."""
        for _ in range(PAUSES_PER_IMPORT_MAX):
            turns = turns_given()
            await asyncio.sleep(PAUSE_BETWEEN_IMPORTS_S)
            if turns_given() == turns:
                break

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
            if self._housekeeping is not None:
                self._housekeeping.cancel()
                await asyncio.gather(self._housekeeping, return_exceptions=True)
            await self._stop_parts(clean=clean)
            await self._loop.run_in_executor(None, lambda: self.logs.close(clean, broker_epoch=self._epoch()))
            self._threads.close(wait=clean)
        finally:
            self.security.close()
        elapsed_ms = (self.clock.monotonic() - began) * 1000
        _log.info("[%s id=%d] shut down completed in %.0f ms", self._server, self.config.node_id, elapsed_ms)

    def stop_waiting(self) -> None:
        """Ends the wait for the controller during a stop. The other parts of the stop do not change."""
        if self.broker is not None:
            self.broker.lifecycle.stop_waiting()

    async def _leave(self, broker: BrokerRole) -> bool:
        """Lets the controller move the leaderships of the broker away. Returns False if the node must halt instead."""
        try:
            await self._unless_halted(broker.leave())
        except StorageError:
            return False
        return True

    async def _stop_parts(self, *, clean: bool) -> None:
        """Stops the broker role and closes its listeners, then the controller role. The controller is still served
        while the broker stops, because brokers of other nodes may need it."""
        of_controller = self.config.controller_listener_names
        of_broker = [name for name in self.sockets.listeners if name not in of_controller]
        self.sockets.stop_accepting(of_broker)
        if self.broker is not None:
            await self.broker.stop(clean=clean)
        if self.registrar is not None:
            await self.registrar.stop()
        for channel in self.channels.values():
            await channel.stop()
        await self.sockets.close(of_broker)
        if self.controller is not None:
            await self.controller.stop(clean=clean)
        await self.quorum.stop(clean=clean)
        await self.sockets.close()
        if self.metrics_endpoint is not None:
            await self.metrics_endpoint.stop()
        if self.traces is not None:
            await self.traces.stop()
        if clean and self.broker is not None:
            await self.broker.finish_deletions()

    @property
    def _server(self) -> str:
        """The name of the server in the log, as in Kafka's log."""
        return "ControllerServer" if self.broker is None else "BrokerServer"

    def _epoch(self) -> int:
        """The broker epoch that a clean stop writes to the log directories."""
        return UNREGISTERED_EPOCH if self.broker is None else self.broker.lifecycle.epoch

    async def _bind(self) -> None:
        """Opens every listener. Clients that connect wait until `admit`, except on the early listeners."""
        early = self.config.early_start_listeners
        self.sockets.hold(listener.name for listener in self.config.listeners if listener.name not in early)
        dispatches: dict[bool, Dispatch] = {}
        if self.controller is not None:
            ports = self._node_ports(self.controller)  # this controller never forwards a request
            self._controller_dispatch = self._dispatch(ports, served_on_controller())
            dispatches[True] = self._controller_dispatch
        if self.broker is not None:
            dispatches[False] = self._dispatch(self.ports, served_on_broker(), self.broker.channel)
        self._dispatches = list(dispatches.values())
        served: dict[bool, Serve] = dict(dispatches)
        if self.traces is not None:
            served = {key: self.traces.around(dispatch) for key, dispatch in dispatches.items()}
        if self.metrics_endpoint is not None:
            await self.metrics_endpoint.start()
            served = {key: measured(serve, self.metrics.requests) for key, serve in served.items()}
        for listener in self.config.listeners:
            is_controller = listener.name in self.config.controller_listener_names
            security = self.security.of(listener, dispatches[is_controller])
            try:
                opened = await self.sockets.listen(
                    listener_settings(self.config, listener),
                    served[is_controller],
                    security.authenticate,
                    security.tls,
                )
            except InvalidHost as error:
                raise ConfigError(str(error), key="listeners") from error
            _log.info("Awaiting socket connections on %s:%d.", listener.host or "0.0.0.0", opened.port)

    def _dispatch(
        self, ports: NodePorts, served: dict[ApiKey, Api], forwarder: Forwarder | None = None
    ) -> Dispatch:
        return Dispatch(
            ports,
            served,
            quotas=self.quotas,
            metrics=self.metrics,
            authorizer=self.authorizer,
            forwarder=forwarder,
        )

    def _bound(self, listeners: tuple[Listener, ...]) -> list[Listener]:
        """The listeners with the ports that the system chose in place of port 0."""
        return [
            listener
            if listener.port
            else listener.at(listener.host, self.sockets.listeners[listener.name].port)
            for listener in listeners
        ]

    def _load_metadata(self) -> None:
        image = self.metadata
        # Subscribe first, so that stored configs take effect in the same way as later changes.
        self.dynamic_config.subscribe(self._reconfigure)
        self.dynamic_config.limit_with(check_limits)
        self.dynamic_config.check_with(self.security.check_change, self.security.prepare_change)
        self._update_config(image)
        self.quotas.load(image)
        self.loader.subscribe(self._metadata_changed)

    def _metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if any(resource.type is ConfigResourceType.BROKER for resource in delta.configs_changed):
            self._update_config(image)
        self.quotas.apply(delta, image)

    def _update_config(self, image: MetadataImage) -> None:
        own = ConfigResource(ConfigResourceType.BROKER, str(self.config.node_id))
        self.dynamic_config.update(default=image.config(CLUSTER_DEFAULT), own=image.config(own))
        self.security.look_at_files()

    def _reconfigure(self, _before: BrokerConfig, after: BrokerConfig) -> None:
        self.sockets.limits = connection_limits(after)
        for listener in self.config.listeners:
            self.sockets.listeners[listener.name].settings = listener_settings(after, listener)
        self.security.change(after)
        if self.metrics_endpoint is not None:
            self.metrics_endpoint.reconfigure(after)
        self.sockets.admit_held()

    # Periodic jobs.

    def _jobs(self) -> list[PeriodicJob]:
        jobs = [
            *log_jobs(self.logs, self.config, self.clock),
            PeriodicJob("idle connections", IDLE_CHECK_INTERVAL_MS, self.sockets.close_idle),
            PeriodicJob(
                "changed certificates",
                CERTIFICATES_CHECK_INTERVAL_MS,
                self.security.look_at_files,
                prepare=self.security.prepare_files,
            ),
        ]
        if self.broker is not None:
            # As in Kafka, a replica leaves the ISR 1 to 1.5 times this lag after it had caught up for the last time.
            lag_ms = self.config.integer("replica.lag.time.max.ms")
            jobs.append(PeriodicJob("isr expiration", max(lag_ms // 2, 1), self.broker.replicas.shrink_isrs))
        if self.metrics_endpoint is not None:
            jobs.append(PeriodicJob("metrics", TICK_MS, self.metrics.tick))
        return jobs

    def _make_metrics_endpoint(self) -> MetricsEndpoint | None:
        """Makes the metrics endpoint. Without a configured endpoint, its code is not imported, so that the start is
        faster.
        """
        if self.config.metrics_address is None:
            return None
        from kcli.server.beans.exposition.endpoint import MetricsEndpoint
        from kcli.server.beans.exposition.endpoint_security import endpoint_security
        from kcli.server.beans.sources import BeanSources, BrokerParts

        broker, partition_counts = self.broker, None
        if self.controller is not None:
            partition_counts = PartitionCounts()
            self.loader.subscribe(partition_counts.apply)
        parts = None
        if broker is not None:
            parts = BrokerParts(
                cleaning=broker.cleaning,
                lifecycle=broker.lifecycle,
                assignments=broker.assignments,
                links={
                    "txn-marker-channel": broker.marker_links,
                },
            )
        sources = BeanSources(
            ports=self.ports,
            sockets=self.sockets,
            logs=self.logs,
            quotas=self.quotas,
            controller=self.controller,
            partition_counts=partition_counts,
            parts=parts,
            channels=self.channels,
            is_ready=lambda: self.is_ready,
        )
        security = endpoint_security(self.config, self.security.tls_of)
        return MetricsEndpoint(
            sources, self.network, *self.config.metrics_address, security, self.security.certificates
        )

    def _make_traces(self) -> NodeTraces | None:
        """Makes the export of traces. Its code is imported only if the node has traces."""
        if not self.config.has_traces:
            return None
        from kcli.server.requests.node_traces import NodeTraces

        return NodeTraces(self.config, self.clock, self.metrics)

    # Failures.

    def _directory_failed_in_any_thread(self, directory: LogDirectory, error: StorageError) -> None:
        self._loop.call_soon_threadsafe(self._directory_failed, directory, error)

    def _directory_failed(self, directory: LogDirectory, error: StorageError) -> None:
        if not self._is_made:
            return  # __init__ raises the error itself
        if self.broker is not None:
            self.broker.directory_failed(directory)
        if directory.path == self.config.metadata_log_dir:
            self._halt(f"the metadata log directory {directory.path} has failed: {error}")
        elif all(each.error is not None for each in self.logs.directories):
            self._halt(f"all log directories have failed: {', '.join(self.config.log_dirs)}")

    def _halt(self, reason: object) -> None:
        if not self.halted.done():
            _log.critical("[KafkaRaftServer nodeId=%d] Shutting down: %s", self.config.node_id, reason)
            self.halted.set_result(str(reason))
