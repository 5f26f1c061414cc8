"""The composition root: one node with everything it consists of, and the order in which that starts and stops.

Start: directories (formatted when they are new) → logs → listeners bound, clients held → quorum → partitions and
coordinators from the image → registered and unfenced → clients admitted. Stop is the way back. Nothing else knows the
whole.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.config.broker import BrokerConfig
from kcli.config.dynamic import DynamicConfig
from kcli.config.features import KRAFT_VERSION, supported_ranges
from kcli.config.listeners import Listener as ConfiguredListener
from kcli.config.topic import LogConfig
from kcli.errors import StorageError
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.model.configs import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.clock import Clock
from kcli.runtime.disk import Disk
from kcli.runtime.network import Network
from kcli.runtime.rng import Rng
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.transaction_markers import MarkerWriter
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.formatting.format import Machine, ensure_formatted
from kcli.server.housekeeping import Housekeeping, Job
from kcli.server.metrics.metrics import TICK_MS, Metrics
from kcli.server.metrics.requests import measured
from kcli.server.network.connection import Serve
from kcli.server.network.listener import SocketServer
from kcli.server.network.listener_settings import connection_limits, idle_max_seconds, listener_settings
from kcli.server.partitions.directory_assignments import DirectoryAssignments
from kcli.server.partitions.fetch_sessions import Sessions
from kcli.server.partitions.log_cleaning import LogCleaning
from kcli.server.partitions.log_dir_moves import LogDirMoves
from kcli.server.partitions.replicas import Replicas
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle
from kcli.server.quorum.producer_ids import ProducerIdBlock, ProducerIds
from kcli.server.quorum.quorum import Quorum
from kcli.server.requests.dispatch import Dispatch, served_on_broker, served_on_controller, warm_up
from kcli.server.requests.quotas import ClientQuotas
from kcli.storage.directory import LogDirectory
from kcli.storage.log.record_validation import Validation
from kcli.storage.store.store import LogStore

if TYPE_CHECKING:
    from kcli.server.metrics.endpoint import MetricsEndpoint

_log = logging.getLogger("kcli.server.KafkaRaftServer")

# Flushes and checkpoints queue here; two, so that a slow flush does not hold up a checkpoint.
BACKGROUND_THREADS = 2
# How often files whose deletion delay has passed are looked for, and idle connections.
DELETION_INTERVAL_MS = 1_000
IDLE_CHECK_INTERVAL_MS = 10_000


@dataclass(frozen=True, slots=True)
class Features:
    """Supported ranges of every feature, and the finalized levels as of metadata offset `epoch`."""

    supported: dict[str, tuple[int, int]]
    finalized: dict[str, int]
    epoch: int


class Broker:
    """`start`, then serve until `stop`. `halted` is set with the reason when a failure ends it."""

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
        """Opens the directories; raises StorageError when they cannot be used.

        `background` flushes and writes checkpoints: threads of its own unless a simulation gives it something else.
        """
        self.config = config
        self.clock = clock
        self.disk = disk
        self.network = network
        self.rng = rng
        self.node_id = config.node_id
        self.halted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._background = background or ThreadPoolExecutor(BACKGROUND_THREADS, "kcli-background")
        self._housekeeping: asyncio.Task[None] | None = None
        self._is_made = False
        self.settling: asyncio.Task[None] | None = None

        self.cluster_id = ensure_formatted(config, Machine(disk, clock, rng), _log.info)
        self.dynamic_config = DynamicConfig(config)
        self.logs = self._open_logs()
        self.cleaning = LogCleaning(
            self.logs, clock, lambda: self.dynamic_config.current, executor=background
        )
        self.quorum = Quorum(self.logs, config, clock, rng, on_fatal=self._halt)
        self.lifecycle = self._make_lifecycle()
        self.metrics = self._make_metrics()
        self.replicas = Replicas(
            config.node_id, self.logs, self._log_config, self.metrics.traffic, self._background.submit
        )
        self.assignments = DirectoryAssignments(
            config.node_id, self.quorum, self.logs, lambda: self.lifecycle.epoch
        )
        self.moves = self._make_moves()
        self.groups = GroupCoordinator(config, clock, rng)
        self.producer_ids = ProducerIds(self._allocate_producer_ids)
        self.markers = MarkerWriter(self.replicas, self.groups, clock.now_ms)
        self.transactions = self._make_transactions()
        self.fetch_sessions = Sessions(config.integer("max.incremental.fetch.session.cache.slots"), rng)
        self.fetch_max_bytes = config.integer("fetch.max.bytes")
        self.quotas = ClientQuotas(config, clock)
        self.sockets = self._make_sockets()
        self.metrics_endpoint = self._make_metrics_endpoint()
        self.is_ready = False  # whether clients are served
        self._is_made = True

    def _open_logs(self) -> LogStore:
        config = self.config
        return LogStore.open(
            self.disk,
            self.clock,
            config.log_dirs,
            node_id=config.node_id,
            rng=self.rng,
            default_config=LogConfig.resolve({}, config),
            recovery_threads=config.integer("num.recovery.threads.per.data.dir"),
            producer_expiration_ms=config.integer("producer.id.expiration.ms"),
            validation=Validation(config.text("kcli.validate.records")),
            metadata_log_dir=config.metadata_log_dir,
            background=self._background.submit,
            on_failure=self._directory_failed_in_any_thread,
        )

    def _make_lifecycle(self) -> BrokerLifecycle:
        return BrokerLifecycle(
            self.quorum,
            self.config,
            self.rng,
            cluster_id=self.cluster_id,
            directories=self._online_directories(),
            previous_epoch=self.logs.previous_broker_epoch,
            offline_directories=self._offline_directories,
        )

    def _make_metrics(self) -> Metrics:
        return Metrics(
            self.clock,
            samples=self.config.integer("metrics.num.samples"),
            window_seconds=self.config.integer("metrics.sample.window.ms") / 1000,
        )

    def _make_moves(self) -> LogDirMoves:
        return LogDirMoves(
            self.replicas,
            self.assignments,
            self.dynamic_config,
            self.clock,
            self._background,
            lambda: self.metadata,
        )

    def _make_transactions(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            self.config,
            self.clock,
            metadata=lambda: self.metadata,
            producer_ids=self.producer_ids,
            markers=self.markers,
        )

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
        )

    # --- what handlers ask

    @property
    def metadata(self) -> MetadataImage:
        """The committed metadata."""
        return self.quorum.image

    def features(self) -> Features:
        image, kraft_version = self.metadata, self.quorum.raft.kraft_version
        # kraft.version lives in the log's control records, not in the image (KIP-853).
        kraft = {KRAFT_VERSION: kraft_version} if kraft_version > 0 else {}
        return Features(supported_ranges(), {**image.features, **kraft}, image.offset)

    def served_on(self, listener: str) -> tuple[ApiKey, ...]:
        """The APIs that are answered on a listener."""
        if listener in self.config.controller_listener_names:
            return served_on_controller()
        return served_on_broker()

    # --- life

    async def start(self) -> None:
        """Returns when clients are served."""
        began = self.clock.monotonic()
        await self._bind()
        await self.quorum.start(self._controller_listeners())
        self._take_up_metadata()
        await self.lifecycle.start(self._broker_listeners())
        self.assignments.load(self.metadata)
        self.moves.load()
        housekeeping = Housekeeping(self._jobs(), self._background)
        self._housekeeping = self._loop.create_task(housekeeping.run(), name="housekeeping")
        self.cleaning.start()
        self.sockets.admit()
        self.is_ready = True
        elapsed_ms = (self.clock.monotonic() - began) * 1000
        _log.info("[BrokerServer id=%d] Ready after %.0f ms", self.node_id, elapsed_ms)
        _log.info("[KafkaRaftServer nodeId=%d] Kafka Server started", self.node_id)
        self.settling = self._loop.create_task(self._settle(), name="settling")

    async def _settle(self) -> None:
        """After the start: loads what the first client will need."""
        await self._loop.run_in_executor(None, warm_up)

    async def stop(self, *, clean: bool = True) -> None:
        """Gives up leaderships, answers who waits, flushes and closes. Not `clean`: leaves the disks as they are."""
        began = self.clock.monotonic()
        _log.info("[BrokerServer id=%d] shutting down", self.node_id)
        self.is_ready = False
        if self._housekeeping is not None:
            self._housekeeping.cancel()
            await asyncio.gather(self._housekeeping, return_exceptions=True)
        await self.cleaning.stop()
        self.sockets.stop_accepting()
        await self.transactions.stop_sending()
        if clean:
            await self.transactions.stop()
            await self.groups.stop()
            await self.lifecycle.stop()
        await self.moves.stop()
        await self.assignments.stop()
        await self.sockets.close()
        if self.metrics_endpoint is not None:
            await self.metrics_endpoint.stop()
        await self.quorum.stop()
        await self._loop.run_in_executor(
            None, lambda: self.logs.close(clean, broker_epoch=self.lifecycle.epoch)
        )
        self._background.shutdown(wait=clean)
        elapsed_ms = (self.clock.monotonic() - began) * 1000
        _log.info("[BrokerServer id=%d] shut down completed in %.0f ms", self.node_id, elapsed_ms)

    async def _bind(self) -> None:
        """Opens every listener; clients that connect are held until `admit`."""
        self.sockets.hold()
        broker: Serve = Dispatch(self, served_on_broker())
        controller: Serve = Dispatch(self, served_on_controller())
        if self.metrics_endpoint is not None:
            await self.metrics_endpoint.start()
            broker, controller = (measured(serve, self.metrics.requests) for serve in (broker, controller))
        for listener in self.config.listeners:
            is_controller = listener.name in self.config.controller_listener_names
            opened = await self.sockets.listen(
                listener_settings(self.config, listener), controller if is_controller else broker
            )
            _log.info("Awaiting socket connections on %s:%d.", listener.host or "0.0.0.0", opened.port)

    def _broker_listeners(self) -> list[ConfiguredListener]:
        """What clients are told."""
        return [self._bound(listener) for listener in self.config.advertised_listeners]

    def _controller_listeners(self) -> list[ConfiguredListener]:
        return [self._bound(listener) for listener in self.config.advertised_controller_listeners]

    def _bound(self, listener: ConfiguredListener) -> ConfiguredListener:
        """A port 0 stands for the one that was bound."""
        if listener.port:
            return listener
        return listener.at(listener.host, self.sockets.listeners[listener.name].port)

    def _take_up_metadata(self) -> None:
        image = self.metadata
        self._update_config(image)
        self._expire_producers(self.dynamic_config.current)
        self.quotas.load(image)
        self.dynamic_config.subscribe(self._reconfigure)
        self.replicas.subscribe(self.groups.leadership_changed)
        self.replicas.subscribe(self.transactions.leadership_changed)
        self.groups.load(image)
        self.transactions.load(image)
        self.moves.recover(image)
        self.replicas.load(image)
        self.replicas.subscribe(self.assignments.leadership_changed)
        self.quorum.subscribe(self._metadata_changed)

    def _metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if any(resource.type is ConfigResourceType.BROKER for resource in delta.configs_changed):
            self._update_config(image)
        for topic in delta.topics_deleted:
            self.metrics.traffic.forget(topic.name)
        self.replicas.apply(delta, image)
        self.assignments.apply(delta)
        self.quotas.apply(delta, image)
        self.groups.apply(delta, image)
        self.transactions.apply(delta, image)

    def _update_config(self, image: MetadataImage) -> None:
        own = ConfigResource(ConfigResourceType.BROKER, str(self.node_id))
        self.dynamic_config.update(default=image.config(CLUSTER_DEFAULT), own=image.config(own))

    def _reconfigure(self, _before: BrokerConfig, after: BrokerConfig) -> None:
        self.sockets.limits = connection_limits(after)
        for listener in self.config.listeners:
            self.sockets.listeners[listener.name].settings = listener_settings(after, listener)
        self.sockets.admit_held()
        self._expire_producers(after)
        self.cleaning.reconfigure()
        self.replicas.reconfigure(None)

    def _expire_producers(self, config: BrokerConfig) -> None:
        self.logs.expire_producers_after(config.integer("producer.id.expiration.ms"))

    def _log_config(self, topic: str) -> LogConfig:
        return self.dynamic_config.log_config(self.metadata.topic_config(topic))

    async def _allocate_producer_ids(self) -> ProducerIdBlock:
        return ProducerIdBlock(*await self.quorum.allocate_producer_ids())

    # --- by the clock

    def _jobs(self) -> list[Job]:
        config, logs, now_ms = self.config, self.logs, self.clock.now_ms
        every = config.integer
        return [
            Job(
                "log retention",
                every("log.retention.check.interval.ms"),
                lambda: logs.delete_old_segments(now_ms()),
                first_ms=every("log.initial.task.delay.ms"),
            ),
            Job(
                "log flusher",
                every("log.flush.scheduler.interval.ms"),
                lambda: logs.flush_due(now_ms()),
                True,
            ),
            Job(
                "recovery point checkpoint",
                every("log.flush.offset.checkpoint.interval.ms"),
                logs.checkpoint_recovery_points,
                True,
            ),
            Job(
                "log start offset checkpoint",
                every("log.flush.start.offset.checkpoint.interval.ms"),
                logs.checkpoint_log_start_offsets,
                True,
            ),
            Job(
                "high watermark checkpoint",
                every("replica.high.watermark.checkpoint.interval.ms"),
                logs.checkpoint_high_watermarks,
                True,
            ),
            Job(
                "producer id expiry",
                every("producer.id.expiration.check.interval.ms"),
                lambda: logs.remove_expired_producers(now_ms()),
            ),
            Job("file deletion", DELETION_INTERVAL_MS, lambda: logs.delete_due_files(now_ms()), True),
            Job("idle connections", IDLE_CHECK_INTERVAL_MS, self.sockets.close_idle),
            *self._metrics_jobs(),
        ]

    def _make_metrics_endpoint(self) -> MetricsEndpoint | None:
        """Loaded only where it is asked for: starting must cost nothing for what is not."""
        if self.config.metrics_address is None:
            return None
        from kcli.server.metrics.endpoint import MetricsEndpoint

        return MetricsEndpoint(self, *self.config.metrics_address)

    def _metrics_jobs(self) -> list[Job]:
        if self.metrics_endpoint is None:
            return []
        return [Job("metrics", TICK_MS, lambda: self.metrics.tick(self.sockets.listeners))]

    # --- disks

    def _online_directories(self) -> list[uuid.UUID]:
        """What the broker registers with: no replica in another directory may be led (KIP-858)."""
        return [
            directory.id
            for directory in self.logs.directories
            if directory.error is None and directory.id is not None
        ]

    def _offline_directories(self) -> list[uuid.UUID]:
        return [
            directory.id
            for directory in self.logs.directories
            if directory.error is not None and directory.id is not None
        ]

    def _directory_failed_in_any_thread(self, directory: LogDirectory, error: StorageError) -> None:
        self._loop.call_soon_threadsafe(self._directory_failed, directory, error)

    def _directory_failed(self, directory: LogDirectory, error: StorageError) -> None:
        if not self._is_made:
            return  # the start itself has failed, and says why
        self.moves.directory_failed(directory)
        self.replicas.directory_failed(directory)
        if directory.path == self.config.metadata_log_dir:
            self._halt(f"the metadata log directory {directory.path} has failed: {error}")
        elif all(each.error is not None for each in self.logs.directories):
            self._halt(f"all log directories have failed: {', '.join(self.config.log_dirs)}")

    def _halt(self, reason: object) -> None:
        if not self.halted.done():
            _log.critical("[KafkaRaftServer nodeId=%d] Shutting down: %s", self.node_id, reason)
            self.halted.set_result(str(reason))
