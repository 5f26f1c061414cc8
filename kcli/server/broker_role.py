"""The broker role of a node: partitions, coordinators, and the registration with the controller.

At the start, the broker registers with the controller, loads its partitions and coordinators, and then asks the
controller to unfence it. At a clean stop, the controller first moves the broker's leaderships to other brokers
(KIP-841). Then the coordinators give up the groups and transactions that remain.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.config.broker import BrokerConfig
from kcli.config.dynamic import DynamicConfig
from kcli.config.listeners import Listener
from kcli.config.topic import LogConfig
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.metadata.removed_topics import RemovedTopics
from kcli.model.ids import Offset
from kcli.replica.selector import SELECTORS, leader_only
from kcli.runtime.clock import Clock
from kcli.runtime.network import Network
from kcli.runtime.rng import Rng
from kcli.runtime.threads import NodeThreads
from kcli.server.coordinators.broker_links import BrokerLinks
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.marker_sender import MarkerSender, RemoteMarkers
from kcli.server.coordinators.topic_creation import TopicCreator
from kcli.server.coordinators.transaction_coordinators import RemoteVerifications, TransactionCoordinators
from kcli.server.coordinators.transaction_markers import MarkerWriter
from kcli.server.coordinators.transaction_verification import TransactionVerifier
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.handlers.ports import BrokerPorts, NodePorts
from kcli.server.metrics.traffic import TrafficTable
from kcli.server.network.links import Secure
from kcli.server.partitions.directory_assignments import DirectoryAssignments
from kcli.server.partitions.fetch_sessions import REFRESHES_PER_LAG_TIME, FetchSessions
from kcli.server.partitions.fetchers import ReplicaFetchers
from kcli.server.partitions.isr_updates import IsrUpdates
from kcli.server.partitions.log_cleaning import LogCleaning
from kcli.server.partitions.log_dir_moves import LogDirMoves
from kcli.server.partitions.replicas import Replicas
from kcli.server.partitions.replication_quota import LEADER_RATE, ReplicationQuota
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle
from kcli.server.quorum.channel import ControllerChannel, NodeChannel
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.producer_ids import ProducerIds, allocate_block
from kcli.storage.directory import LogDirectory
from kcli.storage.store.opening import STRAYS_SHOWN
from kcli.storage.store.store import LogStore

if TYPE_CHECKING:
    from kcli.server.coordinators.group_lag import GroupLagSampler

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The parts of a node that its broker role uses.

    The channels lead to the active controller. Each has a queue of its own, so that no heartbeat waits for the request
    of a client. `channel` is for requests of clients and for producer ids, `heartbeats` for the registration.
    `assignments` is for the directories of replicas, and `isr_changes` for proposed ISRs. `secure` has the security of
    the inter-broker listener. `removed_topics` reads from the metadata log the topics that were removed before an
    offset. `threads` run work that blocks. `cleaner_executor` runs the log cleaner. If `cleaner_executor` is None,
    the cleaner makes its own threads.
    """

    config: BrokerConfig
    dynamic_config: DynamicConfig
    clock: Clock
    rng: Rng
    logs: LogStore
    loader: MetadataLoader
    channel: NodeChannel
    heartbeats: ControllerChannel
    assignments: ControllerChannel
    isr_changes: ControllerChannel
    network: Network
    secure: Secure
    removed_topics: Callable[[Offset], RemovedTopics]
    traffic: TrafficTable
    threads: NodeThreads
    cleaner_executor: Executor | None


class BrokerRole:
    """The broker role, which starts when the node has metadata. Handlers use it only through `ports`."""

    def __init__(self, given: Surroundings) -> None:
        config, clock, logs = given.config, given.clock, given.logs
        self._given = given
        self.channel = given.channel
        self.cleaning = LogCleaning(
            logs, clock, lambda: given.dynamic_config.current, executor=given.cleaner_executor
        )
        self.lifecycle = self._make_lifecycle()
        self.isr_updates = IsrUpdates(config.node_id, given.isr_changes, lambda: self.lifecycle.epoch)
        self.fetchers = self._make_fetchers()
        self.replicas = self._make_replicas()
        self.assignments = DirectoryAssignments(
            config.node_id, given.assignments, given.loader, logs, lambda: self.lifecycle.epoch
        )
        self.moves = self._make_moves()
        self.groups = GroupCoordinator(config, clock, given.rng)
        self.group_lag = self._make_group_lag()
        self.producer_ids = ProducerIds(lambda: allocate_block(given.channel, given.loader, config.node_id))
        self.markers = MarkerWriter(self.replicas, self.groups, clock.now_ms)
        self.marker_links = self._links("txn-marker-sender")
        self.transactions = TransactionCoordinator(
            config,
            clock,
            metadata=lambda: given.loader.image,
            producer_ids=self.producer_ids,
            markers=self._make_marker_sender(),
        )
        self.verification_links = self._links("AddPartitionsToTxnManager")
        self.remote_verifications = RemoteVerifications(self.verification_links)
        self.verifier = TransactionVerifier(
            given.dynamic_config,
            clock,
            TransactionCoordinators(
                config.node_id, lambda: given.loader.image, self.transactions, self.remote_verifications
            ),
        )
        self.topics = TopicCreator(given.channel, config)
        self.fetch_sessions = FetchSessions(
            config.integer("max.incremental.fetch.session.cache.slots"),
            given.rng,
            refresh_ms=config.integer("replica.lag.time.max.ms") // REFRESHES_PER_LAG_TIME,
        )
        self.leader_quota = ReplicationQuota(LEADER_RATE, given.dynamic_config.current, clock)

    def _make_lifecycle(self) -> BrokerLifecycle:
        given = self._given
        return BrokerLifecycle(
            given.heartbeats,
            given.loader,
            given.config,
            given.rng,
            cluster_id=given.loader.image.cluster_id,
            directories=_ids(given.logs, lambda directory: directory.error is None),
            previous_epoch=given.logs.previous_broker_epoch,
            offline_directories=lambda: _ids(given.logs, lambda directory: directory.error is not None),
        )

    def _make_fetchers(self) -> ReplicaFetchers:
        given = self._given
        return ReplicaFetchers(
            node_id=given.config.node_id,
            network=given.network,
            clock=given.clock,
            dynamic_config=given.dynamic_config,
            background=given.threads.logs.submit,
            image=lambda: given.loader.image,
            broker_epoch=lambda: self.lifecycle.epoch,
            sync_cuts=given.logs.maintenance.sync_cuts,
            secure=given.secure,
        )

    def _make_replicas(self) -> Replicas:
        given = self._given
        return Replicas(
            given.config.node_id,
            given.logs,
            self._log_config,
            clock=given.clock,
            lag_time_max_ms=given.config.integer("replica.lag.time.max.ms"),
            fetchers=self.fetchers,
            isr_updates=self.isr_updates,
            traffic=given.traffic,
            background=given.threads.logs.submit,
        )

    def _make_moves(self) -> LogDirMoves:
        given = self._given
        return LogDirMoves(
            self.replicas,
            self.assignments,
            given.dynamic_config,
            given.clock,
            given.threads.moves,
            lambda: given.loader.image,
        )

    def _make_marker_sender(self) -> MarkerSender:
        remote = RemoteMarkers(self.marker_links)
        given = self._given
        return MarkerSender(given.config.node_id, lambda: given.loader.image, self.markers, remote)

    def _make_group_lag(self) -> GroupLagSampler | None:
        """Makes the sampler of lag, if the broker has a metrics endpoint. Without a metrics endpoint, the sampler's
        code is not imported, so that the start is faster.
        """
        if self._given.config.metrics_address is None:
            return None
        from kcli.server.coordinators.group_lag import GroupLagSampler
        from kcli.server.coordinators.remote_ends import LIMIT_S, RemoteEnds

        remote = RemoteEnds(self._links("group-lag", LIMIT_S))
        return GroupLagSampler(
            self._given.config.node_id, self.groups, self.replicas, lambda: self._given.loader.image, remote
        )

    def _links(self, purpose: str, timeout_s: float | None = None) -> BrokerLinks:
        """Connections to other brokers. Without `timeout_s`, request.timeout.ms is the limit of a request."""
        config = self._given.config
        return BrokerLinks(
            self._given.network,
            lambda: self._given.loader.image,
            listener=config.inter_broker_listener_name,
            client_id=f"broker-{config.node_id}-{purpose}",
            timeout_s=config.integer("request.timeout.ms") / 1000 if timeout_s is None else timeout_s,
            secure=self._given.secure,
        )

    def ports(self, node: NodePorts) -> BrokerPorts:
        return BrokerPorts(
            config=node.config,
            dynamic_config=node.dynamic_config,
            clock=node.clock,
            rng=node.rng,
            loader=node.loader,
            channel=self._given.channel,
            quorum=node.quorum,
            raft=node.raft,
            metrics=node.metrics,
            served_on=node.served_on,
            serve_forwarded=node.serve_forwarded,
            controller_versions=self._given.channel.versions,
            logs=self._given.logs,
            replicas=self.replicas,
            fetchers=self.fetchers,
            moves=self.moves,
            fetch_sessions=self.fetch_sessions,
            fetch_max_bytes=node.config.integer("fetch.max.bytes"),
            replica_selector=SELECTORS.get(node.config.text("replica.selector.class"), leader_only),
            leader_quota=self.leader_quota,
            groups=self.groups,
            group_lag=self.group_lag,
            transactions=self.transactions,
            verifier=self.verifier,
            markers=self.markers,
            producer_ids=self.producer_ids,
            topics=self.topics,
        )

    async def register(self, listeners: Sequence[Listener]) -> None:
        """Registers with the controller, and returns when this node has read its own registration.

        `listeners` are part of the registration. Raises KafkaError if the controller refuses the broker.
        """
        await self.lifecycle.start(listeners)

    async def start(self) -> None:
        """Loads partitions and coordinators from the metadata, and returns when the broker is unfenced."""
        self._expire_producers(self._given.dynamic_config.current)
        self._given.dynamic_config.subscribe(self._reconfigure)
        self.replicas.subscribe(self.groups.leadership_changed)
        self.replicas.subscribe(self.transactions.leadership_changed)
        await self._set_strays_aside()
        image = self._given.loader.image
        self.groups.load(image)
        self.transactions.load(image)
        self.moves.recover(image)
        self.replicas.load(image)
        self.replicas.subscribe_hosted(self.assignments.replica_hosted)
        self._given.loader.subscribe(self._metadata_changed)
        await self.replicas.applied()
        await self.lifecycle.unfence()
        await self.assignments.load(self._given.loader.image)
        self.moves.load()
        self.cleaning.start()
        if self.group_lag is not None:
            self.group_lag.start()

    async def _set_strays_aside(self) -> None:
        """Deletes logs that a stop or a crash has left on the disk although their topics are deleted. Renames other
        logs that are not in the metadata ("sets them aside").

        Kafka sets aside all logs that are not in the metadata, and never deletes them. This broker deletes such a log
        if the metadata log contains the removal of its topic.
        """
        image, logs = self._given.loader.image, self._given.logs
        strays = self.replicas.strays(image)
        if not strays:
            return

        def set_aside() -> None:
            removed = self._given.removed_topics(Offset(image.offset + 1))
            deleted = [log for log in strays if removed.has(log.topic, log.topic_id)]
            kept = [log for log in strays if not removed.has(log.topic, log.topic_id)]
            if kept:
                shown = ", ".join(log.path for log in kept[:STRAYS_SHOWN])
                _log.warning(
                    "%d logs are stray: no topic of this cluster, or no replica of this node: %s",
                    len(kept),
                    shown,
                )
            logs.set_aside(deleted, kept)
            _log.info(
                "%d logs of deleted topics are deleted, %d strays are set aside", len(deleted), len(kept)
            )

        await asyncio.to_thread(set_aside)

    async def finish_deletions(self) -> None:
        """Deletes the logs that are still on the disk although their topics were deleted. Call this method after the
        last metadata change.
        """
        await self.replicas.finish_deletions()

    async def leave(self) -> None:
        """Asks for a controlled shutdown. Returns when the controller lets the broker stop, or after a time limit.

        Meanwhile the broker serves clients and followers and applies the metadata, because its leaderships move one
        after another.
        """
        await self.lifecycle.leave()

    async def stop(self, *, clean: bool) -> None:
        """Stops the role, and answers waiting requests.

        If `clean` is False, this method only ends the tasks. Groups and transactions do not change.
        """
        await self.lifecycle.stop()
        if self.group_lag is not None:
            await self.group_lag.stop()
        await self.cleaning.stop()
        await self.transactions.stop_sending()
        await self.remote_verifications.stop()
        if clean:
            await self.transactions.stop()
            await self.groups.stop()
        await self.topics.stop()
        self.replicas.stop()
        await self.isr_updates.stop()
        await self.fetchers.stop()
        await self.moves.stop()
        await self.assignments.stop()

    def directory_failed(self, directory: LogDirectory) -> None:
        """Takes the directory offline, and immediately sends a heartbeat that reports the failure."""
        self.moves.directory_failed(directory)
        self.replicas.directory_failed(directory)
        self.lifecycle.send_soon()

    def _metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.replicas.apply(delta, image)
        self.assignments.apply(delta)
        self.groups.apply(delta, image)
        self.transactions.apply(delta, image)

    def _reconfigure(self, _before: BrokerConfig, after: BrokerConfig) -> None:
        self._expire_producers(after)
        self.cleaning.reconfigure()
        self.leader_quota.reconfigure(after)
        self.replicas.reconfigure(None)

    def _expire_producers(self, config: BrokerConfig) -> None:
        self._given.logs.maintenance.expire_producers_after(config.integer("producer.id.expiration.ms"))

    def _log_config(self, topic: str) -> LogConfig:
        return self._given.dynamic_config.log_config(self._given.loader.image.topic_config(topic))


def _ids(logs: LogStore, chosen: Callable[[LogDirectory], bool]) -> list[uuid.UUID]:
    """Returns the ids of the directories that `chosen` accepts. The broker registers these ids, because it cannot lead
    a partition in a directory that is not registered (KIP-858)."""
    return [directory.id for directory in logs.directories if chosen(directory) and directory.id is not None]
