"""The registration of a broker with the controller, from start to controlled shutdown (KIP-500, KIP-841).

The broker is fenced until a heartbeat shows that it has read its own registration record. Before it stops, the broker
asks the controller for a controlled shutdown. The controller moves the broker's leaderships to other brokers while the
broker still serves clients. Then the controller lets the broker stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Sequence

from kcli.config.broker import BrokerConfig
from kcli.config.features import supported_ranges
from kcli.config.listeners import SECURITY_PROTOCOLS, Listener
from kcli.controller.api import BROKER_HEARTBEAT, BROKER_REGISTRATION
from kcli.errors import (
    BrokerIdNotRegisteredException,
    DuplicateBrokerRegistrationException,
    KafkaError,
    NotControllerException,
    StaleBrokerEpochException,
    TimeoutException,
)
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcli.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
)
from kcli.protocol.messages.broker_registration import Listener as RegisteredListener
from kcli.runtime.rng import Rng
from kcli.server.quorum.channel import ControllerChannel
from kcli.server.quorum.loader import MetadataLoader

_log = logging.getLogger(__name__)

UNREGISTERED_EPOCH = -1
# The pause after a failed attempt, and between two heartbeats of a fenced broker.
RETRY_INTERVAL_S = 0.1
# The number of requests that Kafka's broker may send before it stops without a controlled shutdown.
SHUTDOWN_REQUESTS = 15


class BrokerLifecycle:
    """The registration of one broker. `start` returns when clients may be served, `stop` when the broker may stop.

    `previous_epoch` is the broker epoch of the last clean stop (-1: the last stop was not clean). With ELR the
    controller trusts the replicas of a broker only after a clean stop. `offline_directories` returns the directories
    that have failed.
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
        self.incarnation_id = rng.uuid()
        self._channel = channel
        self._loader = loader
        self._config = config
        self._cluster_id = cluster_id
        self._directories = tuple(directories)
        self._previous_epoch = previous_epoch
        self._offline_directories = offline_directories
        self._heartbeats: asyncio.Task[None] | None = None
        self._listeners: Sequence[Listener] = ()

    async def start(self, listeners: Sequence[Listener] | None = None) -> None:
        """Registers and waits to be unfenced. Raises KafkaError if the controller refuses the broker.

        `listeners` take precedence over the advertised listeners of the configuration.
        """
        self._listeners = self._config.advertised_listeners if listeners is None else listeners
        try:
            async with asyncio.timeout(self._config.integer("initial.broker.registration.timeout.ms") / 1000):
                await self._register()
                response = await self._heartbeat()
                while response.is_fenced:
                    await asyncio.sleep(RETRY_INTERVAL_S)
                    response = await self._heartbeat()
        except TimeoutError:
            raise TimeoutException(
                f"Broker {self._config.node_id} could not register with the controller in time"
            ) from None
        self._heartbeats = asyncio.create_task(self._heartbeat_loop(), name="broker-heartbeats")

    async def _register(self) -> None:
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
                return
            except (DuplicateBrokerRegistrationException, NotControllerException) as error:
                _log.info("Registering again: %s", error.message)
                await asyncio.sleep(RETRY_INTERVAL_S)

    async def _heartbeat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._loader.image.offset,
            want_fence=False,
            want_shut_down=want_shut_down,
            offline_log_dirs=tuple(self._offline_directories()),
        )
        return await self._channel.send(BROKER_HEARTBEAT, request)

    async def _heartbeat_loop(self) -> None:
        interval_s = self._config.integer("broker.heartbeat.interval.ms") / 1000
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self._heartbeat()
            except (BrokerIdNotRegisteredException, StaleBrokerEpochException) as error:
                _log.warning(
                    "The controller does not know this broker (%s): registering again", error.message
                )
                await self._register()
            except KafkaError as error:
                _log.warning("A heartbeat failed: %s", error.message)

    async def stop(self, *, clean: bool = True) -> None:
        """Ends the heartbeats. If `clean`, asks for a controlled shutdown and waits for it, up to a limit."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._heartbeats
            self._heartbeats = None
        wanted = clean and self._config.boolean("controlled.shutdown.enable")
        if self.epoch == UNREGISTERED_EPOCH or not wanted:
            return
        try:
            async with asyncio.timeout(self._shutdown_timeout_s()):
                response = await self._heartbeat(want_shut_down=True)
                while not response.should_shut_down:
                    # The next heartbeat reports that the broker has read the records of its controlled shutdown. This
                    # ends the wait.
                    await asyncio.sleep(0)
                    response = await self._heartbeat(want_shut_down=True)
        except (KafkaError, TimeoutError) as error:
            _log.warning("Controlled shutdown failed, the broker stops without it: %s", error)

    def _shutdown_timeout_s(self) -> float:
        return self._config.integer("controller.quorum.request.timeout.ms") * SHUTDOWN_REQUESTS / 1000
