"""The life of a quorum as stories: tests/scenario/raft_*.txt. rigs/raft_world.py lists the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigs.raft_world import RaftWorld
from rigs.scenarios import check, files

FILES = files("raft")


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 9


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    check(path, RaftWorld())
