"""A broker's life in its cluster: it registers, is unfenced, sends heartbeats, and leaves in order (KIP-500, KIP-841).

The broker is fenced until a heartbeat tells the controller that it has seen its own registration. Leaving, it asks to
be let go: the controller takes its leaderships away while it still serves, and then lets it stop.
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
# Between two attempts that failed, or two looks while waiting.
RETRY_INTERVAL_S = 0.1


class BrokerLifecycle:
    """`start` returns once clients may be served; `stop` once the broker may go.

    `previous_epoch` is what the last clean stop left (-1: it was not clean): with ELR the controller trusts the
    replicas of a broker only after a clean stop. `offline_directories` names the log directories that broke.
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
        """Registers and waits to be unfenced. `listeners`: where clients reach this broker, if not where the
        configuration says. Raises KafkaError when the controller will not have it.
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
                _log.info("Registration is tried again: %s", error.message)
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
                    "The controller does not know this broker (%s); it registers again", error.message
                )
                await self._register()
            except KafkaError as error:
                _log.warning("A heartbeat failed: %s", error.message)

    async def stop(self) -> None:
        """Controlled shutdown: returns when the controller lets the broker go, or will not any more."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._heartbeats
            self._heartbeats = None
        if self.epoch == UNREGISTERED_EPOCH or not self._config.boolean("controlled.shutdown.enable"):
            return
        try:
            async with asyncio.timeout(self._shutdown_timeout_s()):
                response = await self._heartbeat(want_shut_down=True)
                while not response.should_shut_down:
                    # The next heartbeat carries the offset of the shutdown's own records, which ends the wait.
                    await asyncio.sleep(0)
                    response = await self._heartbeat(want_shut_down=True)
        except (KafkaError, TimeoutError) as error:
            _log.warning("The broker stops without the controller's leave: %s", error)

    def _shutdown_timeout_s(self) -> float:
        return self._config.integer("controller.quorum.request.timeout.ms") * SHUTDOWN_REQUESTS / 1000


# As many requests as Kafka's broker may send before it gives up waiting (controlled shutdown of five minutes at most).
SHUTDOWN_REQUESTS = 15
