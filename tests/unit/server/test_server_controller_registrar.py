"""The registration of a controller that is not active: what it sends, and what it does about a second process."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import Any

import pytest

from kcli.config.features import CONTROLLER_REGISTRATION_FROM
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import METADATA_VERSION, ControllerRegistration, MetadataImage
from kcli.runtime.rng import SystemRng
from kcli.server.quorum.controller_registrar import ControllerRegistrar
from kcli.server.quorum.loader import MetadataLoader
from simulation.runtime.loop import SimLoop, simulate

OWN = ControllerRegistration(7, uuid.UUID(int=70), {}, {})
TWIN = replace(OWN, incarnation_id=uuid.UUID(int=71))


class Channel:
    """The way to an active controller, which registers every controller at once."""

    is_local = False

    def __init__(self, loader: MetadataLoader) -> None:
        self.loader = loader
        self.sent: list[float] = []

    async def send(self, _api: Any, request: Any) -> None:
        assert request.incarnation_id == OWN.incarnation_id
        self.sent.append(asyncio.get_running_loop().time())
        register(self.loader, OWN)


def register(loader: MetadataLoader, controller: ControllerRegistration) -> None:
    image = replace(loader.image, controllers={controller.id: controller})
    loader.publish(MetadataDelta.between(loader.image, image), image)


def test_two_processes_with_one_id_do_not_write_records_without_end(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_loop: SimLoop) -> None:
        features = {METADATA_VERSION: CONTROLLER_REGISTRATION_FROM.level}
        loader = MetadataLoader(MetadataImage(cluster_id="cluster", features=features))
        loader.caught_up()
        channel: Any = Channel(loader)
        registrar = ControllerRegistrar(channel, loader, SystemRng(1))
        registrar.start(OWN)
        loader.subscribe(registrar.apply)
        await asyncio.sleep(1)
        assert len(channel.sent) == 1
        for _ in range(1000):
            register(loader, TWIN)
            await asyncio.sleep(0.1)
        assert 3 < len(channel.sent) < 15
        await registrar.stop()

    simulate(1, scenario)
    assert (
        "Another process has registered as controller 7. Two nodes may have the same node.id"
        in caplog.messages
    )


def test_another_process_that_registers_before_the_node_follows_the_metadata_is_found() -> None:
    async def scenario(_loop: SimLoop) -> None:
        features = {METADATA_VERSION: CONTROLLER_REGISTRATION_FROM.level}
        loader = MetadataLoader(MetadataImage(cluster_id="cluster", features=features))
        loader.caught_up()
        channel: Any = Channel(loader)
        registrar = ControllerRegistrar(channel, loader, SystemRng(1))
        registrar.start(OWN)
        await asyncio.sleep(1)
        register(loader, TWIN)
        registrar.load(loader.image)
        await asyncio.sleep(1)
        assert len(channel.sent) == 2
        assert loader.image.controllers[OWN.id] == OWN
        await registrar.stop()

    simulate(1, scenario)


def test_an_active_controller_registers_when_the_metadata_version_allows_it() -> None:
    """When it began to lead, the log could not have the record yet."""

    async def scenario(_loop: SimLoop) -> None:
        old = {METADATA_VERSION: CONTROLLER_REGISTRATION_FROM.level - 1}
        loader = MetadataLoader(MetadataImage(cluster_id="cluster", features=old))
        loader.caught_up()
        channel: Any = Channel(loader)
        channel.is_local = True
        registrar = ControllerRegistrar(channel, loader, SystemRng(1))
        registrar.start(OWN)
        loader.subscribe(registrar.apply)
        await asyncio.sleep(60)
        assert not channel.sent
        loader.image = replace(loader.image, features={METADATA_VERSION: CONTROLLER_REGISTRATION_FROM.level})
        await asyncio.sleep(130)
        assert len(channel.sent) == 1
        await registrar.stop()

    simulate(1, scenario)
