"""The quorum part of a node: the metadata log, the raft node, and the committed metadata. The raft node follows another
node or leads the quorum.

Every node has one `Quorum` object. A controller can vote and lead. A node without the controller role only follows (an
observer). The arrows show the way of requests and records through the parts:

    peers, handlers -> driver -> raft node -> driver -> log, peers, committed metadata -> loader -> listeners
                                                                                       -> controller role
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.config.features import KRAFT_VERSION, supported_ranges
from kcli.config.listeners import Listener
from kcli.errors import NotControllerException
from kcli.metadata.replay import ImageReplayer
from kcli.model.addresses import Address
from kcli.model.ids import NO_LEADER, BrokerId, LeaderEpoch
from kcli.raft.messages import Shutdown
from kcli.raft.node import QuorumError, RaftNode
from kcli.raft.settings import RaftSettings
from kcli.raft.states.leader import Leader
from kcli.raft.states.table import State
from kcli.raft.voters import ReplicaKey
from kcli.runtime.clock import Clock
from kcli.runtime.network import Network
from kcli.runtime.rng import Rng
from kcli.runtime.threads import DEFAULT_THREADS, QuorumThreads, run_in
from kcli.server.network.links import Secure, plain_text
from kcli.server.quorum.committed import CommittedMetadata
from kcli.server.quorum.driver import RaftDriver
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.metadata_log import MetadataLog
from kcli.server.quorum.raft_peers import RaftPeers
from kcli.server.quorum.snapshotting import Snapshotting
from kcli.server.quorum.view import QuorumView
from kcli.storage.store.store import LogStore

_log = logging.getLogger("kcli.server.RaftManager")

SHUTDOWN_TIMEOUT_S = 5.0
"""The longest wait for the other voters when the leader stops. Kafka waits as long."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """The functions that are called when this node begins to lead and when it stops leading.

    `begin` gets the leader epoch. It is called when all records of earlier epochs are committed and replayed. `end`
    gets the error for the requests that wait.
    """

    begin: Callable[[LeaderEpoch], None]
    end: Callable[[NotControllerException], None]


class Quorum:
    """The membership of this node in the quorum, from `start` to `stop`."""

    def __init__(
        self,
        logs: LogStore,
        config: BrokerConfig,
        clock: Clock,
        rng: Rng,
        network: Network,
        loader: MetadataLoader,
        *,
        on_fatal: Callable[[BaseException], None],
        secure: Secure = plain_text,
        threads: QuorumThreads = DEFAULT_THREADS,
    ) -> None:
        """`on_fatal` ends the node. It is called if the metadata log cannot be read or written. `secure` has the
        security of the connections to controllers. `threads` do the work that blocks."""
        self.threads = threads
        self.log = MetadataLog(logs, config, clock, rng)
        self.loader = loader
        self.committed = CommittedMetadata(self.log, loader, on_fatal=self.fail)
        self.committed.on_advance = self._watch_leadership
        self.failure: NotControllerException | None = None
        self._on_fatal = on_fatal
        self._leadership: Leadership | None = None
        self._led_epoch: LeaderEpoch | None = None
        self._shut_down = asyncio.Event()
        # The node gets its own addresses at the start, because a port 0 is chosen when the listeners are opened.
        self._own_endpoints: dict[str, Address] = {}
        settings = raft_settings(config, self._own_endpoints)
        key = ReplicaKey(BrokerId(config.node_id), self.log.directory_id)
        self.node = RaftNode(key, settings, rng.random)
        self._logged: State = self.node.state
        self.view = QuorumView(self.node, self.log, settings.default_listener)
        self.driver = RaftDriver(
            self.node,
            self.log,
            self.committed,
            clock,
            on_step=self._watch_leadership,
            on_fatal=self.fail,
            threads=threads,
        )
        self._peers = RaftPeers(
            network,
            node_id=config.node_id,
            cluster_id=loader.image.cluster_id,
            listener=settings.default_listener,
            request_timeout_s=settings.request_timeout_s,
            post=self.driver.post,
            secure=secure,
        )
        self.driver.sender = self._peers
        self.connection_counts = self._peers.counts
        self.snapshotting = Snapshotting(
            self.log,
            self.committed,
            self.view,
            config,
            clock,
            post=self.driver.post,
            on_fatal=self.fail,
            executor=threads.files,
        )

    async def start(self, listeners: Sequence[Listener] = ()) -> None:
        """Replays the disk and starts the raft node. It does not wait for a leader.

        `listeners` are the controller listeners with their ports. Raises StorageError.
        """
        self._own_endpoints |= {
            listener.name: Address(listener.host, listener.port) for listener in listeners
        }
        content = await run_in(self.threads.files, self.log.load, ImageReplayer(self.loader.image))
        self.committed.start(content)
        self.driver.start(content.start)
        self.snapshotting.start()

    async def stop(self, *, clean: bool = True) -> None:
        """Gives up the leadership, informs the other voters, and ends all tasks. The owner of the log directories
        closes the log later.

        If `clean` is False, only ends the tasks, as a crash would.
        """
        if clean and self.view.is_leader:
            self._shut_down.clear()
            self.driver.post(Shutdown())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._shut_down.wait(), SHUTDOWN_TIMEOUT_S)
        await self.snapshotting.stop(clean=clean)
        await self._peers.stop()
        await self.driver.stop()
        await self.committed.stop()

    # The lead.

    def on_leadership(self, leadership: Leadership) -> None:
        """Sets the functions that are called when this node begins to lead and when it stops leading. Call this method
        before `start`.
        """
        self._leadership = leadership

    def _watch_leadership(self) -> None:
        """Begins the leadership when the first record of the epoch is committed and all earlier records are replayed.
        Ends the leadership as soon as the raft node no longer leads.
        """
        state = self.node.state
        if (type(state), state.epoch) != (type(self._logged), self._logged.epoch):
            _log.info("Completed transition to %s from %s", _shown(state), _shown(self._logged))
            self._logged = state
        if self.node.is_shut_down:
            self._shut_down.set()
        if self._led_epoch is not None:
            if not isinstance(state, Leader) or state.epoch != self._led_epoch:
                self._end_lead(self.not_leading())
            return
        if (
            isinstance(state, Leader)
            and state.epoch_start_offset < self.node.high_watermark <= self.committed.next_offset
        ):
            self._led_epoch = state.epoch
            if self._leadership is not None:
                self._leadership.begin(state.epoch)

    def not_leading(self) -> NotControllerException:
        """The error for a request that only the active controller can serve."""
        if self.failure is not None:
            return self.failure
        leader_id = self.node.leader_id
        if leader_id in (NO_LEADER, self.node.key.id):
            return NotControllerException("No controller appears to be active.")
        return NotControllerException(f"The active controller appears to be node {leader_id}.")

    def _end_lead(self, error: NotControllerException) -> None:
        self._led_epoch = None
        if self._leadership is not None:
            self._leadership.end(error)

    def fail(self, error: BaseException) -> None:
        """Ends the leadership, and stops the node (`on_fatal`). Called if the metadata log cannot be read or written,
        or if the log contradicts the quorum.
        """
        if self.failure is not None:
            return
        what = (
            "leaves the quorum" if isinstance(error, QuorumError) else "cannot use its metadata log any more"
        )
        _log.critical("Node %d %s: %s", self.node.key.id, what, error)
        self.failure = NotControllerException(f"Node {self.node.key.id} {what}: {error}")
        self._end_lead(self.failure)
        self._on_fatal(error)


def _shown(state: State) -> str:
    return f"{type(state).__name__}(epoch={state.epoch})"


def raft_settings(config: BrokerConfig, own_endpoints: Mapping[str, Address]) -> RaftSettings:
    """The settings of the raft node. Other nodes reach controllers over the first controller listener."""
    least, most = supported_ranges()[KRAFT_VERSION]
    return RaftSettings(
        election_timeout_s=config.integer("controller.quorum.election.timeout.ms") / 1000,
        fetch_timeout_s=config.integer("controller.quorum.fetch.timeout.ms") / 1000,
        election_backoff_max_s=config.integer("controller.quorum.election.backoff.max.ms") / 1000,
        request_timeout_s=config.integer("controller.quorum.request.timeout.ms") / 1000,
        retry_backoff_s=config.integer("controller.quorum.retry.backoff.ms") / 1000,
        default_listener=config.controller_listener_names[0],
        bootstrap=config.quorum_bootstrap_servers or tuple(config.quorum_voters.values()),
        can_vote=config.is_controller,
        flushes=config.is_controller,
        own_endpoints=own_endpoints,
        min_kraft_version=least,
        max_kraft_version=most,
    )
