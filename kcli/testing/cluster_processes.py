"""Runs a cluster of real processes on 127.0.0.1, for tests.

    with ClusterProcesses(tmp_path, brokers=2) as cluster:
        ... cluster.bootstrap ...

With `brokers`, one more node is the controller. With `nodes`, every node is a broker and a controller, and all of them
vote. Each node has a directory of its own, which is formatted with
`kcli storage format`.
"""

from __future__ import annotations

import base64
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from kcli.testing.broker_process import BrokerProcess

CLUSTER_ID = "cHJvY2Vzcy1jbHVzdGVyIQ"
CONTROLLER_ID = 100


class ClusterProcesses:
    """Brokers with the ids 1, 2 …, and the controllers. All of them run after `start`."""

    def __init__(
        self,
        directory: Path | str,
        *,
        brokers: int = 0,
        nodes: int = 0,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = Path(directory)
        self._overrides = dict(overrides or {})
        if nodes:
            self.controllers = {
                node_id: self._make_node(f"node-{node_id}") for node_id in range(1, nodes + 1)
            }
            self.brokers = dict(self.controllers)
        else:
            self.controllers = {CONTROLLER_ID: self._make_node("controller")}
            self.brokers = {
                node_id: self._make_node(f"broker-{node_id}") for node_id in range(1, brokers + 1)
            }
        self.nodes = {**self.controllers, **self.brokers}
        for node_id, node in self.nodes.items():
            node.overrides = self._properties(node_id, node)

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def controller(self) -> BrokerProcess:
        """The first controller. It is the only one if there are `brokers`."""
        return next(iter(self.controllers.values()))

    def start(self) -> Self:
        """Formats and starts the nodes. Raises RuntimeError with the end of its log if a node does not start."""
        voters = [
            f"{node_id}@127.0.0.1:{node.controller_port}:{_new_id()}"
            for node_id, node in self.controllers.items()
        ]
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda each: self._format(each, ",".join(voters)), self.nodes))
            list(threads.map(BrokerProcess.start, self.nodes.values()))
        return self

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_exc: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Ends all processes that still run."""
        for node in self.nodes.values():
            if node.process is not None:
                node.kill()

    def _format(self, node_id: int, voters: str) -> None:
        path = os.fspath(self.nodes[node_id].write_properties())
        known = (
            ("--initial-controllers", voters)
            if node_id in self.controllers
            else ("--no-initial-controllers",)
        )
        command = [sys.executable, "-m", "kcli", "storage", "format", "-t", CLUSTER_ID, "-c", path, *known]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def _make_node(self, name: str) -> BrokerProcess:
        return BrokerProcess(self._directory / name)

    def _properties(self, node_id: int, node: BrokerProcess) -> dict[str, str]:
        listeners, roles = [], []
        if node_id in self.brokers:
            listeners.append(f"PLAINTEXT://{node.bootstrap}")
            roles.append("broker")
        if node_id in self.controllers:
            listeners.append(f"CONTROLLER://127.0.0.1:{node.controller_port}")
            roles.append("controller")
        servers = (f"127.0.0.1:{each.controller_port}" for each in self.controllers.values())
        return {
            "process.roles": ",".join(roles),
            "node.id": str(node_id),
            "controller.quorum.bootstrap.servers": ",".join(servers),
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(listeners),
            "inter.broker.listener.name": "PLAINTEXT" if node_id in self.brokers else "",
            **self._overrides,
        }


def _new_id() -> str:
    """A new directory id, in the form of the command line (KIP-853)."""
    return base64.urlsafe_b64encode(b"A" + secrets.token_bytes(15)).rstrip(b"=").decode()
