"""A cluster of three nodes in separate processes. The links between the nodes can be cut, and their disks can be
filled.

Clients connect directly, on a separate listener. The nodes connect to each other through the proxy `Links`, because
each node advertises ports of the proxy. If the system allows it, each node has a small disk (tmpfs). Otherwise a limit
on the size of the node's files has the effect of a full disk.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Self

from kcli.local_cluster.directory import DATA
from kcli.testing.broker_process import BrokerProcess, free_port
from kcli.testing.cluster_processes import ClusterProcesses
from simulation.histories.links import HOST, Links, Route

NODES = (1, 2, 3)
DISK_BYTES = 256 << 20
"""The size of a small disk in bytes. A run of ten minutes writes far less."""
SPARE_BYTES = 16 << 10
"""The bytes that `fill_disk` leaves free, so that the disk becomes full in the middle of a write."""
HALT_S = 30.0
READY_S = 300.0
"""The seconds that the start of a node may take. If other programs use the processors too, an election with short
time-outs takes long.
"""
OVERRIDES = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1500",
    "controller.quorum.election.timeout.ms": "700",
    "controller.quorum.request.timeout.ms": "1500",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "log.segment.bytes": "1048576",
}


class FaultyCluster:
    """Runs the cluster, and makes faults of single nodes. As a context manager, it starts the cluster on entry and ends
    all processes on exit.
    """

    def __init__(self, directory: Path, *, small_disks: bool) -> None:
        self.directory = directory
        self._small_disks = small_disks
        self._mounted: list[Path] = []
        self.cluster = ClusterProcesses(directory, nodes=len(NODES), overrides=OVERRIDES)
        self._paused: set[int] = set()
        routes = []
        for node_id, node in self.cluster.nodes.items():
            node.ready_timeout_seconds = READY_S
            routes += _lead_through_proxy(node_id, node)
        self.links = Links(routes, self._pids)

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def has_small_disks(self) -> bool:
        """Whether the nodes have small disks (tmpfs). If not, a limit on the size of files has the effect of a full
        disk.
        """
        return bool(self._mounted)

    def __enter__(self) -> Self:
        try:
            self.links.start()
            self.cluster.create()
            if self._small_disks:
                self._mount_all()
            self.cluster.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        for node_id in list(self._paused):
            self.go_on(node_id)
        self.cluster.kill()
        self.links.stop()
        for path in self._mounted:
            subprocess.run(["umount", "-l", str(path)], check=False)

    def runs(self, node_id: int) -> bool:
        process = self.cluster.nodes[node_id].process
        return process is not None and process.poll() is None

    # Faults.

    def kill(self, node_id: int) -> None:
        self._paused.discard(node_id)
        if self.cluster.nodes[node_id].process is not None:
            self.cluster.nodes[node_id].kill()

    def start(self, node_id: int) -> None:
        """Starts a node, unless it runs already. Raises RuntimeError if the node does not get ready."""
        if self.runs(node_id):
            return
        self.kill(node_id)
        self.cluster.nodes[node_id].start()

    def stop(self, node_id: int) -> None:
        """Stops a node with SIGTERM. Raises RuntimeError if its exit code is not 0."""
        if self.runs(node_id):
            code = self.cluster.nodes[node_id].stop()
            if code != 0:
                raise RuntimeError(f"node {node_id} has stopped with exit code {code}")

    def pause(self, node_id: int) -> None:
        self._signal(node_id, signal.SIGSTOP)
        self._paused.add(node_id)

    def go_on(self, node_id: int) -> None:
        self._signal(node_id, signal.SIGCONT)
        self._paused.discard(node_id)

    def _signal(self, node_id: int, number: signal.Signals) -> None:
        process = self.cluster.nodes[node_id].process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    def fill_disk(self, node_id: int) -> None:
        """Fills the disk of a node except SPARE_BYTES."""
        data = self.data(node_id)
        if self.has_small_disks:
            free = os.statvfs(data)
            spare = free.f_bavail * free.f_frsize - SPARE_BYTES
            with (data / "filler").open("wb") as filler, contextlib.suppress(OSError):
                os.posix_fallocate(filler.fileno(), 0, max(spare, 1))
        else:
            largest = max(path.stat().st_size for path in data.rglob("*.log"))
            self._limit_files(node_id, largest + SPARE_BYTES)

    def free_disk(self, node_id: int) -> None:
        """Frees the space that `fill_disk` has used. Does not start a node that has halted."""
        if self.has_small_disks:
            (self.data(node_id) / "filler").unlink(missing_ok=True)
        else:
            self._limit_files(node_id, resource.RLIM_INFINITY)

    def _limit_files(self, node_id: int, size_bytes: int) -> None:
        process = self.cluster.nodes[node_id].process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size_bytes, hard))

    def data(self, node_id: int) -> Path:
        return self.cluster.nodes[node_id].directory / DATA

    def _pids(self) -> dict[int, int]:
        return {
            node_id: node.process.pid
            for node_id, node in self.cluster.nodes.items()
            if node.process is not None
        }

    # Disks.

    def _mount_all(self) -> None:
        """Moves the formatted directories to small disks. Directories stay where they are if the system does not allow
        mounts.
        """
        for node_id in NODES:
            data = self.data(node_id)
            moved = data.with_name("formatted")
            data.rename(moved)
            data.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(data)]
            if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
                self._mounted.append(data)
            shutil.copytree(moved, data, dirs_exist_ok=True)
            shutil.rmtree(moved)


def _lead_through_proxy(node_id: int, node: BrokerProcess) -> list[Route]:
    """Configures a node so that it advertises ports of the proxy to the other nodes. Returns the routes of these
    ports.
    """
    internal, internal_proxy, controller = free_port(), free_port(), free_port()
    # The formatted directories already contain `controller_port` as the address of the controller, so this port becomes
    # the port of the proxy.
    controller_proxy = node.controller_port
    client = f"PLAINTEXT://{HOST}:{node.port}"
    node.overrides |= {
        "listeners": f"{client},INTERNAL://{HOST}:{internal},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": (
            f"{client},INTERNAL://{HOST}:{internal_proxy},CONTROLLER://{HOST}:{controller_proxy}"
        ),
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    }
    return [Route(internal_proxy, internal, node_id), Route(controller_proxy, controller, node_id)]
