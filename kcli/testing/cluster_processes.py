"""Runs a cluster of real processes on 127.0.0.1, for tests.

    with ClusterProcesses(tmp_path, nodes=3) as cluster:        # as `kcli cluster up --nodes 3`
        ... cluster.bootstrap ...
        cluster.nodes[2].kill()

    ClusterProcesses(tmp_path, brokers=2)                       # one controller, and two nodes that are only brokers

Each node has a separate directory in the directory of the cluster. In contrast to `kcli cluster up`, a node that ends
is not started again, because the test decides when to start it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from kcli.local_cluster.directory import create_cluster, exists
from kcli.local_cluster.layout import NodeLayout, node_properties, plan_nodes, ports_needed
from kcli.local_cluster.ports import free_port, free_ports
from kcli.local_cluster.supervisor import system_machine
from kcli.testing.broker_process import BrokerProcess

CONTROLLER_ID = 100
RACKS = ("rack-1",)


class ClusterProcesses:
    """A cluster of node processes. `nodes` contains them by id, and all of them run after `start`.

    If `nodes` is given, the nodes have the ids 1, 2 …, and the first of them are also voters of the quorum
    (`voters_of`). If `brokers` is given, the brokers have the ids 1, 2 …, and the only controller has the id
    CONTROLLER_ID. `overrides` are properties of all nodes. `command` replaces the command `kcli server-start`.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        nodes: int | None = None,
        brokers: int | None = None,
        racks: Sequence[str] = RACKS,
        overrides: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        assert (nodes is None) != (brokers is None), "expected either `nodes` or `brokers`"
        self._directory = Path(directory)
        self._overrides = dict(overrides or {})
        self._command = command
        self._layouts = _combined(nodes, racks) if nodes is not None else _separate(brokers or 0, racks)
        self.nodes = {layout.node_id: self._node(layout) for layout in self._layouts}

    @property
    def brokers(self) -> dict[int, BrokerProcess]:
        """The nodes that serve clients."""
        return {
            each.node_id: self.nodes[each.node_id] for each in self._layouts if each.broker_port is not None
        }

    @property
    def controller(self) -> BrokerProcess:
        """The only controller of a cluster with separate `brokers`."""
        return self.nodes[CONTROLLER_ID]

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start(self) -> Self:
        """Starts the nodes that do not run. The first call creates the cluster.

        Raises RuntimeError with the end of its log if a node does not start.
        """
        self.create()
        down = [node for node in self.nodes.values() if node.process is None]
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            list(threads.map(BrokerProcess.start, down))
        return self

    def create(self) -> None:
        """Creates and formats a new cluster, but starts no node. Does nothing if the cluster exists."""
        if not exists(self._directory):
            create_cluster(self._directory, self._layouts, self._overrides, system_machine())

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_exc: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kills all processes that still run."""
        for node in self.nodes.values():
            if node.process is not None:
                node.kill()

    def _node(self, layout: NodeLayout) -> BrokerProcess:
        directory = self._directory / f"node-{layout.node_id}"
        properties = node_properties(layout, self._layouts, directory / "data") | self._overrides
        node = BrokerProcess(directory, properties, command=self._command)
        node.port = layout.broker_port or node.port
        node.controller_port = layout.controller_port or node.controller_port
        return node


def _combined(nodes: int, racks: Sequence[str]) -> Sequence[NodeLayout]:
    return plan_nodes(nodes, free_ports(ports_needed(nodes)), racks)


def _separate(brokers: int, racks: Sequence[str]) -> Sequence[NodeLayout]:
    controller = NodeLayout(node_id=CONTROLLER_ID, broker_port=None, controller_port=free_port())
    return (
        controller,
        *(
            NodeLayout(
                node_id=broker_id,
                broker_port=free_port(),
                controller_port=None,
                rack=racks[(broker_id - 1) % len(racks)],
            )
            for broker_id in range(1, brokers + 1)
        ),
    )
