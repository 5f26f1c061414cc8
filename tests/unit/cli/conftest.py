"""The tools in this process, against a scripted cluster of one broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcli.cli.main import run
from rigs.scripted_cluster import Done, Kcli, ScriptedCluster


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    made = ScriptedCluster()
    with made.server:
        yield made


@pytest.fixture
def kcli(cluster: ScriptedCluster, capsys: pytest.CaptureFixture[str]) -> Kcli:
    """Runs a tool on the cluster. The broker's port is printed as PORT."""

    def call(*words: str) -> Done:
        code = run([*words, "--bootstrap-server", cluster.server.address])
        said = capsys.readouterr()
        return Done(code, said.out.replace(str(cluster.server.port), "PORT"), said.err)

    return call
