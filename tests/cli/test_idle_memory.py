"""A fresh node without a load takes the memory that README.md states."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from kcli.testing.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parents[2]

MARGIN = 1.25
"""The most memory, as a ratio to the recorded figure. Versions of Python and of libraries differ by less than this."""


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the memory of a process is read from /proc"
)
def test_a_fresh_node_takes_the_memory_of_the_figure(tmp_path: Path) -> None:
    figure = json.loads((ROOT / "bench" / "figures.json").read_text())["idle memory"]["high"]
    # kio imports Hypothesis if it is installed. Users do not have it, and it takes 8 MB.
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "hypothesis.py").write_text("raise ImportError('this is a test library')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(hidden), str(ROOT)))}
    command = (sys.executable, "-m", "kcli", "server-start")
    with BrokerProcess(tmp_path, command=command, environment=environment) as broker:
        assert broker.process is not None
        time.sleep(1)  # it loads the last modules after its start
        pages = int(Path(f"/proc/{broker.process.pid}/statm").read_text().split()[1])
    assert pages * os.sysconf("SC_PAGE_SIZE") / 1e6 <= figure * MARGIN
