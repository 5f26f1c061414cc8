"""Whole nodes on simulated machines: they can be started, stopped and killed, and can lose power."""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Collection, Mapping, Sequence

from kcli.config.start_up import node_config
from kcli.model.addresses import Address
from kcli.model.ids import BrokerId
from kcli.raft.voters import ReplicaKey, Voter, VoterSet
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import FormatRequest, Machine, format_directories
from kcli.server.node import Node
from simulation.runtime.clock import SimClock
from simulation.runtime.disk import SimDisk
from simulation.runtime.loop import SimExecutor, SimLoop, SimProcess
from simulation.runtime.network import SimNetwork, Weather

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
DATA = "/data"
BOTH = "broker,controller"
# The id of every simulated cluster with several nodes.
CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"


class SimNode:
    """A machine with one node. By default the node is broker and controller, and the only voter. `life` is the number
    of its starts."""

    def __init__(
        self,
        network: SimNetwork,
        rng: random.Random,
        node_id: int,
        overrides: Mapping[str, str],
        *,
        roles: str = BOTH,
        quorum: Mapping[str, str] | None = None,
    ) -> None:
        """`quorum` has the keys by which the node finds the quorum. `overrides` take precedence over all keys."""
        self.name = machine_name(node_id)
        self.node_id = node_id
        self.roles = roles
        self.is_member = True
        """Whether the node belongs to the cluster. Faults and clients ignore a machine that does not."""
        self.life = 0
        self.began_s = 0.0
        """The time at which the present life began."""
        self.was_paused = False
        self.running: Node | None = None
        self.alive: Node | None = None
        """The node from the beginning of its start to the end of its stop. A node may already lead partitions before it
        is ready, and until it has stopped.
        """
        self.overrides = dict(overrides)
        self.clock = SimClock(network.loop)
        self.disk = SimDisk(self.clock.now_ms, network.loop.stall)
        self._quorum = static_quorum([node_id]) if quorum is None else dict(quorum)
        self._loop = network.loop
        self._network = network
        self._rng = rng
        self.process: SimProcess | None = None
        """The process of the present life."""
        self._start: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def log_dirs(self) -> list[str]:
        return self.properties["log.dirs"].split(",")

    @property
    def properties(self) -> dict[str, str]:
        listeners = []
        if self.is_broker:
            listeners.append(f"PLAINTEXT://{self.name}:{BROKER_PORT}")
        if self.is_controller:
            listeners.append(f"CONTROLLER://{self.name}:{CONTROLLER_PORT}")
        brokers = {"inter.broker.listener.name": "PLAINTEXT"} if self.is_broker else {}
        return {
            "process.roles": self.roles,
            "node.id": str(self.node_id),
            **self._quorum,
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            **brokers,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": DATA,
            # With one thread, recovery runs inside the simulation. More threads would run outside the simulation.
            "num.recovery.threads.per.data.dir": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.overrides,
        }

    def format(self, request: FormatRequest) -> None:
        """Formats the directories of the node, as `kcli storage format` does."""
        machine = Machine(self.disk, self.clock, SystemRng(self._rng.randrange(1 << 62)))
        format_directories(node_config(self.properties), request, machine, self._loop.note)

    @property
    def is_up(self) -> bool:
        return self.running is not None

    @property
    def is_starting(self) -> bool:
        return self._start is not None and not self._start.done()

    @property
    def has_failed_to_start(self) -> bool:
        return self._start is not None and self._start.done() and self._start.exception() is not None

    async def start(self, patience_s: float | None = None) -> bool:
        """Starts the node. Returns False if it is not ready after `patience_s`. In this case, the start continues.

        Raises the error of a start that fails.
        """
        if self._start is None:
            self.life += 1
            self.began_s = self._loop.time()
            self._loop.note(f"{self.name} starts its life {self.life}")
            self.process = SimProcess(f"{self.name} life {self.life}")
            self._start = self.process.spawn(self._run(), name=f"start {self.name}")
        await asyncio.wait((self._start,), timeout=patience_s)
        if not self._start.done():
            return False
        self._start.result()
        return True

    async def _run(self) -> None:
        config = node_config(self.properties)
        node = Node(
            config,
            clock=self.clock,
            disk=self.disk,
            network=self._network.host(self.name),
            rng=SystemRng(self._rng.randrange(1 << 62)),
            background=SimExecutor(self._loop),
        )
        self.alive = node
        await node.start()
        self._loop.note(f"{self.name} is ready")
        self.running = node
        self._guard = asyncio.get_running_loop().create_task(self._stop_when_halted(node))

    async def _stop_when_halted(self, node: Node) -> None:
        """Stops the node when the node reports that it must halt. The main program of a node does the same."""
        reason = await node.halted
        self._loop.note(f"{self.name} halts: {reason}")
        self.running = None
        await node.stop(clean=False)
        self.alive = None

    async def stop(self) -> None:
        """Stops the node cleanly, as after SIGTERM."""
        assert self.running is not None and self.process is not None, "only a running broker is stopped"
        node, self.running = self.running, None
        await self.process.spawn(node.stop(), name=f"stop {self.name}")
        self._end(silent=False)
        self.disk = self.disk.kill_clone()

    def kill(self) -> None:
        """Kills the node like SIGKILL: all written data is kept."""
        self._loop.note(f"{self.name} is killed")
        self._end(silent=False)
        self.disk = self.disk.kill_clone()

    def pause(self) -> None:
        """Stops the process like SIGSTOP. The node cannot notice the pause before `go_on`."""
        if self.process is not None:
            self.was_paused = True
            self._loop.note(f"{self.name} is paused")
            self._loop.pause(self.process)

    def go_on(self) -> None:
        """Ends a pause like SIGCONT."""
        if self.process is not None and self.process.is_paused:
            self._loop.note(f"{self.name} continues")
            self._loop.go_on(self.process)

    def lose_power(self) -> None:
        """Ends the node by a loss of power. Any part of the unflushed data may be lost, not only the newest part."""
        self._loop.note(f"{self.name} loses its power")
        self._end(silent=True)
        crashed = self.disk.crash_clone(self._rng.randrange(1 << 62))
        self.disk.kill_clone()
        self.disk = crashed

    def wipe(self, request: FormatRequest) -> None:
        """Kills the node, and gives the machine a new, formatted disk."""
        self._loop.note(f"{self.name} gets a new disk")
        self._end(silent=False)
        self.disk.kill_clone()
        self.disk = SimDisk(self.clock.now_ms, self._loop.stall)
        self.format(request)

    def _end(self, *, silent: bool) -> None:
        self.running = self.alive = None
        self._start = None
        if self.process is not None:
            self._loop.kill(self.process)
            self._network.process_died(self.process, silent=silent)
            self.process = None


class SimCluster:
    """A network with one node, or with several nodes of chosen roles. An error line in the log of a node fails the
    simulation."""

    def __init__(
        self,
        seed: int,
        *,
        overrides: Mapping[str, str] | None = None,
        weather: Weather | None = None,
        roles: Mapping[int, str] | None = None,
        dynamic: bool = False,
        spares: Collection[int] = (),
    ) -> None:
        """Makes the machines, and formats them if there are several.

        `roles` has the process.roles of each node id. If it is None, node 1 has both roles and formats itself. If
        `dynamic`, the voters are in the metadata log (KIP-853), otherwise in the configuration. `spares` has the ids of
        the nodes that do not belong to the cluster at first.
        """
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop), "a SimCluster lives on a SimLoop"
        self.loop = loop
        self.rng = random.Random(seed)
        self.network = SimNetwork(loop, self.rng, weather)
        voters = [node_id for node_id, each in (roles or {1: BOTH}).items() if "controller" in each]
        quorum = dynamic_quorum(voters) if dynamic else static_quorum(voters)
        self.nodes = {
            node_id: SimNode(self.network, self.rng, node_id, overrides or {}, roles=each, quorum=quorum)
            for node_id, each in (roles or {1: BOTH}).items()
        }
        for node_id in spares:
            self.nodes[node_id].is_member = False
        self.node = next(iter(self.nodes.values()))
        self.error_watch = ErrorWatch(loop)
        self._voters = first_voters(voters, self.rng) if dynamic and roles is not None else None
        if roles is not None:
            self._format(self._voters)

    def _format(self, voters: VoterSet | None) -> None:
        for node in self.nodes.values():
            node.format(self._format_request(node, voters))

    def _format_request(self, node: SimNode, voters: VoterSet | None) -> FormatRequest:
        of_node = voters if node.is_controller else None
        return FormatRequest(cluster_id=CLUSTER_ID, voters=of_node, dynamic_quorum=voters is not None)

    def wipe(self, node: SimNode) -> None:
        """Gives a node a new disk, with a new directory id. A voter must be removed from the quorum first, because a
        voter must not forget its votes. Static voters cannot be removed.
        """
        assert self.is_dynamic or not node.is_controller, f"{node.name} is a voter"
        node.wipe(FormatRequest(cluster_id=CLUSTER_ID, dynamic_quorum=self.is_dynamic))

    @property
    def is_dynamic(self) -> bool:
        """Whether voters can be added and removed (KIP-853)."""
        return self._voters is not None

    def acted(self) -> list[SimNode]:
        """The nodes whose callbacks have run in the last iteration of the event loop."""
        acting = self.loop.acting
        return [node for node in self.nodes.values() if node.process in acting]

    @property
    def members(self) -> list[SimNode]:
        """The nodes that belong to the cluster."""
        return [node for node in self.nodes.values() if node.is_member]

    @property
    def brokers(self) -> list[SimNode]:
        return [node for node in self.members if node.is_broker]

    @property
    def controllers(self) -> list[SimNode]:
        return [node for node in self.members if node.is_controller]

    async def start(self) -> None:
        """Starts all nodes that belong to the cluster. Returns when every node is ready."""
        await asyncio.gather(*(node.start() for node in self.members))

    def isolate(self, node: SimNode, *, hears: bool = False, speaks: bool = False) -> None:
        """Cuts a machine off from all other nodes. If `hears` is True, the machine still receives. If `speaks` is True,
        the machine still sends."""
        for other in self.nodes.values():
            if other is node:
                continue
            if not speaks:
                self.network.cut_link(node.name, other.name)
            if not hears:
                self.network.cut_link(other.name, node.name)

    async def __aenter__(self) -> SimCluster:
        logging.getLogger("kcli").addHandler(self.error_watch)
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.kill()
        logging.getLogger("kcli").removeHandler(self.error_watch)


def machine_name(node_id: int) -> str:
    return f"node-{node_id}"


def static_quorum(voters: Sequence[int]) -> dict[str, str]:
    """The keys of a quorum whose voters are in the configuration (kraft.version 0)."""
    named = (f"{voter}@{machine_name(voter)}:{CONTROLLER_PORT}" for voter in voters)
    return {"controller.quorum.voters": ",".join(named)}


def dynamic_quorum(voters: Sequence[int]) -> dict[str, str]:
    """The keys of a quorum whose voters are in the metadata log (kraft.version 1)."""
    servers = (f"{machine_name(voter)}:{CONTROLLER_PORT}" for voter in voters)
    return {"controller.quorum.bootstrap.servers": ",".join(servers)}


def first_voters(voters: Sequence[int], rng: random.Random) -> VoterSet:
    """The first voters of a dynamic quorum, with new directory ids (`--initial-controllers`)."""
    return VoterSet(
        tuple(
            Voter(
                ReplicaKey(BrokerId(voter), uuid.UUID(int=rng.getrandbits(128), version=4)),
                {"CONTROLLER": Address(machine_name(voter), CONTROLLER_PORT)},
            )
            for voter in voters
        )
    )


class ErrorWatch(logging.Handler):
    """Makes each error line in a broker's log an error of the simulation, except while `tolerates` is true."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__(logging.ERROR)
        self.tolerates = False
        self._loop = loop
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        process = SimProcess.current()
        if not self.tolerates and (process is None or process.alive):
            self._loop.problems.append(f"{self._loop.time():.6f} {self.format(record)}")
