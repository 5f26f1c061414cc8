"""A quorum and its broker on a simulated disk. A test formats, starts and crashes them, and starts them again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any, Self

from kcli.config.broker import BrokerConfig
from kcli.config.start_up import node_config
from kcli.controller.api import CREATE_TOPICS
from kcli.metadata.image import MetadataImage
from kcli.protocol.batches.batch import iter_batches, read_records
from kcli.protocol.batches.control import decode_control
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.records.metadata import decode_metadata_record
from kcli.runtime.disk import read_file
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import Machine, ensure_formatted
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle
from kcli.server.quorum.controller_role import ControllerRole
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.quorum import Quorum
from kcli.storage.store.store import LogStore
from rigs.logs import ManualClock
from simulation.runtime.disk import SimDisk

_LIVES = itertools.count(1)
DATA = "/data"
LOG_DIR = f"{DATA}/__cluster_metadata-0"
LOG = f"{LOG_DIR}/{0:020d}.log"


def batches(disk: SimDisk) -> Iterator[tuple[Any, ...]]:
    """(epoch, [record, …]) of each batch of the log."""
    content = read_file(disk, LOG)
    for position, header in iter_batches(content):
        records = list(read_records(content, position))
        if header.is_control:
            yield header.partition_leader_epoch, [decode_control(each.key, each.value) for each in records]
        else:
            yield header.partition_leader_epoch, [decode_metadata_record(each.value)[0] for each in records]


def broker_config(**overrides: Any) -> BrokerConfig:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "h:9093",
        "log.dirs": DATA,
        "log.index.size.max.bytes": "65536",
        "metadata.max.idle.interval.ms": "0",
    }
    return node_config({**properties, **overrides})


def formatted_machine(clock: ManualClock) -> SimDisk:
    """A machine whose administrator has made the directory some time ago."""
    disk = SimDisk(clock.now_ms)
    disk.make_dir(DATA)
    disk.sync_dir("/")
    return disk


class QuorumRig:
    def __init__(
        self, disk: SimDisk | None = None, clock: ManualClock | None = None, /, **overrides: Any
    ) -> None:
        self.clock = clock or ManualClock()
        self.disk = disk or formatted_machine(self.clock)
        self.overrides = overrides
        # Each start draws other ids. With the same incarnation id, two starts would count as one.
        self.rng = SystemRng(next(_LIVES))
        self.fatal = []
        self.seen = []
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def start(self) -> Self:
        config = broker_config(**self.overrides)
        self.said = []
        ensure_formatted(config, Machine(self.disk, self.clock, self.rng), self.said.append)
        self.logs = LogStore.open(self.disk, self.clock, [DATA], node_id=1, rng=self.rng)
        self.loader = MetadataLoader(MetadataImage(cluster_id=self.logs.cluster_id))
        self.quorum = Quorum(
            self.logs,
            config,
            self.clock,
            self.rng,
            SystemNetwork(),
            self.loader,
            on_fatal=self._failed,
        )
        self.controller = ControllerRole(self.quorum, config, self.clock, self.rng, on_fatal=self._failed)
        self.loader.subscribe(lambda delta, image: self.seen.append((delta, image)))
        self.lifecycle = BrokerLifecycle(
            self.controller,
            self.loader,
            config,
            self.rng,
            cluster_id=self.logs.cluster_id,
            directories=[directory.id for directory in self.logs.directories],
            previous_epoch=self.logs.previous_broker_epoch,
        )
        try:
            await self.controller.start()
            await self.quorum.start()
            await self._loaded()
        except BaseException:
            await self._stop_quorum()
            raise
        await self.lifecycle.start()
        await self.lifecycle.unfence()
        return self

    async def _loaded(self) -> None:
        """Waits for the metadata. Raises the error that ends the quorum before."""
        loaded = asyncio.ensure_future(self.loader.loaded())
        await asyncio.wait((loaded, self.failed), return_when=asyncio.FIRST_COMPLETED)
        loaded.cancel()
        if self.failed.done():
            raise self.failed.result()

    def _failed(self, error: BaseException) -> None:
        self.fatal.append(error)
        if not self.failed.done():
            self.failed.set_result(error)

    async def _stop_quorum(self) -> None:
        await self.controller.stop()
        await self.quorum.stop()

    async def stop(self) -> None:
        await self.lifecycle.leave()
        await self.lifecycle.stop()
        await self._stop_quorum()
        self.logs.close(broker_epoch=self.lifecycle.epoch)

    async def crash(self, seed: int = 1) -> QuorumRig:
        """Simulates a loss of power: data that was not flushed may be lost. Returns the rig for the next start."""
        survived = self.disk.crash_clone(seed)
        await self.abandon()
        return await QuorumRig(survived, self.clock, **self.overrides).start()

    async def abandon(self) -> None:
        """Ends the tasks without a request to the controller or a write to the disk."""
        if self.lifecycle._heartbeats is not None:
            self.lifecycle._heartbeats.cancel()
        await self._stop_quorum()

    async def again(self) -> QuorumRig:
        await self.stop()
        return await QuorumRig(self.disk, self.clock, **self.overrides).start()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: Any, *_exc: object) -> None:
        if self.fatal or kind is not None:
            await self.abandon()
        else:
            await self.stop()

    async def create(self, name: str, partitions: int = 1, **configs: Any) -> ct.CreatableTopicResult:
        topic = ct.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=tuple(ct.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
        )
        (result,) = (
            await self.controller.send(CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,)))
        ).topics
        return result

    def files(self) -> list[str]:
        return [entry.name for entry in self.disk.list_dir(LOG_DIR)]
