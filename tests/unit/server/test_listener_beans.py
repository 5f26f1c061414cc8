"""The beans of the software of clients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcli.server.beans.listener_beans import OTHER_SOFTWARE, SOFTWARE_MAX, _software


@pytest.mark.parametrize("more", [0, 1, 30])
def test_versions_beyond_the_limit_are_counted_together(more: int) -> None:
    software = [("popular", "1")] * 5 + [(f"n{number}", "1") for number in range(SOFTWARE_MAX - 1 + more)]
    served = [SimpleNamespace(facts=SimpleNamespace(software=each)) for each in software]
    listener: Any = SimpleNamespace(served=served)
    beans = [each for each in _software("L", listener) if each is not None]
    counts = {each.properties["clientSoftwareName"]: each.attributes["connections"] for each in beans}
    assert len(beans) == SOFTWARE_MAX + bool(more)
    assert counts["popular"] == 5
    assert sum(map(int, counts.values())) == len(served)
    others = [count for name, count in counts.items() if OTHER_SOFTWARE in name]
    assert others == ([more] if more else [])
