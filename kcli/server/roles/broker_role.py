"""The broker role of a node: partitions, coordinators, and the registration with the controller.

At the start, the broker registers with the controller, loads its partitions and coordinators, and then asks the
controller to unfence it. At a clean stop, the controller first moves the broker's leaderships to other brokers
(KIP-841). Then the coordinators give up the groups and transactions that remain.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Executor

from kcli.config.broker import BrokerConfig
from kcli.config.topic import LogConfig
from kcli.replica.selector import SELECTORS, leader_only
from kcli.runtime.limited_lines import LimitedLines
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.lag_part import group_lag
from kcli.server.coordinators.marker_sender import MarkerSender, RemoteMarkers
from kcli.server.coordinators.topic_creation import TopicCreator
from kcli.server.coordinators.transaction_coordinators import RemoteVerifications, TransactionCoordinators
from kcli.server.coordinators.transaction_markers import MarkerWriter
from kcli.server.coordinators.transaction_verification import TransactionVerifier
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.handlers.shared.topic_answers import TopicAnswers
from kcli.server.handlers.shared.visible_topics import VisibleTopics
from kcli.server.partitions.directory_assignments import DirectoryAssignments
from kcli.server.partitions.fetch_sessions import REFRESHES_PER_LAG_TIME, FetchSessions
from kcli.server.partitions.fetchers import ReplicaFetchers
from kcli.server.partitions.isr_updates import IsrUpdates
from kcli.server.partitions.log_cleaning import LogCleaning
from kcli.server.partitions.log_dir_moves import LogDirMoves
from kcli.server.partitions.replicas import Replicas
from kcli.server.partitions.replication_quota import LEADER_RATE, ReplicationQuota
from kcli.server.partitions.strays import set_strays_aside
from kcli.server.parts.housekeeping import PeriodicJob
from kcli.server.parts.part import Part, Parts, always, if_clean
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle
from kcli.server.quorum.channels import ControllerChannels
from kcli.server.quorum.producer_ids import ProducerIds, allocate_block
from kcli.server.quorum.remote_controller import ASSIGNMENTS_LIMIT_S, FORWARDING_LIMIT_S
from kcli.server.roles.shared import Shared
from kcli.storage.directory import LogDirectory
from kcli.storage.store.store import LogStore


class BrokerRole:
    """The broker role, which starts when the node has metadata and `lifecycle` has registered the broker."""

    def __init__(
        self, shared: Shared, channels: ControllerChannels, cleaner_executor: Executor | None = None
    ) -> None:
        """`channels` lead to the active controller. `cleaner_executor` runs the log cleaner. If it is None, the cleaner
        makes its own threads."""
        self._shared = shared
        config = shared.config
        self.channel = channels.open("forwarding", FORWARDING_LIMIT_S)
        heartbeats = channels.open("heartbeat", config.integer("broker.heartbeat.interval.ms") / 1000)
        self.lifecycle = BrokerLifecycle(
            heartbeats,
            shared.loader,
            config,
            shared.rng,
            cluster_id=shared.image().cluster_id,
            directories=_ids(shared.logs, lambda directory: directory.error is None),
            previous_epoch=shared.logs.previous_broker_epoch,
            offline_directories=lambda: _ids(shared.logs, lambda directory: directory.error is not None),
        )
        partitions = self._make_partitions(channels)
        fetches = self._make_fetches()
        coordinators = self._make_coordinators()
        self.cleaning = LogCleaning(
            shared.logs, shared.clock, lambda: shared.dynamic_config.current, executor=cleaner_executor
        )
        self.parts = Parts(
            [
                *partitions,
                fetches,
                *coordinators,
                Part(
                    name="log cleaner",
                    start=self.cleaning.start,
                    stop=always(self.cleaning.stop),
                    reconfigure=lambda *_: self.cleaning.reconfigure(),
                    offers={"cleaning": self.cleaning},
                ),
                # Answers that many clients ask for are kept for the next client.
                Part(
                    name="kept answers",
                    offers={"topic_answers": TopicAnswers(), "visible_topics": VisibleTopics()},
                ),
                group_lag(config, self.groups, self.replicas, shared.image, shared.broker_links),
                # The last row, because a broker that stops its parts must send no more heartbeats. The first heartbeat
                # is sent before the metadata is loaded, so it does not belong to the start of the parts.
                Part(
                    name="registration",
                    stop=always(self.lifecycle.stop),
                    directory_failed=lambda _: self.lifecycle.send_soon(),
                    offers={
                        "channel": self.channel,
                        "controller_versions": self.channel.versions,
                        "lifecycle": self.lifecycle,
                    },
                ),
            ]
        )

    def _make_partitions(self, channels: ControllerChannels) -> list[Part]:
        shared, config, epoch = self._shared, self._shared.config, lambda: self.lifecycle.epoch
        to_controller = channels.open("directory-assignments", ASSIGNMENTS_LIMIT_S)
        isr_updates = IsrUpdates(config.node_id, channels.open("alter-partition", None), epoch)
        fetchers = self.fetchers = ReplicaFetchers(
            node_id=config.node_id,
            network=shared.network,
            clock=shared.clock,
            dynamic_config=shared.dynamic_config,
            background=shared.threads.logs.submit,
            image=shared.image,
            broker_epoch=epoch,
            sync_cuts=shared.logs.maintenance.sync_cuts,
            secure=shared.links.to_brokers,
        )
        lag_ms = config.integer("replica.lag.time.max.ms")
        replicas = self.replicas = Replicas(
            config.node_id,
            shared.logs,
            self._log_config,
            clock=shared.clock,
            lag_time_max_ms=lag_ms,
            fetchers=fetchers,
            isr_updates=isr_updates,
            traffic=shared.metrics.traffic,
            background=shared.threads.logs.submit,
        )
        assignments = self.assignments = DirectoryAssignments(
            config.node_id, to_controller, shared.loader, shared.logs, epoch
        )
        moves = self.moves = LogDirMoves(
            replicas, assignments, shared.dynamic_config, shared.clock, shared.threads.moves, shared.image
        )
        return [
            Part(
                name="logs",
                load=lambda _: self._expire_producers(shared.dynamic_config.current),
                reconfigure=lambda _, after: self._expire_producers(after),
            ),
            # Assignments and moves start below, because both need a broker that is registered and leads. They stop
            # after the replicas, because replicas and moves report directories until their own end.
            Part(
                name="directory assignments",
                stop=always(assignments.stop),
                offers={"assignments": assignments},
            ),
            Part(
                name="moves between directories",
                load=moves.recover,  # before the replicas use the logs
                stop=always(moves.stop),
                directory_failed=moves.directory_failed,  # while the replicas still have their logs
                offers={"moves": moves},
            ),
            Part(
                name="fetchers",
                load=lambda _: fetchers.reconfigure(shared.dynamic_config.current),
                stop=always(fetchers.stop),
                reconfigure=lambda _, after: fetchers.reconfigure(after),
                offers={"fetchers": fetchers},
            ),
            Part(name="ISR changes", stop=always(isr_updates.stop)),
            Part(
                name="replicas",
                start=self._lead_and_follow,
                stop=always(replicas.stop),
                apply=replicas.apply,
                reconfigure=lambda *_: replicas.reconfigure(None),
                directory_failed=replicas.directory_failed,
                # As in Kafka, a replica leaves the ISR 1 to 1.5 times this lag after it was last caught up.
                jobs=[PeriodicJob("isr expiration", max(lag_ms // 2, 1), replicas.shrink_isrs)],
                # The second are the lines about batches of clients that are refused.
                offers={"replicas": replicas, "refused_batches": LimitedLines()},
            ),
            # Clients may come when the broker is unfenced, so all partitions are led before.
            Part(name="unfencing", start=self.lifecycle.unfence),
            # The replicas apply a change first, because they choose the directories.
            Part(
                name="report of directories",
                start=lambda: assignments.load(shared.image()),
                apply=lambda delta, _: assignments.apply(delta),
            ),
            Part(name="interrupted moves", start=moves.load),
        ]

    def _make_fetches(self) -> Part:
        """Makes what the fetches of clients and followers share."""
        shared, config = self._shared, self._shared.config
        self.fetch_sessions = FetchSessions(
            config.integer("max.incremental.fetch.session.cache.slots"),
            shared.rng,
            refresh_ms=config.integer("replica.lag.time.max.ms") // REFRESHES_PER_LAG_TIME,
        )
        leader_quota = ReplicationQuota(LEADER_RATE, shared.dynamic_config.current, shared.clock)
        return Part(
            name="fetches",
            load=lambda _: leader_quota.reconfigure(shared.dynamic_config.current),
            reconfigure=lambda _, after: leader_quota.reconfigure(after),
            offers={
                "fetch_sessions": self.fetch_sessions,
                "fetch_max_bytes": config.integer("fetch.max.bytes"),
                "replica_selector": SELECTORS.get(config.text("replica.selector.class"), leader_only),
                "leader_quota": leader_quota,
                "damaged_batches": LimitedLines(),  # the lines about fetches that found damaged batches
            },
        )

    def _make_coordinators(self) -> list[Part]:
        shared, config, clock = self._shared, self._shared.config, self._shared.clock
        topics = TopicCreator(self.channel, config)
        groups = self.groups = GroupCoordinator(config, clock, shared.rng)
        producer_ids = ProducerIds(lambda: allocate_block(self.channel, shared.loader, config.node_id))
        self.markers = MarkerWriter(self.replicas, groups, clock.now_ms)
        marker_links = shared.broker_links("txn-marker-sender")
        transactions = self.transactions = TransactionCoordinator(
            config,
            clock,
            metadata=shared.image,
            producer_ids=producer_ids,
            markers=MarkerSender(config.node_id, shared.image, self.markers, RemoteMarkers(marker_links)),
        )
        verifications = RemoteVerifications(shared.broker_links("AddPartitionsToTxnManager"))
        self.verifier = TransactionVerifier(
            shared.dynamic_config,
            clock,
            TransactionCoordinators(config.node_id, shared.image, transactions, verifications),
        )
        self.replicas.subscribe(groups.leadership_changed)
        self.replicas.subscribe(transactions.leadership_changed)
        return [
            Part(name="creation of topics", stop=always(topics.stop), offers={"topics": topics}),
            # The coordinators apply a change after the replicas, because their shards follow the leaderships.
            Part(
                name="groups",
                load=groups.load,
                apply=groups.apply,
                stop=if_clean(groups.stop),
                offers={"groups": groups},
            ),
            Part(
                name="transactions",
                load=transactions.load,
                apply=transactions.apply,
                stop=if_clean(transactions.stop),
                offers={
                    "transactions": transactions,
                    "verifier": self.verifier,
                    "producer_ids": producer_ids,
                },
            ),
            Part(name="verifications", stop=always(verifications.stop)),
            Part(
                name="markers",
                stop=always(transactions.stop_sending),
                offers={"markers": self.markers, "marker_links": marker_links},
            ),
        ]

    async def start(self) -> None:
        """Loads partitions and coordinators from the metadata, and returns when the broker is unfenced."""
        shared = self._shared
        await set_strays_aside(self.replicas, shared.image(), shared.quorum.log.removed_topics)
        self.parts.follow(shared.dynamic_config, shared.loader)
        await self.parts.start()

    async def stop(self, *, clean: bool) -> None:
        """Stops the role, and answers waiting requests.

        If `clean` is False, this method only ends the tasks. Groups and transactions do not change.
        """
        await self.parts.stop(clean=clean)

    async def _lead_and_follow(self) -> None:
        self.replicas.load(self._shared.image())
        # `assignments.load` reports the directories of the logs that are on the disk already.
        self.replicas.subscribe_hosted(self.assignments.replica_hosted)
        await self.replicas.applied()

    def _expire_producers(self, config: BrokerConfig) -> None:
        self._shared.logs.maintenance.expire_producers_after(config.integer("producer.id.expiration.ms"))

    def _log_config(self, topic: str) -> LogConfig:
        shared = self._shared
        return shared.dynamic_config.log_config(shared.image().topic_config(topic))


def _ids(logs: LogStore, chosen: Callable[[LogDirectory], bool]) -> list[uuid.UUID]:
    """Returns the ids of the directories that `chosen` accepts. The broker registers these ids, because it cannot lead
    a partition in a directory that is not registered (KIP-858)."""
    return [directory.id for directory in logs.directories if chosen(directory) and directory.id is not None]
