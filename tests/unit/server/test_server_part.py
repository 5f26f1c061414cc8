"""Parts: a new subsystem of a node is one row, and the order of the rows is the order of all that happens to them."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import random
from collections.abc import Awaitable, Callable

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.dynamic import DynamicConfig
from kcli.config.start_up import node_config
from kcli.controller.api import INCREMENTAL_ALTER_CONFIGS
from kcli.errors import StorageError
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import MetadataImage
from kcli.model.configs import ConfigResourceType
from kcli.protocol.messages import incremental_alter_configs as ia
from kcli.runtime.rng import SystemRng
from kcli.server.node import Node
from kcli.server.partitions.replication_quota import ReplicationQuota
from kcli.server.parts.housekeeping import PeriodicJob
from kcli.server.parts.part import Part, Parts, always, if_clean, when
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.apis import served_on_broker, served_on_controller
from kcli.storage.directory import LogDirectory
from simulation.runtime.loop import SimExecutor, SimLoop, simulate
from simulation.runtime.network import SimNetwork
from simulation.world.cluster import SimNode

JOB_MS = 1000


class Toy:
    """A subsystem that notes all that happens to it."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def part(self) -> Part:
        return Part(
            name="toy",
            load=lambda image: self.note(f"load {len(image.brokers)} broker"),
            start=self.start,
            stop=self.stop,
            apply=self.apply,
            reconfigure=self.reconfigure,
            directory_failed=lambda directory: self.note(f"{directory.path} failed"),
            jobs=[PeriodicJob("toy", JOB_MS, lambda: self.note("job"))],
            offers={"toy": self},
        )

    def note(self, event: str) -> None:
        if not self.events or self.events[-1] != event:
            self.events.append(event)

    async def start(self) -> None:
        await asyncio.sleep(0)
        self.note("start")

    async def stop(self, clean: bool) -> None:
        await asyncio.sleep(0)
        self.note("clean stop" if clean else "stop")

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.configs_changed:
            self.note("apply")

    def reconfigure(self, before: BrokerConfig, after: BrokerConfig) -> None:
        self.note(
            f"reconfigure {before.integer('log.cleaner.backoff.ms')} {after.integer('log.cleaner.backoff.ms')}"
        )


def on_machine(scenario: Callable[[SimNode, Callable[[], Node]], Awaitable[None]]) -> None:
    """Runs `scenario(machine, node)`, where `node()` makes a node on the machine."""

    async def main(loop: SimLoop) -> None:
        network = SimNetwork(loop, random.Random(1))
        machine = SimNode(network, random.Random(2), 1, {"log.dirs": "/data,/more"})

        def node() -> Node:
            return Node(
                node_config(machine.properties),
                clock=machine.clock,
                disk=machine.disk,
                network=network.host("node-1"),
                rng=SystemRng(3),
                background=SimExecutor(loop),
            )

        await scenario(machine, node)

    simulate(1, main)


def on_node(scenario: Callable[[Node, SimNode, Toy], Awaitable[None]]) -> None:
    """Runs `scenario` with a node that has one more row in the list of its broker role."""

    async def with_toy(machine: SimNode, make: Callable[[], Node]) -> None:
        node, toy = make(), Toy()
        assert node.broker is not None
        node.broker.parts.rows.append(toy.part())
        await scenario(node, machine, toy)

    on_machine(with_toy)


async def change_a_key(node: Node, name: str = "log.cleaner.backoff.ms", value: str = "777") -> None:
    assert node.controller is not None
    config = ia.AlterableConfig(name=name, value=value)
    resource = ia.AlterConfigsResource(
        resource_type=ConfigResourceType.BROKER, resource_name="", configs=(config,)
    )
    request = ia.IncrementalAlterConfigsRequest(resources=(resource,))
    await node.controller.send(INCREMENTAL_ALTER_CONFIGS, request)


def test_a_new_subsystem_of_a_node_is_one_row() -> None:
    async def scenario(node: Node, machine: SimNode, toy: Toy) -> None:
        await node.start()
        await change_a_key(node)
        await asyncio.sleep(1.5 * JOB_MS / 1000)
        machine.disk.fail("write", "/more/recovery-point-offset-checkpoint")
        node.logs.maintenance.checkpoint_recovery_points()
        await asyncio.sleep(0.1)
        await node.stop()
        assert toy.events == [
            "load 1 broker",
            "start",
            "reconfigure 15000 777",
            "apply",
            "job",
            "/more failed",
            "clean stop",
        ]

    on_node(scenario)


def test_a_part_that_cannot_start_ends_the_start_and_every_part_is_stopped() -> None:
    async def scenario(node: Node, machine: SimNode, toy: Toy) -> None:
        def refuse() -> None:
            raise StorageError("no")

        def refuse_to_stop(_clean: bool) -> None:
            raise StorageError("this error of the stop is less important")

        assert node.broker is not None
        node.broker.parts.rows.append(Part(name="broken", start=refuse, stop=refuse_to_stop))
        with pytest.raises(StorageError, match="no"):
            await node.start()
        assert toy.events[-2:] == ["start", "stop"]
        assert not node.is_ready
        assert not machine.disk.exists("/data/.kafka_cleanshutdown")

    on_node(scenario)


def test_a_stored_rate_limits_the_replication_after_a_restart() -> None:
    async def scenario(_machine: SimNode, make: Callable[[], Node]) -> None:
        node = make()
        await node.start()
        await change_a_key(node, "leader.replication.throttled.rate", "1000")
        assert leader_quota(node).is_limited
        await node.stop()
        node = make()
        await node.start()
        assert leader_quota(node).is_limited
        await node.stop()

    on_machine(scenario)


def leader_quota(node: Node) -> ReplicationQuota:
    quota = node.offers["leader_quota"]
    assert isinstance(quota, ReplicationQuota)
    return quota


@pytest.mark.parametrize("on_controller", [False, True])
def test_the_parts_offer_all_ports_that_handlers_take(on_controller: bool) -> None:
    async def scenario(_machine: SimNode, make: Callable[[], Node]) -> None:
        offers = make().offers.keys()
        for api in (served_on_controller() if on_controller else served_on_broker()).values():
            ports = getattr(importlib.import_module(api.handler), "Ports", None)
            names = set() if ports is None else {field.name for field in dataclasses.fields(ports)}
            assert names <= offers, api.handler

    on_machine(scenario)


class TestTheListOfParts:
    def test_its_order_is_the_order_of_all_but_the_stop(self) -> None:
        events: list[str] = []

        def row(name: str) -> Part:
            return Part(
                name=name,
                load=lambda _: events.append(f"load {name}"),
                start=lambda: events.append(f"start {name}"),
                stop=always(lambda: events.append(f"stop {name}")),
                apply=lambda *_: events.append(f"apply {name}"),
                reconfigure=lambda *_: events.append(f"reconfigure {name}"),
                directory_failed=lambda _: events.append(f"directory {name}"),
            )

        async def scenario() -> None:
            parts = Parts([row("a"), None, row("b")])
            image = MetadataImage(cluster_id="cluster", features={"metadata.version": 20})
            config, loader = (
                DynamicConfig(broker_config()),
                MetadataLoader(MetadataImage(cluster_id="cluster")),
            )
            parts.follow(config, loader)
            await parts.start()
            loader.publish(None, image)
            loader.caught_up()
            config.update(default={"log.cleaner.backoff.ms": "777"}, own={})
            parts.directory_failed(LogDirectory.__new__(LogDirectory))
            await parts.stop(clean=True)

        asyncio.run(scenario())
        in_order = [
            f"{event} {name}"
            for event in ("load", "start", "apply", "reconfigure", "directory")
            for name in ("a", "b")
        ]
        assert events == [*in_order, "stop b", "stop a"]

    def test_an_unclean_stop_skips_the_parts_that_only_a_clean_stop_needs(self) -> None:
        stopped: list[str] = []
        parts = Parts(
            [
                Part(name="groups", stop=if_clean(lambda: stopped.append("groups"))),
                Part(name="threads", stop=always(lambda: stopped.append("threads"))),
            ]
        )
        asyncio.run(parts.stop(clean=False))
        assert stopped == ["threads"]
        asyncio.run(parts.stop(clean=True))
        assert stopped == ["threads", "threads", "groups"]

    def test_a_part_that_fails_to_stop_does_not_keep_the_others_running(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        stopped: list[str] = []

        def refuse(error: str) -> None:
            raise StorageError(error)

        async def refuse_later(_clean: bool) -> None:
            await asyncio.sleep(0)
            raise StorageError("first")

        parts = Parts(
            [
                Part(name="threads", stop=always(lambda: stopped.append("threads"))),
                Part(name="traces", stop=always(lambda: refuse("second"))),
                Part(name="logs", stop=always(lambda: stopped.append("logs"))),
                Part(name="sockets", stop=refuse_later),
            ]
        )
        with pytest.raises(StorageError, match="first"):
            asyncio.run(parts.stop(clean=True))
        assert stopped == ["logs", "threads"]
        assert [record.getMessage() for record in caplog.records] == [
            "The part sockets could not be stopped",
            "The part traces could not be stopped",
        ]

    def test_no_part_offers_the_name_of_another_part(self) -> None:
        parts = Parts([Part(name="a", offers={"port": 1}), Part(name="b", offers={"other": 2})])
        assert parts.offers() == {"port": 1, "other": 2}
        parts.rows.append(Part(name="c", offers={"port": 3}))
        with pytest.raises(AssertionError, match="of c"):
            parts.offers()

    def test_a_subsystem_that_a_node_does_not_have_has_no_part(self) -> None:
        assert when(None, lambda _: Part(name="traces")) is None
        assert when("traces", lambda it: Part(name=it)) == Part(name="traces")


def broker_config() -> BrokerConfig:
    return node_config(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "log.dirs": "/data",
        }
    )
