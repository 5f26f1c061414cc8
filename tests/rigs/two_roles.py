"""A controller and a broker as two nodes in this process, so that the broker forwards requests to the controller."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from kcli.config.broker import BrokerConfig
from kcli.local_cluster.ports import free_port
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.formatting.format import FormatRequest, Machine, format_directories
from rigs.node import RunningNode, config_of

CLUSTER_ID = "dHdvLXJvbGVzLW9mLTIAAA"
BROKER, CONTROLLER = 1, 2


@dataclass(frozen=True, slots=True)
class Apart:
    """The two nodes of a cluster."""

    broker: RunningNode
    controller: RunningNode


@contextlib.asynccontextmanager
async def running_apart(directory: Path, /, **overrides: str) -> AsyncIterator[Apart]:
    """A controller and a broker that serve, until the block ends. `overrides` has the listeners of both nodes: those
    named CONTROLLER belong to the controller."""
    port = free_port()
    every = overrides.pop("listeners").replace("CONTROLLER://127.0.0.1:0", f"CONTROLLER://127.0.0.1:{port}")
    listeners = every.split(",")
    shared = overrides | {
        "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{port}",
        "controller.quorum.bootstrap.servers": "",
    }
    of_controller = ",".join(each for each in listeners if each.startswith("CONTROLLER"))
    of_broker = ",".join(each for each in listeners if not each.startswith("CONTROLLER"))
    controller = _node(directory / "controller", shared, CONTROLLER, "controller", of_controller)
    await controller.start()
    try:
        broker = _node(directory / "broker", shared, BROKER, "broker", of_broker)
        await broker.start()
        try:
            yield Apart(broker, controller)
        finally:
            await _stop(broker)
    finally:
        await _stop(controller)


def _node(directory: Path, shared: dict[str, str], node_id: int, role: str, listeners: str) -> RunningNode:
    settings = shared | {"process.roles": role, "node.id": str(node_id), "listeners": listeners}
    directory.mkdir()
    config: BrokerConfig = config_of(directory, **settings)
    machine = Machine(SystemDisk(), SystemClock(), SystemRng(node_id))
    request = FormatRequest(cluster_id=CLUSTER_ID, voters=None, dynamic_quorum=False)
    format_directories(config, request, machine, lambda _text: None)
    node = RunningNode(
        config, clock=SystemClock(), disk=SystemDisk(), network=SystemNetwork(), rng=SystemRng(7)
    )
    node.clients = []
    return node


async def _stop(node: RunningNode) -> None:
    for client in node.clients:
        client.close()
    await node.stop()
