"""The controller role of a node: the active controller while this node leads the quorum, otherwise a standby.

A standby has no work, because every node replays the metadata log anyway. When this node has become the leader and has
replayed all older records, it makes a new active controller from the newest metadata. The sessions of all brokers begin
at this time. The new controller first aborts a metadata transaction that the last controller left open. In a new
cluster, it also writes the bootstrap records. Only then does it serve requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from kcli.config.broker import BrokerConfig
from kcli.config.features import supported_ranges
from kcli.config.listeners import SECURITY_PROTOCOLS, Listener
from kcli.controller.api import OWN_REQUEST, ControllerApi, ControllerRequestContext
from kcli.controller.bootstrap import first_log_records
from kcli.controller.controller import Controller
from kcli.controller.policies import NO_POLICIES, Policies
from kcli.controller.settings import ControllerSettings, TokenSettings
from kcli.errors import NotControllerException, StorageError
from kcli.metadata.image import ControllerRegistration, Endpoint, VersionRange
from kcli.metadata.replay import ImageReplayer
from kcli.model.ids import LeaderEpoch
from kcli.protocol.records.metadata import MetadataRecord
from kcli.runtime.clock import Clock
from kcli.runtime.rng import Rng
from kcli.runtime.threads import run_in
from kcli.server.quorum.active_controller import ActiveController, Q, R, session_ms
from kcli.server.quorum.counts import ControllerCounts, ControllerTimes
from kcli.server.quorum.housekeeping import QuorumHousekeeping
from kcli.server.quorum.quorum import Leadership, Quorum

_log = logging.getLogger("kcli.server.QuorumController")


class ControllerRole:
    """The controller role. It starts before the quorum. Until `stop`, it serves requests as a `ControllerChannel`."""

    def __init__(
        self,
        quorum: Quorum,
        config: BrokerConfig,
        clock: Clock,
        rng: Rng,
        *,
        on_fatal: Callable[[BaseException], None],
        policies: Policies = NO_POLICIES,
    ) -> None:
        """`on_fatal` ends the node, and is called if the controller cannot begin its work."""
        self.active: ActiveController | None = None
        self.counts = ControllerCounts()
        self.times = ControllerTimes()
        self.registration: ControllerRegistration | None = None
        self._bootstrap: list[MetadataRecord] | None = None
        self._housekeeping: QuorumHousekeeping | None = None
        self._quorum = quorum
        self._config = config
        self._clock = clock
        self._rng = rng
        self._on_fatal = on_fatal
        self._policies = policies
        self._is_stopped = False
        quorum.on_leadership(Leadership(self._begin, self._end))

    async def start(self, listeners: Sequence[Listener] | None = None) -> None:
        """Prepares this node for the leadership, and does not wait until this node leads. Call this method before the
        start of the quorum.

        `listeners` take precedence over the advertised listeners of the configuration. Raises StorageError if the node
        is not formatted.
        """
        self.registration = self._make_registration(
            self._config.advertised_controller_listeners if listeners is None else listeners
        )
        try:
            self._bootstrap = await run_in(self._quorum.threads.files, self._quorum.log.read_bootstrap)
        except StorageError:
            if self._quorum.log.end_offset == 0:
                raise

    async def stop(self, *, clean: bool = True) -> None:
        """Ends the periodic work. If `clean` is True, waits until the appended records are committed, up to a time
        limit. The leadership ends later, when the quorum stops.
        """
        self._is_stopped = True
        if self._housekeeping is not None:
            self._housekeeping.stop()
        last = self._quorum.committed.last_appended
        if clean and last is not None:
            await asyncio.wait((last,), timeout=COMMIT_TIMEOUT_S)
        self._end(self._quorum.not_leading())

    @property
    def is_active(self) -> bool:
        """Whether this controller leads the quorum and accepts requests."""
        return self.active is not None

    async def send(
        self, api: ControllerApi[Q, R], request: Q, context: ControllerRequestContext = OWN_REQUEST
    ) -> R:
        """Sends a request to the controller of this node. Raises NotControllerException if this controller is not
        active.
        """
        if self.active is None:
            raise self._quorum.not_leading()
        return await self.active.send(api, request, context)

    # The lead.

    def _begin(self, epoch: LeaderEpoch) -> None:
        if self._is_stopped:
            return
        _log.info(
            "Becoming the active controller at epoch %d, next write offset %d.",
            epoch,
            self._quorum.log.end_offset,
        )
        replayer = ImageReplayer.at(self._quorum.committed.point)
        settings = controller_settings(self._config, self._quorum.view.kraft_version, self._policies)
        controller = Controller(replayer, settings, self._rng, session_ms(self._clock))
        active = ActiveController(controller, replayer, self._quorum, self._clock, self.counts, self.times)
        try:
            self._write_first_records(active, settings)
        except Exception as error:
            # A disk has failed, or kcli has a bug. The node must not stay without a controller silently.
            self._on_fatal(error)
            return
        self.active = active
        self._housekeeping = QuorumHousekeeping(active, self._config, self._clock, self.counts)
        self._housekeeping.start()

    def _write_first_records(self, active: ActiveController, settings: ControllerSettings) -> None:
        controller = active.controller
        if controller.in_transaction:
            active.append(controller.abort_transaction())
        if controller.image.metadata_version == 0:
            if self._bootstrap is None:
                raise StorageError("the metadata log has no bootstrap records, and no file has them")
            active.append(first_log_records(self._bootstrap, settings.static_config))
        assert self.registration is not None, "start has made it"
        registration = controller.register_controller(self.registration)
        if registration:
            active.append(registration)

    def _end(self, error: NotControllerException) -> None:
        """Ends the leadership. Requests that wait for a commit get the error."""
        if self.active is None:
            return
        _log.info(
            "Renouncing the leadership, reverting to last stable offset %d. %s",
            self._quorum.committed.next_offset - 1,
            error.message,
        )
        if self._housekeeping is not None:
            self._housekeeping.stop()
        self.active.end(error)
        self.active = None

    def _make_registration(self, listeners: Sequence[Listener]) -> ControllerRegistration:
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
            features=_supported_features(),
        )


COMMIT_TIMEOUT_S = 5.0
"""The longest wait for the commit of appended records at a stop. Without a majority they are never committed."""


def controller_settings(
    config: BrokerConfig, kraft_version: int, policies: Policies = NO_POLICIES
) -> ControllerSettings:
    return ControllerSettings(
        node_id=config.node_id,
        supported_features=_supported_features(),
        num_partitions=config.integer("num.partitions"),
        default_replication_factor=config.integer("default.replication.factor"),
        delete_topic_enable=config.boolean("delete.topic.enable"),
        broker_session_timeout_ms=config.integer("broker.session.timeout.ms"),
        unclean_leader_election_enable=config.boolean("unclean.leader.election.enable"),
        remote_log_storage_system_enable=config.boolean("remote.log.storage.system.enable"),
        kraft_version=kraft_version,
        static_voters=frozenset(config.quorum_voters),
        policies=policies,
        tokens=TokenSettings(
            config.text("delegation.token.secret.key") or None,
            max_lifetime_ms=config.integer("delegation.token.max.lifetime.ms"),
            renewal_ms=config.integer("delegation.token.expiry.time.ms"),
        ),
        static_config=dict(config.texts),
        config=config,
    )


def _supported_features() -> dict[str, VersionRange]:
    return {name: VersionRange(lowest, highest) for name, (lowest, highest) in supported_ranges().items()}
