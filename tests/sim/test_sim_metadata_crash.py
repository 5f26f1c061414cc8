"""The metadata log under power failures: what was answered holds, in order, whatever was lost around it.

One node on a simulated loop and disk. Clients create, delete and configure topics at the same time, and
snapshots are written and deleted. At a random moment the power or a call of the disk fails. The node starts again.

Held after every restart: the epoch has grown. Each answered change is there, or a later change of the same thing. No
other change is there. The image is that of the log and the newest snapshot.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from typing import Any

import pytest

from kcli.config.start_up import node_config
from kcli.controller.api import CREATE_TOPICS, DELETE_TOPICS, INCREMENTAL_ALTER_CONFIGS
from kcli.errors import ErrorCode, KcliError
from kcli.metadata.image import MetadataImage
from kcli.metadata.replay import ImageReplayer
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import Machine, ensure_formatted
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle
from kcli.server.quorum.controller_role import ControllerRole
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.metadata_log import MetadataLog
from kcli.server.quorum.quorum import Quorum
from kcli.storage.store.store import LogStore
from simulation.checks.dump_check import dump_complaints
from simulation.runtime.clock import SimClock
from simulation.runtime.disk import SimDisk
from simulation.runtime.loop import SimLoop, SimProcess, simulate

SEEDS = int(os.environ.get("KCLI_SIM_SEEDS", "25"))
DATA = "/data"
LIVES = 4
CLIENTS = 3
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "h:9093",
    "log.dirs": DATA,
    "num.recovery.threads.per.data.dir": "1",
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.max.retention.bytes": "9000",
    "internal.metadata.log.segment.bytes": "2000",
}


class Expected:
    """What the answers said. A name is owned by one client, so its history has an order.

    Each name maps to what it may be: (exists, value of retention.ms) pairs. Several while a change was asked for and
    not answered: it may or may not have been written.
    """

    def __init__(self) -> None:
        self.may_be = {}

    def check(self, image: MetadataImage) -> None:
        for name, states in self.may_be.items():
            state = (name in image.topics, image.topic_config(name).get("retention.ms"))
            assert state in states, f"{name} is {state}, and may only be {states}"
            self.may_be[name] = [state]
        assert set(image.topics.names) <= set(self.may_be)


class Node:
    def __init__(self, loop: SimLoop, rng: random.Random) -> None:
        self.loop = loop
        self.rng = rng
        self.clock = SimClock(loop)
        self.disk = SimDisk(self.clock.now_ms)
        self.disk.make_dir(DATA)
        self.disk.sync_dir("/")
        self.config = node_config(PROPERTIES)
        self.expected = Expected()
        self.epoch = 0

    async def live(self, last: bool) -> None:
        """One life of the node, with its clients; ends by a power failure or, `last`, by a clean stop."""
        draw = SystemRng(self.rng.randrange(1 << 62))
        ensure_formatted(self.config, Machine(self.disk, self.clock, draw), lambda _line: None)
        logs = LogStore.open(self.disk, self.clock, [DATA], node_id=1, rng=draw, recovery_threads=1)
        loader = MetadataLoader(MetadataImage(cluster_id=logs.cluster_id))
        quorum = Quorum(logs, self.config, self.clock, draw, SystemNetwork(), loader, on_fatal=print)
        controller = ControllerRole(quorum, self.config, self.clock, draw, on_fatal=print)
        lifecycle = BrokerLifecycle(
            controller,
            loader,
            self.config,
            draw,
            cluster_id=logs.cluster_id,
            directories=[each.id for each in logs.directories],
            previous_epoch=logs.previous_broker_epoch,
        )
        await controller.start()
        await quorum.start()
        await loader.loaded()
        assert quorum.view.epoch > self.epoch
        self.epoch = quorum.view.epoch
        await lifecycle.start()
        await lifecycle.unfence()
        self.expected.check(loader.image)
        assert all(
            partition.leader == 1 for topic in loader.image.topics for partition in topic.partitions.values()
        )
        clients = [
            asyncio.create_task(self.client(quorum, controller, f"c{client}"), name=f"client {client}")
            for client in range(CLIENTS)
        ]
        await asyncio.gather(*clients)
        if last:
            await lifecycle.leave()
            await lifecycle.stop()
            image = loader.image
            await controller.stop()
            await quorum.stop()
            self.check_replay(logs, image)
            logs.close(broker_epoch=lifecycle.epoch)
            assert dump_complaints(self.disk, f"{DATA}/__cluster_metadata-0", compacted=True) == ""

    def check_replay(self, logs: LogStore, image: MetadataImage) -> None:
        """Log and newest snapshot tell what the node said to the last."""
        replayer = ImageReplayer(MetadataImage(cluster_id=image.cluster_id))
        MetadataLog(logs, self.config, self.clock, SystemRng(1)).load(replayer)
        assert replayer.image == image

    async def client(self, quorum: Quorum, controller: ControllerRole, prefix: str) -> None:
        for nth in range(self.rng.randrange(3, 12)):
            await asyncio.sleep(self.rng.random() * 0.3)
            if self.rng.random() < 0.15:
                with contextlib.suppress(KcliError):
                    await quorum.snapshotting.write_snapshot()
                    quorum.log.clean(retention_bytes=6_000, retention_ms=-1)
            name = f"{prefix}-{self.rng.randrange(4)}"
            before = self.expected.may_be.get(name, [(False, None)])
            change = self.rng.choice([self.create, self.configure, self.delete])
            after = await change(controller, name, str(nth), before)
            self.expected.may_be[name] = after

    async def create(
        self, controller: ControllerRole, name: str, value: str, before: list[Any]
    ) -> list[tuple[bool, str]]:
        self.expected.may_be[name] = [*before, (True, value)]
        config = ct.CreatableTopicConfig(name="retention.ms", value=value)
        topic = ct.CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=(config,))
        answer = await controller.send(CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,)))
        if answer.topics[0].error_code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return before
        assert answer.topics[0].error_code is ErrorCode.NONE
        return [(True, value)]

    async def configure(
        self, controller: ControllerRole, name: str, value: str, before: list[Any]
    ) -> list[Any]:
        self.expected.may_be[name] = [*before, (True, value)]
        config = ic.AlterableConfig(name="retention.ms", config_operation=0, value=value)
        resource = ic.AlterConfigsResource(resource_type=2, resource_name=name, configs=(config,))
        answer = await controller.send(
            INCREMENTAL_ALTER_CONFIGS, ic.IncrementalAlterConfigsRequest(resources=(resource,))
        )
        if answer.responses[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return before
        assert answer.responses[0].error_code is ErrorCode.NONE
        return [(True, value)]

    async def delete(
        self, controller: ControllerRole, name: str, _value: str, before: list[Any]
    ) -> list[tuple[bool, None]]:
        self.expected.may_be[name] = [*before, (False, None)]
        request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name=name),), timeout_ms=5000)
        answer = await controller.send(DELETE_TOPICS, request)
        assert answer.responses[0].error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return [(False, None)]

    async def run(self) -> None:
        for life in range(LIVES):
            last = life == LIVES - 1
            process = SimProcess(f"life {life}")
            living = process.spawn(self.live(last), name=f"life {life}")
            if last:
                await living
                return
            await asyncio.wait((living,), timeout=self.rng.choice([0.05, 0.3, 1.0, 3.0]))
            if living.done():
                living.result()
            self.disk = self.disk.crash_clone(self.rng.randrange(1 << 30))
            self.loop.kill(process)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_answered_changes_survive_every_crash(seed: int) -> None:
    async def main(loop: SimLoop) -> None:
        await Node(loop, random.Random(seed)).run()

    simulate(seed, main)


def test_the_same_seed_gives_the_same_history() -> None:
    def history(seed: int) -> tuple[list[tuple[str, list]], int, float]:
        async def main(loop: SimLoop) -> tuple[list[tuple[str, list]], int, float]:
            node = Node(loop, random.Random(seed))
            await node.run()
            return sorted(node.expected.may_be.items()), node.epoch, loop.time()

        return simulate(seed, main)

    assert history(3) == history(3)
