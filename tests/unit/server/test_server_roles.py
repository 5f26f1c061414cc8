"""A node of one role: a controller without a broker, and a broker's half on the controller of another node."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from kcli.client.connection import Connection
from kcli.config.broker import BrokerConfig
from kcli.config.dynamic import DynamicConfig
from kcli.config.start_up import node_config
from kcli.controller.api import CREATE_TOPICS
from kcli.errors import ErrorCode, UnsupportedVersionException
from kcli.metadata.image import BrokerRegistration
from kcli.model.addresses import Address
from kcli.model.configs import ConfigResourceType
from kcli.model.ids import NO_LEADER
from kcli.model.request_values import ACKS_ALL
from kcli.protocol.batches.batch import Record, encode_batch, read_records
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import describe_cluster as dc
from kcli.protocol.messages import describe_configs as df
from kcli.protocol.messages import describe_quorum as dq
from kcli.protocol.messages import incremental_alter_configs as ia
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.rng import SystemRng
from kcli.runtime.threads import NodeThreads
from kcli.server.formatting.format import FormatRequest, Machine, format_directories
from kcli.server.logins.link_security import LinkSecurity
from kcli.server.node import Node
from kcli.server.quorum.channels import ControllerChannels
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.apis import served_on_controller
from kcli.server.roles.broker_role import BrokerRole
from kcli.server.roles.shared import Shared, node_metrics
from kcli.storage.store.store import LogStore
from rigs.leader_appends import append_batch
from rigs.loops import until
from simulation.runtime.disk import SimDisk
from simulation.runtime.loop import SimExecutor, SimLoop, simulate
from simulation.runtime.network import SimNetwork
from simulation.world.cluster import DATA, SimNode

CLUSTER = "Z29sZGVuLWNsdXN0ZXItMQ"
CONTROLLER, BROKER = 7, 2
TIMEOUT_S = 30.0
SESSION_S = 9.0
"""broker.session.timeout.ms of the controller, by default."""


def controller_node(network: SimNetwork, overrides: Mapping[str, str]) -> SimNode:
    """A machine with a formatted controller and no broker."""
    listener = {"process.roles": "controller", "listeners": f"CONTROLLER://node-{CONTROLLER}:9093"}
    node = SimNode(network, random.Random(3), CONTROLLER, {**listener, **overrides})
    formatted(node_config(node.properties), node.disk, node)
    return node


def formatted(config: BrokerConfig, disk: SimDisk, machine: SimNode) -> None:
    seams = Machine(disk, machine.clock, SystemRng(config.node_id))
    format_directories(config, FormatRequest(cluster_id=CLUSTER), seams, lambda line: None)


async def connected(network: SimNetwork) -> Connection:
    address = Address(f"node-{CONTROLLER}", 9093)
    return await Connection.open(network.host("client"), address, "test", TIMEOUT_S)


async def ask(connection: Connection, key: ApiKey, request: object) -> Any:
    version = connection.version_for(key)
    return await connection.request(request, key, version=version, timeout=TIMEOUT_S)


def new_topic(name: str) -> ct.CreateTopicsRequest:
    topic = ct.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return ct.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)


async def active(machine: SimNode) -> None:
    """Waits until the controller of a machine leads and its metadata is loaded."""
    node = machine.running
    assert node is not None
    await node.loader.loaded()
    await until(lambda: CONTROLLER in node.metadata.controllers)


def on_controller(scenario: Callable[[SimNetwork, SimNode], Awaitable[None]], **overrides: str) -> None:
    """Runs `scenario(network, node)` beside a node with the controller role alone."""

    async def main(loop: SimLoop) -> None:
        network = SimNetwork(loop, random.Random(5))
        node = controller_node(network, {key.replace("_", "."): text for key, text in overrides.items()})
        await node.start()
        await active(node)
        await scenario(network, node)

    simulate(1, main)


class TestControllerAlone:
    def test_it_answers_on_its_controller_listener(self) -> None:
        async def scenario(network: SimNetwork, node: SimNode) -> None:
            connection = await connected(network)
            assert set(connection.versions) == set(served_on_controller())
            cluster = await ask(
                connection, ApiKey.DESCRIBE_CLUSTER, dc.DescribeClusterRequest(endpoint_type=2)
            )
            assert (cluster.cluster_id, cluster.controller_id) == (CLUSTER, CONTROLLER)
            assert [(each.broker_id, each.port) for each in cluster.brokers] == [(CONTROLLER, 9093)]
            partition = dq.RequestPartitionData(partition_index=0)
            quorum = await ask(
                connection,
                ApiKey.DESCRIBE_QUORUM,
                dq.DescribeQuorumRequest(
                    topics=(dq.RequestTopicData(topic_name="__cluster_metadata", partitions=(partition,)),)
                ),
            )
            (row,) = quorum.topics[0].partitions
            assert (row.leader_id, [voter.replica_id for voter in row.current_voters]) == (
                CONTROLLER,
                [CONTROLLER],
            )

        on_controller(scenario)

    def test_a_topic_needs_a_broker(self) -> None:
        async def scenario(network: SimNetwork, node: SimNode) -> None:
            connection = await connected(network)
            (topic,) = (await ask(connection, ApiKey.CREATE_TOPICS, new_topic("t"))).topics
            assert topic.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
            assert topic.error_message == (
                "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
            )

        on_controller(scenario)

    def test_requests_of_a_broker_are_not_served(self) -> None:
        async def scenario(network: SimNetwork, node: SimNode) -> None:
            connection = await connected(network)
            with pytest.raises(UnsupportedVersionException, match="The node does not support METADATA"):
                connection.version_for(ApiKey.METADATA)

        on_controller(scenario)

    def test_a_changed_config_is_there_after_a_restart(self) -> None:
        async def scenario(network: SimNetwork, node: SimNode) -> None:
            await ask(
                await connected(network),
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                ia.IncrementalAlterConfigsRequest(
                    resources=(
                        ia.AlterConfigsResource(
                            resource_type=ConfigResourceType.BROKER,
                            resource_name="",
                            configs=(ia.AlterableConfig(name="message.max.bytes", value="4242"),),
                        ),
                    )
                ),
            )
            await node.stop()
            await node.start()
            await active(node)
            described = await ask(
                await connected(network),
                ApiKey.DESCRIBE_CONFIGS,
                df.DescribeConfigsRequest(
                    resources=(
                        df.DescribeConfigsResource(
                            resource_type=ConfigResourceType.BROKER,
                            resource_name=str(CONTROLLER),
                            configuration_keys=("message.max.bytes",),
                        ),
                    )
                ),
            )
            (result,) = described.results
            assert [(each.name, each.value) for each in result.configs] == [("message.max.bytes", "4242")]

        on_controller(scenario)

    def test_it_opens_its_metadata_directory_and_no_other(self) -> None:
        async def scenario(network: SimNetwork, node: SimNode) -> None:
            assert node.running is not None
            assert [directory.path for directory in node.running.logs.directories] == ["/metadata"]

        on_controller(scenario, metadata_log_dir="/metadata")

    def test_its_log_names_the_controller_server(self, caplog: pytest.LogCaptureFixture) -> None:
        async def scenario(network: SimNetwork, node: SimNode) -> None:
            await node.stop()

        caplog.set_level(logging.INFO, "kcli.server")
        on_controller(scenario)
        assert "[ControllerServer id=7] shutting down" in caplog.messages
        assert not any("BrokerServer" in message for message in caplog.messages)


class BrokerRig:
    """A broker role with disks of its own, on the channel and the metadata of another node's controller."""

    def __init__(self, network: SimNetwork, controller: Node, machine: SimNode) -> None:
        config = node_config(
            {
                "process.roles": "broker",
                "node.id": str(BROKER),
                "listeners": f"PLAINTEXT://node-{BROKER}:9092",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"{CONTROLLER}@node-{CONTROLLER}:9093",
                "log.dirs": DATA,
            }
        )
        disk = SimDisk(machine.clock.now_ms)
        formatted(config, disk, machine)
        rng, executor = SystemRng(BROKER), SimExecutor(network.loop)
        self.clock = machine.clock
        self.controller = controller
        self.logs = LogStore.open(disk, machine.clock, [DATA], node_id=BROKER, rng=rng)
        self.loader = MetadataLoader(controller.metadata)
        self.loader.caught_up()
        controller.loader.subscribe(self.loader.publish)
        shared = Shared(
            config=config,
            dynamic_config=DynamicConfig(config),
            clock=machine.clock,
            rng=rng,
            network=network.host("broker"),
            threads=NodeThreads(executor),
            links=LinkSecurity(lambda: config),
            metrics=node_metrics(config, machine.clock),
            logs=self.logs,
            loader=self.loader,
            quorum=controller.quorum,
        )
        channels = ControllerChannels(
            config, shared.network, controller.quorum.view, controller.controller, shared.links.to_controllers
        )
        self.role = BrokerRole(shared, channels, executor)
        self.listeners = config.advertised_listeners

    @property
    def registration(self) -> BrokerRegistration:
        return self.controller.metadata.brokers[BROKER]


def on_broker_role(scenario: Callable[[BrokerRig], Awaitable[None]]) -> None:
    """Runs `scenario` with a broker role that has started on a controller of another node."""

    async def beside(network: SimNetwork, node: SimNode) -> None:
        assert node.running is not None
        rig = BrokerRig(network, node.running, node)
        await rig.role.lifecycle.start(rig.listeners)
        await rig.role.start()
        await scenario(rig)

    on_controller(beside)


class TestBrokerRoleOnAnotherNodesController:
    def test_it_registers_and_is_unfenced(self) -> None:
        async def scenario(rig: BrokerRig) -> None:
            assert not rig.registration.fenced
            assert rig.registration.epoch == rig.role.lifecycle.epoch
            assert rig.registration.endpoints["PLAINTEXT"].host == f"node-{BROKER}"

        on_broker_role(scenario)

    def test_it_leads_a_partition_and_commits_records(self) -> None:
        async def scenario(rig: BrokerRig) -> None:
            channel = rig.controller.controller
            (topic,) = (await channel.send(CREATE_TOPICS, new_topic("t"))).topics
            assert topic.error_code is ErrorCode.NONE
            partition = rig.role.replicas.get("t", 0)
            records = encode_batch([Record(0, 1, b"k", b"v", (), -1)], base_offset=0)
            append_batch(partition, bytearray(records), acks=ACKS_ALL, now_ms=rig.clock.now_ms())
            assert partition.log.high_watermark == 1
            read = partition.log.read(0, 1000, end_offset=1).read()
            assert [record.value for record in read_records(read)] == [b"v"]

        on_broker_role(scenario)

    def test_it_stays_registered_for_as_long_as_it_sends_heartbeats(self) -> None:
        async def scenario(rig: BrokerRig) -> None:
            await asyncio.sleep(3 * SESSION_S)
            assert not rig.registration.fenced
            await rig.role.stop(clean=False)
            await asyncio.sleep(3 * SESSION_S)
            assert rig.registration.fenced, "an unclean stop ends the heartbeats"

        on_broker_role(scenario)

    def test_before_a_clean_stop_the_controller_moves_its_leaderships(self) -> None:
        async def scenario(rig: BrokerRig) -> None:
            await rig.controller.controller.send(CREATE_TOPICS, new_topic("t"))
            await rig.role.lifecycle.leave()
            assert rig.registration.fenced
            image = rig.controller.metadata.partition("t", 0)
            assert image is not None and image.leader == NO_LEADER

        on_broker_role(scenario)
