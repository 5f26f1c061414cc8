"""The order in which a node's parts start and stop, a stop that is not clean, and directories that fail."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from kcli.client.connection import Connection
from kcli.config.definition import ConfigError
from kcli.config.start_up import node_config
from kcli.errors import KafkaError, StorageError
from kcli.metadata.image import METADATA_VERSION, MetadataImage
from kcli.model.addresses import Address
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.rng import SystemRng
from kcli.runtime.turns import next_turn
from kcli.security.authorizer import FollowsMetadata
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.formatting import format as formatting
from kcli.server.logins.listener_security import NodeSecurity
from kcli.server.network.listener import SocketServer
from kcli.server.node import Node
from kcli.server.partitions.log_cleaning import LogCleaning
from kcli.server.partitions.log_dir_moves import LogDirMoves
from kcli.server.partitions.replicas import Replicas
from kcli.server.parts.part import Part
from kcli.server.quorum.broker_lifecycle import BrokerLifecycle
from kcli.server.quorum.controller_role import ControllerRole
from kcli.server.requests.warm_up import PAUSE_BETWEEN_IMPORTS_S, PAUSES_PER_IMPORT_MAX
from kcli.server.roles.broker_role import BrokerRole
from kcli.storage.store.store import LogStore
from simulation.runtime.disk import SimDisk
from simulation.runtime.loop import SimExecutor, SimLoop, simulate
from simulation.runtime.network import SimNetwork
from simulation.world.cluster import CONTROLLER_PORT, SimNode


class Machine:
    """A machine whose nodes share one disk and one address."""

    def __init__(self, loop: SimLoop, **overrides: str) -> None:
        self.loop = loop
        self.network = SimNetwork(loop, random.Random(1))
        self._sim = SimNode(
            self.network,
            random.Random(2),
            1,
            {key.replace("_", "."): text for key, text in overrides.items()},
        )
        self.disk: SimDisk = self._sim.disk

    def node(self) -> Node:
        return Node(
            node_config(self._sim.properties),
            clock=self._sim.clock,
            disk=self.disk,
            network=self.network.host("node-1"),
            rng=SystemRng(3),
            background=SimExecutor(self.loop),
        )

    def format(self) -> None:
        """Formats the directories, because a node with one role does not do this itself."""
        seams = formatting.Machine(self.disk, self._sim.clock, SystemRng(4))
        request = formatting.FormatRequest(cluster_id="cluster")
        formatting.format_directories(node_config(self._sim.properties), request, seams, lambda _: None)

    async def connect(self) -> Connection:
        return await Connection.open(self.network.host("client"), Address("node-1", 9092), "test", 30.0)


def on_machine(scenario: Callable[[Machine], Awaitable[None]], **overrides: str) -> None:
    async def main(loop: SimLoop) -> None:
        await scenario(Machine(loop, **overrides))

    simulate(1, main)


STEPS = {
    (SocketServer, "listen"): "bind",
    (ControllerRole, "start"): "controller starts",
    (BrokerRole, "start"): "broker starts",
    (GroupCoordinator, "load"): "groups load",
    (LogDirMoves, "recover"): "moves recover",
    (Replicas, "load"): "partitions load",
    (BrokerLifecycle, "start"): "register",
    (BrokerLifecycle, "unfence"): "be unfenced",
    (LogCleaning, "start"): "cleaner starts",
    (SocketServer, "admit"): "admit clients",
    (SocketServer, "stop_accepting"): "accept no client",
    (BrokerRole, "stop"): "broker stops",
    (LogCleaning, "stop"): "cleaner stops",
    (TransactionCoordinator, "stop_sending"): "no more markers",
    (TransactionCoordinator, "stop"): "transactions stop",
    (GroupCoordinator, "stop"): "groups stop",
    (BrokerLifecycle, "leave"): "leave",
    (BrokerLifecycle, "stop"): "no more heartbeats",
    (SocketServer, "close"): "close connections",
    (ControllerRole, "stop"): "controller stops",
    (LogStore, "close"): "close logs",
}
"""The methods whose order matters, and what each of them does."""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the steps in the order in which they begin."""
    begun: list[str] = []
    for (owner, method), name in STEPS.items():
        _record(monkeypatch, owner, method, name, begun)
    return begun


def _record(
    monkeypatch: pytest.MonkeyPatch, owner: type[object], method: str, name: str, begun: list[str]
) -> None:
    original = getattr(owner, method)

    def recorded(*args: object, **options: object) -> object:
        begun.append(name)
        return original(*args, **options)

    monkeypatch.setattr(owner, method, recorded)


def test_clients_are_admitted_when_all_else_has_started(steps: list[str]) -> None:
    async def scenario(machine: Machine) -> None:
        await machine.node().start()

    on_machine(scenario)
    assert steps == [
        "bind",
        "bind",
        "controller starts",
        "register",
        "broker starts",
        "moves recover",
        "groups load",
        "partitions load",
        "be unfenced",
        "cleaner starts",
        "admit clients",
    ]


def test_the_broker_leaves_before_the_controller_and_the_logs_come_last(steps: list[str]) -> None:
    async def scenario(machine: Machine) -> None:
        node = machine.node()
        await node.start()
        steps.clear()
        await node.stop()

    on_machine(scenario)
    assert steps == [
        "leave",
        "accept no client",
        "broker stops",
        "no more heartbeats",
        "cleaner stops",
        "no more markers",
        "transactions stop",
        "groups stop",
        "close connections",
        "accept no client",
        "controller stops",
        "close connections",
        "accept no client",
        "close logs",
    ]


def test_a_stop_that_is_not_clean_gives_up_no_leadership_group_or_transaction(steps: list[str]) -> None:
    async def scenario(machine: Machine) -> None:
        node = machine.node()
        await node.start()
        steps.clear()
        await node.stop(clean=False)

    on_machine(scenario)
    assert "leave" not in steps
    assert "transactions stop" not in steps
    assert "groups stop" not in steps
    assert steps[-1] == "close logs"


def test_a_broker_serves_clients_and_applies_metadata_until_it_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(machine: Machine) -> None:
        node = machine.node()
        await node.start()
        has_left = asyncio.Event()

        async def slow(_lifecycle: BrokerLifecycle) -> None:
            await has_left.wait()

        monkeypatch.setattr(BrokerLifecycle, "leave", slow)
        stopping = asyncio.ensure_future(node.stop())
        await asyncio.sleep(1)
        client = await machine.connect()
        request = CreateTopicsRequest(
            topics=(CreatableTopic(name="late", num_partitions=1, replication_factor=1),)
        )
        await client.request(request, ApiKey.CREATE_TOPICS, version=7, timeout=5)
        assert node.broker is not None and node.broker.replicas.find("late", 0) is not None
        assert not client.is_closed
        has_left.set()
        await stopping
        assert client.is_closed
        with pytest.raises(OSError):
            await machine.connect()

    on_machine(scenario)


def test_the_controller_is_served_until_its_broker_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    open_ports: list[int] = []

    async def scenario(machine: Machine) -> None:
        node, stop = machine.node(), BrokerRole.stop

        async def watched(role: BrokerRole, *, clean: bool) -> None:
            await stop(role, clean=clean)
            open_ports.extend(port for _, port in machine.network.servers)

        monkeypatch.setattr(BrokerRole, "stop", watched)
        await node.start()
        await node.stop()
        assert not machine.network.servers

    on_machine(scenario)
    assert open_ports == [CONTROLLER_PORT]


def test_a_node_that_halts_while_it_leaves_stops_at_once_and_not_cleanly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(machine: Machine) -> None:
        async def forever(_lifecycle: BrokerLifecycle) -> None:
            await asyncio.Event().wait()

        node = machine.node()
        await node.start()
        monkeypatch.setattr(BrokerLifecycle, "leave", forever)
        stopping = asyncio.ensure_future(node.stop())
        await asyncio.sleep(1)
        machine.disk.fail("sync", "__cluster_metadata-0")
        await stopping
        assert not machine.disk.exists("/data/.kafka_cleanshutdown")
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    on_machine(scenario)


def test_a_stop_that_is_not_clean_leaves_no_mark_of_a_clean_one() -> None:
    async def scenario(machine: Machine) -> None:
        node = machine.node()
        await node.start()
        await node.stop(clean=False)
        assert not machine.disk.exists("/data/.kafka_cleanshutdown")
        node = machine.node()
        await node.start()
        await node.stop()
        assert machine.disk.exists("/data/.kafka_cleanshutdown")

    on_machine(scenario)


@pytest.mark.parametrize("clean", [True, False])
def test_a_stopped_node_leaves_no_task(clean: bool) -> None:
    async def scenario(machine: Machine) -> None:
        node = machine.node()
        await node.start()
        assert node.warming_up is not None
        await node.warming_up
        await node.stop(clean=clean)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    on_machine(scenario)


def test_a_node_imports_the_handlers_of_all_apis_after_its_start() -> None:
    async def scenario(machine: Machine) -> None:
        node = machine.node()
        await node.start()
        dispatches = list(node.listeners.dispatches.values())
        assert [each for each in dispatches if next(each.load_routes(), "all") != "all"]
        assert node.warming_up is not None
        await node.warming_up
        assert [list(dispatch.load_routes()) for dispatch in dispatches] == [[], []]
        await node.stop()

    on_machine(scenario)


def test_a_node_that_serves_a_large_request_waits_before_it_imports_another_handler() -> None:
    longest_s = PAUSES_PER_IMPORT_MAX * PAUSE_BETWEEN_IMPORTS_S

    async def scenario(machine: Machine) -> None:
        node = machine.node()
        await node.start()
        serving = asyncio.create_task(_large_request())
        await asyncio.sleep(1)
        before = _handlers_imported(node)
        await asyncio.sleep(longest_s / 2)
        assert _handlers_imported(node) <= before + 1
        await asyncio.sleep(longest_s)
        assert _handlers_imported(node) > before, "some nodes always serve a large request"
        serving.cancel()
        assert node.warming_up is not None
        await node.warming_up
        await node.stop()

    on_machine(scenario)


async def _large_request() -> None:
    while True:
        await next_turn()
        await asyncio.sleep(PAUSE_BETWEEN_IMPORTS_S / 2)


def _handlers_imported(node: Node) -> int:
    return sum(len(dispatch._routes) for dispatch in node.listeners.dispatches.values())


def test_a_node_that_stops_while_it_imports_handlers_leaves_no_task() -> None:
    async def scenario(machine: Machine) -> None:
        node = machine.node()
        await node.start()
        await asyncio.sleep(1)
        assert node.warming_up is not None and not node.warming_up.done()
        await node.stop()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    on_machine(scenario)


def test_a_client_that_comes_during_the_start_is_served_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(machine: Machine) -> None:
        node, start = machine.node(), BrokerRole.start

        async def slow(role: BrokerRole) -> None:
            await asyncio.sleep(5)
            await start(role)

        monkeypatch.setattr(BrokerRole, "start", slow)
        starting = asyncio.ensure_future(node.start())
        await asyncio.sleep(3)
        connecting = asyncio.ensure_future(machine.connect())
        await asyncio.sleep(2)
        assert not connecting.done()
        await starting
        assert (await connecting).versions

    on_machine(scenario)


class TestAStartThatFails:
    def test_everything_that_had_started_is_stopped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def scenario(machine: Machine) -> None:
            async def refused(*_: object) -> None:
                raise KafkaError("refused")

            with monkeypatch.context() as patched:
                patched.setattr(BrokerLifecycle, "start", refused)
                with pytest.raises(KafkaError, match="refused"):
                    await machine.node().start()
            assert not machine.network.servers, "the ports are free again"
            assert asyncio.all_tasks() == {asyncio.current_task()}
            await machine.node().start()

        on_machine(scenario)

    @pytest.mark.parametrize("step", ["controller", "broker"])
    def test_a_stop_cancels_the_start(self, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
        async def scenario(machine: Machine) -> None:
            reached = asyncio.Event()

            async def stuck(*_: object) -> None:
                reached.set()
                await asyncio.Event().wait()

            with monkeypatch.context() as patched:
                patched.setattr(ControllerRole if step == "controller" else BrokerLifecycle, "start", stuck)
                node = machine.node()
                starting = asyncio.create_task(node.start())
                await reached.wait()
                await node.stop()
            assert starting.cancelled()
            assert not node.is_ready and not machine.network.servers
            assert asyncio.all_tasks() == {asyncio.current_task()}
            await machine.node().start()

        on_machine(scenario)

    def test_a_failure_at_any_place_closes_the_logs_and_the_ports(self) -> None:
        def refuse() -> None:
            raise StorageError("refused")

        async def fails_at(machine: Machine, place: int) -> bool:
            """Returns False if there is no such place in the list of the node's parts."""
            node = machine.node()
            if place > len(node.parts.rows):
                await node.stop()  # a node that was never started
                assert not node.logs.is_open
                return False
            node.parts.rows.insert(place, Part(name="broken", start=refuse))
            with pytest.raises(StorageError, match="refused"):
                await node.start()
            await node.stop()  # a second stop changes nothing
            assert not node.logs.is_open
            assert not machine.network.servers
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return True

        async def scenario(machine: Machine) -> None:
            place = 0
            while await fails_at(machine, place):
                place += 1
            assert place > 10

        on_machine(scenario, kcli_metrics_listener="node-1:9400")

    def test_a_port_in_use(self) -> None:
        async def scenario(machine: Machine) -> None:
            await machine.network.host("node-1").create_server(asyncio.BufferedProtocol, "node-1", 9093)
            with pytest.raises(OSError, match="in use"):
                await machine.node().start()
            assert list(machine.network.servers) == [("node-1", 9093)]

        on_machine(scenario)


def test_a_node_whose_stores_cannot_be_loaded_leaves_its_disk_unchanged() -> None:
    async def scenario(machine: Machine) -> None:
        with pytest.raises(ConfigError, match=r"/missing\.pem"):
            machine.node()
        assert not machine.disk.exists("/data/meta.properties")
        assert not machine.disk.exists("/data/__cluster_metadata-0")

    on_machine(
        scenario,
        listener_security_protocol_map="PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        ssl_keystore_type="PEM",
        ssl_keystore_location="/missing.pem",
    )


def test_a_stop_that_fails_still_ends_the_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(machine: Machine) -> None:
        def refused(*_: object, **__: object) -> None:
            raise KafkaError("refused")

        node = machine.node()
        await node.start()
        with monkeypatch.context() as patched:
            patched.setattr(LogStore, "close", refused)
            _record(patched, NodeSecurity, "close", "end the logins", ended)
            with pytest.raises(KafkaError, match="refused"):
                await node.stop()

    ended: list[str] = []
    on_machine(scenario)
    assert ended == ["end the logins"]


def test_the_metadata_log_may_have_a_directory_outside_of_the_log_dirs() -> None:
    async def scenario(machine: Machine) -> None:
        for _ in range(2):
            node = machine.node()
            await node.start()
            assert node.quorum.log.directory.path == "/metadata"
            (registered,) = node.metadata.brokers[1].directories
            assert [registered] == [directory.id for directory in node.logs.directories]
            await node.stop()
        node = machine.node()
        await node.start()
        machine.disk.fail("sync", "/metadata/__cluster_metadata-0")
        assert "/metadata" in await node.halted
        await node.stop(clean=False)

    on_machine(scenario, log_dirs="/data", metadata_log_dir="/metadata")


class TestDirectoriesThatFail:
    def test_another_directory_takes_its_partitions_offline_and_the_node_continues(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[str] = []
        monkeypatch.setattr(Replicas, "directory_failed", lambda _, directory: told.append(directory.path))

        async def scenario(machine: Machine) -> None:
            node = machine.node()
            await node.start()
            machine.disk.fail("write", "/more/recovery-point-offset-checkpoint")
            node.logs.maintenance.checkpoint_recovery_points()
            await asyncio.sleep(1)
            assert told == ["/more"]
            assert not node.halted.done()

        on_machine(scenario, log_dirs="/data,/more")

    def test_the_metadata_directory_ends_the_node(self) -> None:
        async def scenario(machine: Machine) -> None:
            node = machine.node()
            await node.start()
            machine.disk.fail("sync", "__cluster_metadata-0")
            assert "/data" in await node.halted
            await node.stop(clean=False)

        on_machine(scenario, log_dirs="/data,/more")

    @pytest.mark.parametrize("started", [False, True])
    def test_a_part_that_fails_on_the_directory_does_not_keep_the_node_running(
        self, started: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise KafkaError("refused")

        told: list[str] = []
        monkeypatch.setattr(LogDirMoves, "directory_failed", refuse)
        monkeypatch.setattr(Replicas, "directory_failed", lambda _, directory: told.append(directory.path))

        async def scenario(machine: Machine) -> None:
            node = machine.node()
            if started:
                await node.start()
            node.quorum.log.directory.failed(OSError("broken"))
            assert "/data" in await asyncio.wait_for(node.halted, 10)
            assert told == ["/data"]
            await node.stop(clean=False)

        on_machine(scenario, log_dirs="/data,/more")


ROLES = {
    "broker,controller": {},
    "controller": {"listeners": "CONTROLLER://node-1:9093"},
    "broker": {
        "listeners": "PLAINTEXT://node-1:9092",
        "controller_quorum_voters": "2@node-2:9093",
    },
}


@pytest.mark.parametrize("roles", ROLES)
@pytest.mark.parametrize("metrics", ["", "node-1:9400"])
def test_no_part_acts_on_metadata_whose_acls_are_not_in_force(roles: str, metrics: str) -> None:
    async def scenario(machine: Machine) -> None:
        machine.format()
        node = machine.node()
        heard: list[object] = []
        authorizer = node.listeners.authorizer
        assert isinstance(authorizer, FollowsMetadata)
        node.parts.follow(node.dynamic_config, node.loader)
        listeners = node.loader._listeners
        assert len(listeners) > 1
        listeners[:] = [lambda *_, each=each: heard.append(each) for each in listeners]
        node.loader.publish(None, MetadataImage(cluster_id="cluster", features={METADATA_VERSION: 20}))
        node.loader.caught_up()
        assert heard[0] == authorizer.metadata_changed
        await node.stop(clean=False)

    on_machine(
        scenario,
        process_roles=roles,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        kcli_metrics_listener=metrics,
        **ROLES[roles],
    )
