"""Recordings of Apache Kafka 4.1's Connect, MirrorMaker and other programs, where they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ.get("KCLI_GOLDEN3") or Path(__file__).resolve().parents[3] / "shared/golden3")


def recording(name: str) -> Path:
    """A file or folder below the recordings. Skips the test if it is missing."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"the recording of Apache Kafka is not here: {path}")
    return path


def steps(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a recording."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def check_differences(actual: dict[str, str], known: dict[str, str]) -> None:
    """Fails for a difference that is not known, and for a known difference that has disappeared.

    `actual` has the description of each difference by its place, and `known` the reason by the same place.
    """
    new = {place: text for place, text in actual.items() if place not in known}
    assert not new, "\n".join(f"{place}: {text}" for place, text in new.items())
    stale = sorted(known.keys() - actual.keys())
    assert not stale, f"known differences that have disappeared: {stale}"
