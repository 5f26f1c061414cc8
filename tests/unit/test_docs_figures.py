"""The figures that README.md and docs/ cite are those that the benchmarks have printed."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def figures() -> Iterator[ModuleType]:
    """bench/figures.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("bench_figures", ROOT / "bench" / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_each_cited_figure_is_the_recorded_one(figures: ModuleType) -> None:
    recorded = figures.load()
    cited = {
        f"{page.name}: {each.name}": each for page in PAGES for each in figures.cited(page.read_text("utf-8"))
    }
    assert [name for name, each in cited.items() if each.name not in recorded] == []
    wrong = {
        name: (each, recorded[each.name])
        for name, each in cited.items()
        if not recorded[each.name].fits(each.low, each.high)
    }
    assert wrong == {}, "write the recorded figure into the page, or measure again: bench/run.py --record"
    marks = sum(page.read_text("utf-8").count("<!-- figure:") for page in PAGES)
    assert len(cited) == marks, "a mark has no number in front of it"
    assert set(recorded) >= {each.name for each in cited.values()}


def test_every_figure_tells_where_it_comes_from(figures: ModuleType) -> None:
    for name, each in figures.load().items():
        assert 0 < each.low <= each.high, name
        assert all((each.unit, each.date, each.commit, each.machine)), name


def test_marks_are_found_with_their_numbers(figures: ModuleType) -> None:
    text = "It takes 1,047.5 MB<!-- figure: a --> or 3 in 2.0 to 4 s<!-- figure: b, c -->, | 7 | 5<!-- figure: d --> |"
    found = [(each.name, each.low, each.high) for each in figures.cited(text)]
    assert found == [("a", 1047.5, 1047.5), ("b, c", 2.0, 4.0), ("d", 5.0, 5.0)]
    recorded = figures.Recorded(50, 60, "MB", "2026-01-01", "abc", "two cores")
    assert recorded.fits(46, 65)
    assert not recorded.fits(40, 60)
    assert not recorded.fits(50, 50)


def test_a_busy_machine_stores_no_durations(
    figures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "figures.json"
    file.write_text("{}")
    monkeypatch.setattr(figures, "FILE", file)
    printed = [("start", 0.5, "s"), ("rate", 9.0, "k msg/s"), ("memory", 47.1234, "MB")]
    assert figures.record(printed, "two cores", busy=True) == ["memory"]
    assert json.loads(file.read_text())["memory"]["low"] == 47.123
    assert figures.record(printed, "two cores", busy=False) == ["start", "rate", "memory"]
    assert list(figures.load()) == ["memory", "rate", "start"]
