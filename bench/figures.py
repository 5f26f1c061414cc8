"""The figures that the pages cite: bench/figures.json has each of them with its unit, date, commit and machine.

A page marks a number with a comment that names the figure:

    The broker takes 49 MB<!-- figure: idle memory --> of memory.

`cited` finds such marks, and `Recorded.fits` compares a cited number with the recorded figure. So a page cannot state
a number that no benchmark has printed. `bench/run.py --record` stores the figures of a run.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "bench" / "figures.json"

MARGIN = 0.1
"""The largest difference between a cited number and its figure, as a share of the figure. Pages round numbers."""

CITED = re.compile(
    r"(?P<low>\d[\d.,]*)(?: to (?P<high>\d[\d.,]*))?(?P<unit>[^\d|<]*)<!-- figure: (?P<name>[^>]+?) -->"
)

WALL_UNITS = frozenset({"s", "ms", "k msg/s", "MB/s", "1/s"})
"""The units of durations and rates. On a busy machine, these figures say nothing about kcli."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A figure, and where it comes from. If several runs have measured it, `low` and `high` are their range."""

    low: float
    high: float
    unit: str
    date: str
    commit: str
    machine: str

    def fits(self, low: float, high: float) -> bool:
        """Whether a cited range is the recorded range, except for MARGIN."""
        pairs = ((low, self.low), (high, self.high))
        return all(abs(cited - recorded) <= MARGIN * recorded for cited, recorded in pairs)


@dataclass(frozen=True, slots=True)
class Citation:
    """A number of a page that is marked as a figure."""

    name: str
    low: float
    high: float


def cited(text: str) -> Iterator[Citation]:
    """Yields the marked numbers of a page."""
    for found in CITED.finditer(text):
        low = _number(found["low"])
        yield Citation(found["name"], low, low if found["high"] is None else _number(found["high"]))


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def load() -> dict[str, Recorded]:
    """Returns the recorded figures by name."""
    return {name: Recorded(**each) for name, each in json.loads(FILE.read_text(encoding="utf-8")).items()}


def record(figures: Iterable[tuple[str, float, str]], machine: str, *, busy: bool) -> list[str]:
    """Stores figures (name, value, unit) that pages may cite. Returns the names of the stored figures.

    From a busy machine, durations and rates are not stored.
    """
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    stored = {
        name: Recorded(round(value, 3), round(value, 3), unit, today, commit, machine)
        for name, value, unit in figures
        if not (busy and unit in WALL_UNITS)
    }
    write(load() | stored)
    return list(stored)


def write(figures: Mapping[str, Recorded]) -> None:
    """Writes the file, with the names in order."""
    rows = {name: asdict(each) for name, each in sorted(figures.items())}
    FILE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
