"""The faults of a simulated cluster: nodes, networks, disks and clocks that fail, pauses, rolling restarts, and brokers
that join and leave."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kcli.metadata.image import PartitionImage
from simulation.actors.broker_changes import BrokerChanges
from simulation.actors.voter_changes import VoterChanges
from simulation.checks.partition import Partition
from simulation.checks.replication_watch import ReplicationWatch
from simulation.runtime.disk import FaultKind
from simulation.world.cluster import SimCluster, SimNode
from simulation.world.settings import Failing, Kind

SLOW_LINK_S = (0.05, 0.4, 2.0)
SLOW_CALLS = 12
"""The upper limit (exclusive) for the number of consecutive calls that a slow disk delays."""
# The faults of a disk, each with an operation and a part of the path. Reads do not fail, because the checks read from
# the same disk.
DISK_FAULTS = (
    ("write", "replicated-"),
    ("write", "replicated-"),
    ("write", ".log"),
    ("sync", ".log"),
    ("sync", ""),
    ("write", "leader-epoch-checkpoint"),
    ("rename", ""),
    ("truncate", ""),
    ("write", "__cluster_metadata"),
)
# The only node of a cluster may also fail when it makes files and directories.
DISK_FAULTS_OF_ONE_NODE = (
    ("write", ""),
    ("write", ".log"),
    ("write", ".log"),
    ("sync", ".log"),
    ("write", "index"),
    ("sync", ""),
    ("sync", "__cluster_metadata"),
    ("rename", ""),
    ("sync_dir", ""),
    ("make_dir", ""),
    ("remove", ""),
)
PAUSES_S = (0.3, 3.0, 12.0)
"""The lengths of pauses. The longest is longer than every session."""
CLOCK_JUMPS_MS = (-600_000, -30_000, -2_000, 500, 5_000, 60_000, 600_000)
"""The clocks of a client and a broker may differ by the sum of a few jumps. The sum stays below
message.timestamp.after.max.ms.
"""
CLOCK_RATES = (0.9, 1.0, 1.0, 1.1)
BROKERS_MIN = 3
"""A broker may leave only if at least this number of brokers remain. It is the largest replication factor."""
MORE_OFTEN = 4
"""How often the fault that a story is about is in the list of its faults."""
STARTS_S = (0.002, 0.005, 0.02)
"""The moments of a start at which a node is killed again."""
WAITS_MAX, WAIT_S = 1000, 0.0005
PATIENCE_S = 60.0
"""The time limit of a step that must end before the next fault, such as the start of a node in a rolling restart."""


@dataclass(frozen=True, slots=True)
class _Trio:
    """A partition with three replicas. The first node is its leader."""

    partition: Partition
    nodes: list[SimNode]

    @property
    def image(self) -> PartitionImage:
        assert self.partition.image is not None
        return self.partition.image

    def is_left_by(self, node: SimNode) -> bool:
        return node.node_id not in self.image.isr


class Faults:
    """Makes faults until a given time. `heal` ends all of them."""

    def __init__(
        self,
        cluster: SimCluster,
        watch: ReplicationWatch,
        rng: random.Random,
        kind: Kind,
        failing: Failing,
        voters: VoterChanges | None = None,
        brokers: BrokerChanges | None = None,
    ) -> None:
        """If `voters` is given, voters get new disks too. If `brokers` is given, brokers join and leave."""
        self.cluster = cluster
        self.watch = watch
        self.rng = random.Random(rng.randrange(1 << 62))
        self.counts: dict[str, int] = {}
        self._failing = failing
        self._kind = kind
        self._possible = _possible_faults(kind, failing, len(cluster.members))
        self._voters = voters
        if voters is not None:
            self._possible += ["voter"] * MORE_OFTEN
        self._brokers = brokers
        if brokers is not None:
            self._possible += ["membership"] * 6

    async def run(self, end: float) -> None:
        loop = self.cluster.loop
        while loop.time() < end:
            await asyncio.sleep(self.rng.random() * 3)
            if self._is_one_node and self.rng.random() < 0.7:
                await self._something_is_committed()
            kind = self.rng.choice(self._possible)
            self._count(kind)
            await self._happen(kind)
            if self._is_one_node or self.rng.random() < 0.6:
                await asyncio.sleep(self.rng.choice((0.0, 0.5, 3.0)))
                await self._revive_all()

    @property
    def _is_one_node(self) -> bool:
        return self._kind is Kind.ONE_NODE

    async def _something_is_committed(self) -> None:
        """Waits for the next commit, and returns before any client gets its answer.

        This is the worst moment for a fault of the only node.
        """
        before = self.watch.committed_batches
        for _ in range(WAITS_MAX):
            if self.watch.committed_batches != before:
                return
            await asyncio.sleep(WAIT_S)

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    async def heal(self) -> None:
        """Repairs all links and disks, and starts all nodes. Returns before they are ready."""
        self.cluster.network.mend_links()
        self._end_pauses()
        for node in self.cluster.members:
            node.disk.heal()
            if node.running is not None and _has_failed_directory(node):
                self.kill(node)
        await self._revive_all()

    async def _happen(self, kind: str) -> None:
        node = self._victim()
        match kind:
            case "kill":
                self.kill(node)
            case "leader":
                self.kill(self._leader())
            case "power":
                await self._lose_power(node)
            case "eligible":
                await self._lose_power_of_eligible()
            case "restart":
                await self._kill_during_start(node)
            case "blackout":
                await self._black_out()
            case "wipe":
                await self._wipe()
            case "voter":
                await self._replace_disk_of_voter()
            case "membership":
                await self._change_membership()
            case "pause":
                self._pause(node)
            case "clock":
                self._disturb_clock(node)
            case "stop" if node.is_up:
                await self._stop(node, self.rng.choice((0.2, 3.0, 15.0)))
            case "roll" if self.rng.random() < 0.4:
                await self._roll()
            case "isolate" | "deaf" | "mute":
                self._cut(node, hears=kind == "mute", speaks=kind == "deaf")
            case "slow":
                self._slow(node)
            case "cut":
                self.cluster.network.cut(self.rng.choice((0.3, 1.0)))
            case "stall":
                for nth in range(1, self.rng.randint(2, SLOW_CALLS)):
                    node.disk.fail(nth=nth, kind=FaultKind.SLOW)
            case "disk" if node.is_up:
                await self._break_disk(node)
            case _:
                self.cluster.network.mend_links()

    # Nodes.

    def _victim(self) -> SimNode:
        """A node for the next fault. Brokers are chosen more often than controllers, or the active controller, because
        the story is about its loss."""
        if self._kind is Kind.CONTROLLERS and self.rng.random() < 0.4:
            for node in self.cluster.members:
                if node.running is not None and node.running.quorum.view.is_leader:
                    return node
        nodes = self.cluster.brokers if self.rng.random() < 0.75 else self.cluster.members
        return self.rng.choice(nodes)

    def _leader(self) -> SimNode:
        """The leader of a partition, because its loss matters most."""
        images = [each.image for each in self.watch.partitions.values() if each.image is not None]
        leaders = [image.leader for image in images if image.leader in self.cluster.nodes]
        return self.cluster.nodes[self.rng.choice(leaders)] if leaders else self._victim()

    def kill(self, node: SimNode) -> None:
        self.watch.check()
        node.kill()
        self.watch.died(node)

    async def _kill_during_start(self, node: SimNode) -> None:
        self.kill(node)
        await node.start(self.rng.choice(STARTS_S))
        self.kill(node)

    async def _lose_power(self, node: SimNode) -> None:
        careful = self._failing is Failing.CAREFUL_POWER
        if careful and not await self._is_safe_to_lose_one():
            return
        self._take_power(node)
        if careful:
            await self._expect_back(node)

    def _take_power(self, node: SimNode) -> None:
        self.watch.check()
        node.lose_power()
        self.watch.died(node, lost_power=True, is_durable=self._failing is Failing.POWER)
        if self._failing is Failing.LOSSES:
            self.watch.lost_records()
            # Coordinators rightly log errors, because the partitions have newer data than the coordinators.
            self.cluster.error_watch.tolerates = True

    async def _lose_power_of_eligible(self) -> None:
        """A broker in the ELR loses power and its unflushed records, while the last broker of the ISR is unreachable.

        When the broker in the ELR has restarted, it must not become the leader.
        """
        trio = self._trio() if await self._is_safe_to_lose_one() else None
        if trio is None:
            return
        leader, first, second = trio.nodes
        for node in (first, second):
            self.kill(node)
            if not await self._until(partial(trio.is_left_by, node)):
                return
        self.cluster.isolate(leader)
        if second.node_id in trio.image.elr and self._is_spare(second):
            self._count("power of an eligible leader")
            self._take_power(second)
        await self._revive(second)
        await asyncio.sleep(self.rng.choice((1.0, 5.0, 12.0)))
        self.cluster.network.mend_links()
        await self._expect_back(first)

    def _is_spare(self, node: SimNode) -> bool:
        """Whether other brokers have all committed records, because this broker is in no ISR and is nowhere the only
        member of the ELR.

        A broker in an ISR may become its last member before the controller learns of the loss of power. As in Kafka,
        the last member of an ISR or ELR would then lead without its lost records.
        """
        images = [each.image for each in self.watch.partitions.values() if each.image is not None]
        return all(
            node.node_id not in image.isr and {node.node_id} != {*image.isr, *image.elr} for image in images
        )

    def _trio(self) -> _Trio | None:
        """A partition with three replicas in sync, on brokers that the controllers do not need for a majority."""
        spared = (len(self.cluster.controllers) - 1) // 2
        found = []
        for partition in self.watch.partitions.values():
            image = partition.image
            if image is not None and len(image.isr) == 3 and image.leader in image.isr:
                others = [member for member in image.isr if member != image.leader]
                nodes = [self.cluster.nodes[each] for each in (image.leader, *self.rng.sample(others, 2))]
                if sum(node.is_controller for node in nodes) <= spared:
                    found.append(_Trio(partition, nodes))
        return self.rng.choice(found) if found else None

    async def _black_out(self) -> None:
        """Ends all brokers at the same time, and sometimes all nodes. The nodes come back one after another.

        Sometimes a broker leaves a moment earlier, and the leaders commit more records before they end. After the
        restart, the leaders know only the high watermark of their last checkpoint.
        """
        early = self.rng.choice(self.cluster.brokers)
        if early.is_up and self.rng.random() < 0.6:
            await self._stop(early, 3.0)
            await asyncio.sleep(self.rng.choice((0.3, 1.0, 3.0)))
        nodes = self.cluster.brokers if self.rng.random() < 0.5 else self.cluster.members
        for node in nodes:
            if self._failing in (Failing.POWER, Failing.LOSSES):
                await self._lose_power(node)
            else:
                self.kill(node)
        for node in self.rng.sample(nodes, len(nodes)):
            await asyncio.sleep(self.rng.choice((0.0, 0.0, 1.0, 6.0)))
            await self._revive(node)

    async def _wipe(self) -> None:
        """Removes all records of a broker that is not a voter. The broker must get the records again from the other
        replicas."""
        brokers = _only_brokers(self.cluster)
        if not brokers or not await self._is_safe_to_lose_one():
            return
        node = self.rng.choice(brokers)
        self.watch.check()
        self.cluster.wipe(node)
        self.watch.died(node, lost_power=True, is_durable=False)
        await self._expect_back(node)

    async def _replace_disk_of_voter(self) -> None:
        """Removes a voter, gives it a new disk, and adds it again. Clients and the other nodes continue meanwhile."""
        assert self._voters is not None
        node = self.rng.choice(self.cluster.controllers)
        if not await self._is_safe_to_lose_one():
            return
        await self._voters.remove(node)
        if await self._in_sync():
            self.watch.check()
            self.cluster.wipe(node)
            self.watch.died(node, lost_power=True, is_durable=False)
            await asyncio.sleep(self.rng.choice((0.0, 1.0, 5.0)))
            await node.start(PATIENCE_S)
        await self._voters.add(node)
        assert await self._in_sync(), f"{node.name} is not in sync again: {self.watch.unsettled()}"

    async def _change_membership(self) -> None:
        """Adds a broker that does not belong to the cluster, or removes one that is not a voter."""
        assert self._brokers is not None
        absent = [node for node in self.cluster.nodes.values() if not node.is_member]
        if absent:
            await self._add(self.rng.choice(absent))
        elif len(self.cluster.brokers) > BROKERS_MIN and await self._is_safe_to_lose_one():
            await self._remove(self.rng.choice(_only_brokers(self.cluster)))

    async def _add(self, node: SimNode) -> None:
        """Starts a broker that was never in the cluster, or returns with its old disk or with a new one."""
        self._count("broker joins")
        if node.life and self.rng.random() < 0.5:
            self.cluster.wipe(node)
            self.watch.died(node, lost_power=True, is_durable=False)
        node.is_member = True
        await self._revive(node)

    async def _remove(self, node: SimNode) -> None:
        """Moves all replicas away from a broker, ends it and unregisters it, as an operator decommissions a broker."""
        assert self._brokers is not None
        self._count("broker leaves")
        node.is_member = False
        await self._brokers.move_replicas(node)
        if self.rng.random() < 0.7 and node.is_up:
            await self._stop(node, PATIENCE_S)
        else:
            self.kill(node)
        await self._brokers.unregister(node)

    async def _is_safe_to_lose_one(self) -> bool:
        """Repairs everything. Returns whether every broker is ready and every replica is in sync.

        A broker that is not ready is perhaps not registered yet, and the controller may soon remove it from the ISR. So
        such a broker does not count as a replica with all records.
        """
        self.cluster.network.mend_links()
        self._end_pauses()
        await self._revive_all()
        return await self._in_sync()

    async def _expect_back(self, node: SimNode) -> None:
        await asyncio.sleep(self.rng.choice((0.0, 1.0, 5.0)))
        await self._revive(node)
        assert await self._in_sync(), f"{node.name} is not in sync again: {self.watch.unsettled()}"

    def _pause(self, node: SimNode) -> None:
        node.pause()
        self.cluster.loop.call_later(self.rng.choice(PAUSES_S) * (0.5 + self.rng.random() / 2), node.go_on)

    def _end_pauses(self) -> None:
        for node in self.cluster.nodes.values():
            node.go_on()

    def _disturb_clock(self, node: SimNode) -> None:
        """Lets the clock of a node jump. From now on, this clock has the correct rate, or is too fast or too slow."""
        jump_ms, rate = self.rng.choice(CLOCK_JUMPS_MS), self.rng.choice(CLOCK_RATES)
        self.cluster.loop.note(f"the clock of {node.name} jumps by {jump_ms} ms and runs at {rate}")
        node.clock.skew_ms += jump_ms
        node.clock.drift(rate)

    async def _in_sync(self) -> bool:
        """Waits until all replicas are in sync. Returns False if this takes too long."""
        return await self._until(
            lambda: self.watch.is_in_sync() and all(node.is_up for node in self.cluster.brokers)
        )

    async def _until(self, condition: Callable[[], bool]) -> bool:
        """Waits until `condition` is true. Returns False if this takes longer than PATIENCE_S."""
        end = self.cluster.loop.time() + PATIENCE_S
        while not condition():
            if self.cluster.loop.time() >= end:
                return False
            await asyncio.sleep(0.1)
        return True

    async def _stop(self, node: SimNode, patience_s: float) -> None:
        """Stops a node, or kills it if its controlled shutdown takes too long."""
        self.cluster.loop.note(f"{node.name} is stopped")
        self.watch.check()
        stopping = asyncio.ensure_future(node.stop())
        done, _ = await asyncio.wait((stopping,), timeout=patience_s)
        if done:
            stopping.result()
        else:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
            self.kill(node)

    async def _roll(self) -> None:
        """Stops and starts all brokers, one by one."""
        self.cluster.network.mend_links()
        self._end_pauses()
        await self._revive_all()
        for node in self.cluster.brokers:
            if node.is_up:
                await self._stop(node, PATIENCE_S)
                await node.start(PATIENCE_S)

    async def _revive_all(self) -> None:
        for node in self.cluster.members:
            await self._revive(node)

    async def _revive(self, node: SimNode) -> None:
        if node.is_up or node.is_starting:
            return
        self.kill(node)  # a node that has halted, or failed to start, is a process that still has to end
        await node.start(0.0)

    # Networks.

    def _cut(self, node: SimNode, *, hears: bool, speaks: bool) -> None:
        """Cuts a node off from all others, or from some of them. Clients still reach it."""
        others: Sequence[SimNode] = [each for each in self.cluster.nodes.values() if each is not node]
        if self.rng.random() < 0.5:
            others = self.rng.sample(others, self.rng.randint(1, len(others)))
        for other in others:
            if not speaks:
                self.cluster.network.cut_link(node.name, other.name)
            if not hears:
                self.cluster.network.cut_link(other.name, node.name)

    def _slow(self, node: SimNode) -> None:
        delay_s = self.rng.choice(SLOW_LINK_S)
        for other in self.cluster.nodes.values():
            if other is not node and self.rng.random() < 0.7:
                self.cluster.network.slow_link(other.name, node.name, delay_s)

    # Disks.

    async def _break_disk(self, node: SimNode) -> None:
        """Makes a disk call fail soon. Then repairs the disk, and kills the node. The node is started again later."""
        operation, part = self.rng.choice(DISK_FAULTS_OF_ONE_NODE if self._is_one_node else DISK_FAULTS)
        self.cluster.loop.note(f"{operation} of {part or 'anything'} will fail on {node.name}")
        self.cluster.error_watch.tolerates = True
        kind = self.rng.choice((FaultKind.ERROR, FaultKind.FULL))
        node.disk.fail(operation, part, nth=self.rng.randint(1, 8), kind=kind)
        await asyncio.sleep(self.rng.choice((0.5, 3.0, 8.0)))
        node.disk.heal()
        self.kill(node)
        if self._is_one_node:
            self.cluster.error_watch.tolerates = False


def _possible_faults(kind: Kind, failing: Failing, nodes: int) -> list[str]:
    """The faults of a story. A fault that is in the list twice happens twice as often."""
    if kind is Kind.ONE_NODE:
        possible = ["kill", "kill", "stop", "restart", "cut", "cut", "stall", "clock", "pause"]
    else:
        possible = [
            "kill",
            "kill",
            "stop",
            "isolate",
            "deaf",
            "mute",
            "slow",
            "mend",
            "mend",
            "cut",
            "leader",
        ]
        possible += ["stall", "roll", "pause", "pause", "clock", "blackout", "blackout"]
    match failing:
        case Failing.POWER | Failing.LOSSES:
            possible += ["power"] * MORE_OFTEN
        case Failing.CAREFUL_POWER:
            possible += ["power"] * MORE_OFTEN
            if nodes > 3:  # with three nodes, the quorum needs two of them
                possible += ["eligible"] * 6
        case Failing.DISKS:
            possible += ["disk"] * MORE_OFTEN
        case Failing.WIPES:
            possible += ["wipe"] * MORE_OFTEN
        case Failing.KILLS:
            pass
    return possible


def _only_brokers(cluster: SimCluster) -> list[SimNode]:
    return [node for node in cluster.brokers if not node.is_controller]


def _has_failed_directory(node: SimNode) -> bool:
    assert node.running is not None
    return any(directory.error is not None for directory in node.running.logs.directories)
