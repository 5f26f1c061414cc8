"""Every rule of the assignment of Connect's work as a story: tests/scenario/connect_*.txt.

rigs/connect_world.py has the commands.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rigs.connect_world import ConnectWorld
from rigs.scenarios import check, files

FILES = files("connect")


def test_there_are_scenarios_of_connect() -> None:
    assert len(FILES) >= 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    check(path, ConnectWorld())
