"""Every rule of consumer groups (KIP-848) as a story: tests/scenario/consumer_group_*.txt. group_world.py has the
commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigs.group_world import GroupWorld
from rigs.scenarios import check, files

FILES = files("consumer_group")


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    check(path, GroupWorld())
