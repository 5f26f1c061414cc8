"""The registration of a broker with the active controller, from start to controlled shutdown (KIP-500, KIP-841).

The broker registers, and sends heartbeats until it has read its own registration record. It then loads its partitions
while it is still fenced. When it is ready, its heartbeats ask the controller to unfence it. Before it stops, its
heartbeats ask for a controlled shutdown. The controller moves the broker's leaderships to other brokers while the
broker still serves clients, and then lets the broker stop. One request is in flight at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Sequence
from enum import IntEnum

from kcli.config.broker import BrokerConfig
from kcli.config.features import supported_ranges
from kcli.config.listeners import SECURITY_PROTOCOLS, Listener
from kcli.controller.api import BROKER_HEARTBEAT, BROKER_REGISTRATION
from kcli.errors import (
    BrokerIdNotRegisteredException,
    DuplicateBrokerRegistrationException,
    KafkaError,
    StaleBrokerEpochException,
    StorageError,
    TimeoutException,
)
from kcli.model.ids import NO_OFFSET
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcli.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
)
from kcli.protocol.messages.broker_registration import Listener as RegisteredListener
from kcli.runtime.rng import Rng
from kcli.server.quorum.channel import ControllerChannel
from kcli.server.quorum.loader import MetadataLoader

_log = logging.getLogger("kcli.server.BrokerLifecycleManager")

UNREGISTERED_EPOCH = -1
# The pause between two heartbeats while the broker waits for its own registration record (Kafka's 10 ms).
CATCH_UP_INTERVAL_S = 0.01
# The pause after the first heartbeat that asks for a controlled shutdown (Kafka's 50 ms).
SHUTDOWN_INTERVAL_S = 0.05
# The longest controlled shutdown. Kafka has this fixed limit too.
SHUTDOWN_LIMIT_S = 300.0

_IN_USE = (
    "another process is registered with this node.id. If the broker was restarted, the session of its last process "
    "ends after broker.session.timeout.ms"
)


class BrokerState(IntEnum):
    """The state of a broker, with the values of Kafka's metric BrokerState."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class BrokerLifecycle:
    """The registration of one broker. `start` returns when the broker has read its own registration, `unfence` when
    clients may be served, `leave` when the broker may stop. `stop` ends the heartbeats.

    `previous_epoch` is the broker epoch of the last clean stop (-1: the last stop was not clean). If eligible leader
    replicas are enabled, the controller trusts the replicas of a broker only after a clean stop. `offline_directories`
    returns the directories that have failed.
    """

    def __init__(
        self,
        channel: ControllerChannel,
        loader: MetadataLoader,
        config: BrokerConfig,
        rng: Rng,
        *,
        cluster_id: str,
        directories: Sequence[uuid.UUID],
        previous_epoch: int,
        offline_directories: Callable[[], Sequence[uuid.UUID]] = tuple,
    ) -> None:
        self.epoch = UNREGISTERED_EPOCH
        self.state = BrokerState.NOT_RUNNING
        self.incarnation_id = rng.uuid()
        self._channel = channel
        self._loader = loader
        self._config = config
        self._cluster_id = cluster_id
        self._directories = tuple(directories)
        self._previous_epoch = previous_epoch
        self._offline_directories = offline_directories
        self._interval_s = config.integer("broker.heartbeat.interval.ms") / 1000
        self._session_s = config.integer("broker.session.timeout.ms") / 1000
        self._answered_at = 0.0  # the time of the loop at the last answer to a heartbeat
        self._heartbeats: asyncio.Task[None] | None = None
        self._listeners: Sequence[Listener] = ()
        self._is_ready = False
        self._wake = asyncio.Event()
        self._caught_up = asyncio.Event()
        self._unfenced = asyncio.Event()
        self._may_stop = asyncio.Event()
        self._shutdown_pause_s = SHUTDOWN_INTERVAL_S
        self._refusal = ""  # the error of the last attempt to register

    async def start(self, listeners: Sequence[Listener] | None = None) -> None:
        """Registers, and returns when this node has read its own registration.

        `listeners` take precedence over the advertised listeners of the configuration. Raises TimeoutException if no
        controller accepts the registration in time.
        """
        self.state = BrokerState.STARTING
        self._listeners = self._config.advertised_listeners if listeners is None else listeners
        limit_ms = self._config.integer("initial.broker.registration.timeout.ms")
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._register()
        except TimeoutError:
            reason = self._refusal or "no controller answered"
            raise TimeoutException(
                f"Broker {self._config.node_id} could not register with the controller within {limit_ms} ms: {reason}"
            ) from None
        self._heartbeats = asyncio.create_task(self._heartbeat_loop(), name="broker-heartbeats")
        await self._caught_up.wait()

    async def unfence(self) -> None:
        """Asks the controller to unfence this broker. Returns when the broker is unfenced."""
        self._is_ready = True
        self.send_soon()
        await self._unfenced.wait()

    def send_soon(self) -> None:
        """Sends the next heartbeat without a pause, because the broker has something to report."""
        self._wake.set()

    async def leave(self) -> None:
        """Asks for a controlled shutdown. Returns when the controller lets the broker stop, or after a time limit."""
        if self._heartbeats is None or not self._config.boolean("controlled.shutdown.enable"):
            return
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self.send_soon()
        try:
            async with asyncio.timeout(SHUTDOWN_LIMIT_S):
                await self._may_stop.wait()
        except TimeoutError:
            _log.warning("The controlled shutdown took too long, so the broker stops without it")

    def stop_waiting(self) -> None:
        """Makes `leave` return before the controller lets the broker stop. This helps if no controller answers, for
        example because a majority of the voters is down.
        """
        if not self._may_stop.is_set():
            _log.warning("The broker stops without a controlled shutdown, as it was asked a second time")
            self._may_stop.set()

    async def stop(self) -> None:
        """Ends the heartbeats."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)
        self.state = BrokerState.SHUTTING_DOWN

    async def _register(self) -> None:
        """Registers the broker. Tries again after each failure. The caller limits the time, as in Kafka."""
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=tuple(
                RegisteredListener(
                    name=listener.name,
                    host=listener.host,
                    port=listener.port,
                    security_protocol=SECURITY_PROTOCOLS.index(listener.security_protocol),
                )
                for listener in self._listeners
            ),
            features=tuple(
                Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in supported_ranges().items()
            ),
            rack=self._config.rack,
            log_dirs=self._directories,
            previous_broker_epoch=self._previous_epoch,
        )
        while True:
            try:
                self.epoch = (await self._channel.send(BROKER_REGISTRATION, request)).broker_epoch
                self._info(
                    f"Successfully registered broker {self._config.node_id} with broker epoch {self.epoch}"
                )
                return
            except (KafkaError, StorageError) as error:
                self._refusal = (
                    _IN_USE if isinstance(error, DuplicateBrokerRegistrationException) else str(error)
                )
                _log.warning("The broker is not registered yet: %s", self._refusal)
                await asyncio.sleep(self._interval_s)

    async def _heartbeat(self) -> float:
        """Sends one heartbeat. Returns the pause before the next one, in seconds."""
        is_leaving = self._is_leaving
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._loader.image.offset if self._loader.is_loaded else NO_OFFSET,
            want_fence=not self._is_ready,
            want_shut_down=is_leaving,
            offline_log_dirs=tuple(self._offline_directories()),
        )
        response = await self._channel.send(BROKER_HEARTBEAT, request)
        self._answered_at = asyncio.get_running_loop().time()
        return self._answered_to_leave(response) if is_leaving else self._answered(response)

    @property
    def _is_leaving(self) -> bool:
        return self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN

    async def _heartbeat_loop(self) -> None:
        while not self._may_stop.is_set():
            pause_s = self._interval_s
            try:
                pause_s = await self._heartbeat()
            except (KafkaError, StorageError) as error:
                self._failed(error)
            except Exception:
                # This is a bug of kcli. Without further heartbeats, the controller would also fence the broker.
                _log.exception("A heartbeat failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            self._wake.clear()

    def _failed(self, error: Exception) -> None:
        _log.warning("A heartbeat failed: %s", error)
        if self._is_leaving and isinstance(error, BrokerIdNotRegisteredException | StaleBrokerEpochException):
            # The broker was unregistered, or another process has its id: no leadership is left to move.
            self._may_stop.set()
        elif self._is_leaving and asyncio.get_running_loop().time() - self._answered_at >= self._session_s:
            # The session has ended, so a controller that comes back fences the broker and moves its leaderships. If the
            # last voters of a quorum stop together, no controller ever answers, so a longer wait has no use.
            _log.warning("No controller has answered for a whole session, so the broker stops without it")
            self._may_stop.set()

    def _answered(self, response: BrokerHeartbeatResponse) -> float:
        """Moves to the state that the controller allows. Returns the pause before the next heartbeat, in seconds."""
        if self.state is BrokerState.STARTING and not response.is_caught_up:
            return CATCH_UP_INTERVAL_S
        if self.state is BrokerState.STARTING:
            self.state = BrokerState.RECOVERY
            self._info("The broker has caught up. Transitioning from STARTING to RECOVERY.")
            self._caught_up.set()
        if self.state is BrokerState.RECOVERY and not response.is_fenced:
            self.state = BrokerState.RUNNING
            self._info("The broker has been unfenced. Transitioning from RECOVERY to RUNNING.")
            self._unfenced.set()
        return self._interval_s

    def _info(self, line: str) -> None:
        """Logs a line with Kafka's words, for which tests and containers wait."""
        _log.info("[BrokerLifecycleManager id=%d] %s", self._config.node_id, line)

    def _answered_to_leave(self, response: BrokerHeartbeatResponse) -> float:
        if response.should_shut_down:
            self._may_stop.set()
        pause_s, self._shutdown_pause_s = self._shutdown_pause_s, self._interval_s
        return pause_s
