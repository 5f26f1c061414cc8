"""The directories that three Kafka 4.1 nodes left behind (golden2/README.md describes them), for tests."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from kcli.runtime.network import SystemNetwork
from rigs.archives import unpack

IDS = (1, 2, 3)


class OtherPorts(SystemNetwork):
    """The system's network, in which each recorded port stands for a free one."""

    ports: dict[int, int]

    def __init__(self) -> None:
        self.ports = {}

    async def create_server(self, protocol_factory: Any, host: Any, port: int, **options: Any) -> Any:
        server = await super().create_server(protocol_factory, host, 0, **options)
        self.ports[port] = server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        return server

    async def create_connection(self, protocol_factory: Any, host: str, port: int, **options: Any) -> Any:
        if port not in self.ports:
            raise ConnectionRefusedError
        return await super().create_connection(protocol_factory, host, self.ports[port], **options)


def unpacked(golden: Path, tmp_path: Path) -> Path:
    """Unpacks the directories node1, node2 and node3 into `tmp_path`. Skips the test if the archive is not here."""
    archive = golden.parent / "golden2" / "logdirs-a.tar.gz"
    if not archive.exists():
        pytest.skip(f"the recorded directories of Kafka 4.1 are not here: {archive}")
    unpack(archive, tmp_path)
    for path in tmp_path.rglob("*"):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    return tmp_path
