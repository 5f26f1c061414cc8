"""Registers an inactive controller with the active controller (KIP-919).

A controller that becomes active writes its own registration. Every other controller sends ControllerRegistration again
and again, until the metadata has the registration of the controller's present process.
"""

from __future__ import annotations

import asyncio
import logging

from kcli.config.features import CONTROLLER_REGISTRATION_FROM
from kcli.controller.api import CONTROLLER_REGISTRATION
from kcli.errors import KafkaError, StorageError
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import ControllerRegistration, MetadataImage
from kcli.protocol.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from kcli.runtime.rng import Rng
from kcli.server.quorum.channel import NodeChannel
from kcli.server.quorum.loader import MetadataLoader

_log = logging.getLogger("kcli.server.ControllerRegistrationManager")

# The pauses between two attempts are those of Kafka: they double from 100 ms to two minutes, with 2 percent of jitter.
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 120.0
JITTER = 0.02


class ControllerRegistrar:
    """Keeps one controller registered, from `start` to `stop`."""

    _registration: ControllerRegistration  # set by `start`, when the ports of the listeners are known

    def __init__(self, channel: NodeChannel, loader: MetadataLoader, rng: Rng) -> None:
        self._channel = channel
        self._loader = loader
        self._rng = rng
        self._pause_s = FIRST_PAUSE_S
        self._task: asyncio.Task[None] | None = None

    def start(self, registration: ControllerRegistration) -> None:
        """Begins to register the controller. Does not wait until it is registered."""
        self._registration = registration
        self._task = self._begin()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _begin(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._register(), name="register-controller")

    def apply(self, _delta: MetadataDelta, image: MetadataImage) -> None:
        """Does the same as `load`, after each later change."""
        self.load(image)

    def load(self, _image: MetadataImage) -> None:
        """Registers again if another process has taken the place of this controller in the metadata.

        The pauses between registrations continue to grow. With constant pauses, two running controllers with the same
        id would replace each other's registration again and again, and each time write a record.
        """
        task = self._task
        if task is not None and task.done() and not task.cancelled() and self._is_missing():
            _log.warning(
                "Another process has registered as controller %d. Two nodes may have the same node.id",
                self._registration.id,
            )
            self._task = self._begin()

    def _is_missing(self) -> bool:
        known = self._loader.image.controllers.get(self._registration.id)
        return known is None or known.incarnation_id != self._registration.incarnation_id

    async def _register(self) -> None:
        await self._loader.loaded()
        while self._is_missing():
            supported = self._loader.image.metadata_version >= CONTROLLER_REGISTRATION_FROM.level
            # The active controller registers itself when it begins to lead, unless metadata.version was too low at that
            # time.
            if supported and (self._pause_s > FIRST_PAUSE_S or not self._channel.is_local):
                await self._try()
            await asyncio.sleep(self._pause_s * (1 + JITTER * (2 * self._rng.random() - 1)))
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    async def _try(self) -> None:
        try:
            await self._channel.send(CONTROLLER_REGISTRATION, _request(self._registration))
        except (KafkaError, StorageError) as error:
            _log.warning("The controller is not registered yet: %s", error)


def _request(registration: ControllerRegistration) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=registration.id,
        incarnation_id=registration.incarnation_id,
        zk_migration_ready=registration.zk_migration_ready,
        listeners=tuple(
            Listener(
                name=endpoint.name,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in registration.endpoints.values()
        ),
        features=tuple(
            Feature(
                name=name, min_supported_version=levels.min_version, max_supported_version=levels.max_version
            )
            for name, levels in registration.features.items()
        ),
    )
