"""The controller role of a node: the metadata log, the raft node, and the controller while this node leads.

Start: replay the log, become the leader, write the first records of a new cluster, register this controller. One voter
is a majority of one, so this node leads when `start` returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kcli.config.broker import BrokerConfig
from kcli.config.features import supported_ranges
from kcli.config.listeners import SECURITY_PROTOCOLS, Listener
from kcli.controller.api import OWN_REQUEST, ControllerApi, ControllerRequestContext
from kcli.controller.bootstrap import first_log_records
from kcli.controller.controller import Controller
from kcli.controller.settings import ControllerSettings
from kcli.errors import NotControllerException
from kcli.metadata.image import ControllerRegistration, Endpoint, VersionRange
from kcli.metadata.replay import ImageReplayer
from kcli.raft.node import RaftNode
from kcli.raft.settings import RaftSettings
from kcli.raft.voters import ReplicaKey
from kcli.runtime.clock import Clock
from kcli.runtime.rng import Rng
from kcli.server.quorum.active_controller import ActiveController, Q, R
from kcli.server.quorum.driver import RaftDriver
from kcli.server.quorum.housekeeping import QuorumHousekeeping
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.metadata_log import MetadataLog
from kcli.server.quorum.view import QuorumView
from kcli.storage.store.store import LogStore


class ControllerRole:
    """The controller role. It starts before the broker role, and is the `ControllerChannel` of the node until
    `stop`."""

    def __init__(
        self,
        logs: LogStore,
        config: BrokerConfig,
        clock: Clock,
        rng: Rng,
        loader: MetadataLoader,
        *,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.log = MetadataLog(logs, config, clock, rng)
        self.active: ActiveController | None = None
        self.housekeeping: QuorumHousekeeping | None = None
        self._raft = RaftNode(ReplicaKey(config.node_id, self.log.directory_id), RaftSettings(), rng.random)
        self.view = QuorumView(self._raft, self.log)
        self._driver = RaftDriver(self._raft, self.log, clock)
        self._loader = loader
        self._config = config
        self._clock = clock
        self._rng = rng
        self._on_fatal = on_fatal

    async def start(self, listeners: Sequence[Listener] | None = None) -> None:
        """Starts and leads. `listeners` take precedence over the advertised listeners of the configuration.

        Raises StorageError if the node is not formatted, and QuorumError if it cannot be a quorum by itself.
        """
        replayer = ImageReplayer(self._loader.image)
        quorum_voters = await asyncio.to_thread(self.log.load, replayer)
        settings = controller_settings(self._config, quorum_voters.kraft_version)
        controller = Controller(replayer, settings, self._rng, self._clock.now_ms())
        controller.next_offset = self.log.end_offset
        self._loader.image = controller.image
        active = ActiveController(
            controller, self._driver, self._loader, self._clock, on_fatal=self._on_fatal
        )
        await active.lead(quorum_voters)
        self.active = active
        self.housekeeping = QuorumHousekeeping(
            active, self.log, self._loader, quorum_voters, self._config, self._clock
        )
        try:
            self.housekeeping.start()
            await self._write_first_records(active, settings)
            registration = self._registration(
                settings, self._config.advertised_controller_listeners if listeners is None else listeners
            )
            await active.write(controller.register_controller(registration))
        except BaseException:
            await self.stop()
            raise

    async def _write_first_records(self, active: ActiveController, settings: ControllerSettings) -> None:
        controller = active.controller
        if controller.in_transaction:
            await active.write(controller.abort_transaction())
        if self._loader.image.metadata_version == 0:
            bootstrap = await asyncio.to_thread(self.log.read_bootstrap)
            await active.write(first_log_records(bootstrap, settings.static_config))

    def _registration(
        self, settings: ControllerSettings, listeners: Sequence[Listener]
    ) -> ControllerRegistration:
        return ControllerRegistration(
            id=self._config.node_id,
            incarnation_id=self._rng.uuid(),
            endpoints={
                listener.name: Endpoint(
                    listener.name,
                    listener.host,
                    listener.port,
                    SECURITY_PROTOCOLS.index(listener.security_protocol),
                )
                for listener in listeners
            },
            features=settings.supported_features,
        )

    async def stop(self) -> None:
        """Ends the housekeeping, commits the appended records, then resigns. The store closes the log."""
        if self.housekeeping is not None:
            await self.housekeeping.stop()
        if self.active is not None:
            await self.active.stop()
        self.active = None

    async def send(
        self, api: ControllerApi[Q, R], request: Q, context: ControllerRequestContext = OWN_REQUEST
    ) -> R:
        """Sends a request to the controller of this node. Raises NotControllerException while it does not lead."""
        if self.active is None:
            raise NotControllerException
        return await self.active.send(api, request, context)


def controller_settings(config: BrokerConfig, kraft_version: int) -> ControllerSettings:
    return ControllerSettings(
        node_id=config.node_id,
        supported_features={
            name: VersionRange(lowest, highest) for name, (lowest, highest) in supported_ranges().items()
        },
        num_partitions=config.integer("num.partitions"),
        default_replication_factor=config.integer("default.replication.factor"),
        delete_topic_enable=config.boolean("delete.topic.enable"),
        broker_session_timeout_ms=config.integer("broker.session.timeout.ms"),
        unclean_leader_election_enable=config.boolean("unclean.leader.election.enable"),
        remote_log_storage_system_enable=config.boolean("remote.log.storage.system.enable"),
        kraft_version=kraft_version,
        static_config=dict(config.texts),
        config=config,
    )
