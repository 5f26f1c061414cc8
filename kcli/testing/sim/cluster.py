"""Whole nodes on simulated machines: they can be started, stopped and killed, and can lose power."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping

from kcli.config.start_up import node_config
from kcli.runtime.rng import SystemRng
from kcli.server.node import Node
from kcli.testing.sim.clock import SimClock
from kcli.testing.sim.disk import SimDisk
from kcli.testing.sim.loop import SimExecutor, SimLoop, SimProcess
from kcli.testing.sim.network import SimNetwork, Weather

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
DATA = "/data"


class SimNode:
    """A machine with one node, which is broker and controller. `life` is the number of its starts."""

    def __init__(
        self, network: SimNetwork, rng: random.Random, node_id: int, overrides: Mapping[str, str]
    ) -> None:
        self.name = f"node-{node_id}"
        self.node_id = node_id
        self.life = 0
        self.running: Node | None = None
        self.overrides = dict(overrides)
        self.clock = SimClock(network.loop)
        self.disk = SimDisk(self.clock.now_ms, network.loop.stall)
        self._loop = network.loop
        self._network = network
        self._rng = rng
        self._process: SimProcess | None = None
        self._start: asyncio.Task[None] | None = None
        self._guard: asyncio.Task[None] | None = None

    @property
    def properties(self) -> dict[str, str]:
        broker, controller = f"{self.name}:{BROKER_PORT}", f"{self.name}:{CONTROLLER_PORT}"
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": f"{self.node_id}@{controller}",
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": DATA,
            # With one thread, recovery runs inside the simulation. More threads would run outside the simulation.
            "num.recovery.threads.per.data.dir": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.overrides,
        }

    @property
    def is_up(self) -> bool:
        return self.running is not None

    async def start(self, patience_s: float | None = None) -> bool:
        """Starts the node. Returns False if it is not ready after `patience_s`. The start continues in this case.

        Raises the error of a start that fails.
        """
        if self._start is None:
            self.life += 1
            self._loop.note(f"{self.name} starts its life {self.life}")
            self._process = SimProcess(f"{self.name} life {self.life}")
            self._start = self._process.spawn(self._run(), name=f"start {self.name}")
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
        await node.start()
        self._loop.note(f"{self.name} is ready")
        self.running = node
        self._guard = asyncio.get_running_loop().create_task(self._stop_when_halted(node))

    async def _stop_when_halted(self, node: Node) -> None:
        """Stops the node when it reports that it must halt, as its main program does."""
        reason = await node.halted
        self._loop.note(f"{self.name} halts: {reason}")
        self.running = None
        await node.stop(clean=False)

    async def stop(self) -> None:
        """Stops the node cleanly, as after SIGTERM."""
        assert self.running is not None and self._process is not None, "only a running broker is stopped"
        node, self.running = self.running, None
        await self._process.spawn(node.stop(), name=f"stop {self.name}")
        self._end(silent=False)
        self.disk = self.disk.kill_clone()

    def kill(self) -> None:
        """Kills the node like SIGKILL: all written data is kept."""
        self._loop.note(f"{self.name} is killed")
        self._end(silent=False)
        self.disk = self.disk.kill_clone()

    def lose_power(self) -> None:
        """Ends the node by a loss of power. A part of the data that was not flushed is lost, in any order."""
        self._loop.note(f"{self.name} loses its power")
        self._end(silent=True)
        crashed = self.disk.crash_clone(self._rng.randrange(1 << 62))
        self.disk.kill_clone()
        self.disk = crashed

    def _end(self, *, silent: bool) -> None:
        self.running = None
        self._start = None
        if self._process is not None:
            self._loop.kill(self._process)
            self._network.process_died(self._process, silent=silent)
            self._process = None


class SimCluster:
    """A network with one node. An error line in the log of the node fails the simulation."""

    def __init__(
        self,
        seed: int,
        *,
        overrides: Mapping[str, str] | None = None,
        weather: Weather | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop), "a SimCluster lives on a SimLoop"
        self.loop = loop
        self.rng = random.Random(seed)
        self.network = SimNetwork(loop, self.rng, weather)
        self.node = SimNode(self.network, self.rng, 1, overrides or {})
        self.error_watch = ErrorWatch(loop)

    async def __aenter__(self) -> SimCluster:
        logging.getLogger("kcli").addHandler(self.error_watch)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.node.kill()
        logging.getLogger("kcli").removeHandler(self.error_watch)


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
