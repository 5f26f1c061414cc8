"""Runs a cluster of real processes on 127.0.0.1, for tests: one controller, and brokers without the controller role.

    with ClusterProcesses(tmp_path, brokers=2) as cluster:
        ... cluster.bootstrap ...

Each node has a directory of its own, which is formatted with `kcli storage format`.
"""

from __future__ import annotations

import os
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
    """One controller, and brokers with the ids 1, 2 … All of them run after `start`."""

    def __init__(
        self, directory: Path | str, *, brokers: int, overrides: Mapping[str, str] | None = None
    ) -> None:
        self._directory = Path(directory)
        self._overrides = dict(overrides or {})
        self.controller = self._make_controller()
        self.brokers = {broker_id: self._make_broker(broker_id) for broker_id in range(1, brokers + 1)}

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start(self) -> Self:
        """Formats and starts the nodes. Raises RuntimeError with the end of its log if a node does not start."""
        _format(self.controller, "--standalone")
        for broker in self.brokers.values():
            _format(broker, "--no-initial-controllers")
        self.controller.start()
        with ThreadPoolExecutor() as threads:
            list(threads.map(BrokerProcess.start, self.brokers.values()))
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
        for node in (*self.brokers.values(), self.controller):
            if node.process is not None:
                node.kill()

    def _make_controller(self) -> BrokerProcess:
        node = BrokerProcess(self._directory / "controller")
        listener = f"CONTROLLER://127.0.0.1:{node.controller_port}"
        node.overrides = {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "listeners": listener,
            "advertised.listeners": listener,
            "inter.broker.listener.name": "",
            **self._overrides,
        }
        return node

    def _make_broker(self, broker_id: int) -> BrokerProcess:
        node = BrokerProcess(self._directory / f"broker-{broker_id}")
        listener = f"PLAINTEXT://{node.bootstrap}"
        node.overrides = {
            "process.roles": "broker",
            "node.id": str(broker_id),
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller.controller_port}",
            "listeners": listener,
            "advertised.listeners": listener,
            **self._overrides,
        }
        return node


def _format(node: BrokerProcess, voters: str) -> None:
    path = os.fspath(node.write_properties())
    command = [sys.executable, "-m", "kcli", "storage", "format", "-t", CLUSTER_ID, "-c", path, voters]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
