"""bench/soak.py judges a run: what it counts as lost, and when a figure has grown too much."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script, which imports its neighbours in bench/."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import soak

    yield soak
    for name in ("soak", "soak_load", "measure"):
        del sys.modules[name]


def test_an_acknowledged_record_that_a_reader_has_not_seen_is_lost(soak: ModuleType) -> None:
    ledger = soak.Ledger()
    numbers = [ledger.next_number() for _ in range(4)]
    ledger.acknowledged[:] = bytes([1, 1, 0, 0])
    ledger.seen["auditor"][:] = bytes([1, 0, 0, 1])
    assert numbers == [0, 1, 2, 3]
    assert ledger.lost("auditor") == 1
    assert ledger.lost("classic") == 2


def test_an_aborted_record_that_a_reader_has_seen_is_counted(soak: ModuleType) -> None:
    ledger = soak.Ledger()
    for _ in range(3):
        ledger.next_number()
    ledger.aborted[:] = bytes([0, 1, 1])
    ledger.seen["auditor"][:] = bytes([1, 1, 0])
    assert ledger.seen_aborted("auditor") == 1
    assert ledger.seen_aborted("classic") == 0


@pytest.mark.parametrize(("last_tasks", "faults"), [(12, []), (13, ["tasks"])])
def test_the_last_quarter_may_grow_up_to_a_limit(
    soak: ModuleType, last_tasks: int, faults: list[str]
) -> None:
    def sample(tasks: int) -> object:
        return soak.Sample(
            memory_mb=60.0, descriptors=400, tasks=tasks, threads=9, disk_mb=20.0, cpu_s_per_s=0.2
        )

    samples = [
        sample(10),
        sample(10),
        sample(99),
        sample(99),
        sample(99),
        sample(99),
        *[sample(last_tasks)] * 2,
    ]
    assert [fault.split()[0] for fault in soak.compare(samples)] == faults


def test_errors_in_the_log_of_the_broker_are_faults(soak: ModuleType, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-01-01 00:00:00,000] INFO started (kafka)\n"
        "[2026-01-01 00:00:01,000] WARN odd 1 (kafka)\n"
        "[2026-01-01 00:00:02,000] ERROR broken (kafka)\n"
    )
    assert [*soak.broker_errors(log)] == ["the broker logged: [2026-01-01 00:00:02,000] ERROR broken (kafka)"]
