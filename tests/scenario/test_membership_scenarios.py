"""Every rule of a member of a classic group as a story: tests/scenario/membership_*.txt.

rigs/membership_world.py has the commands.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rigs.membership_world import MembershipWorld
from rigs.scenarios import check, files

FILES = files("membership")


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 15


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    check(path, MembershipWorld())
