"""A short run of the clients and faults of simulation.histories. Long runs:
`PYTHONPATH=tests python -m simulation.histories`.
"""

from __future__ import annotations

from pathlib import Path

from simulation.histories.faults import Fault
from simulation.histories.runner import Options, run

SECONDS = 8.0
FAULTS = (Fault.KILL, Fault.PAUSE, Fault.CUT)


def test_a_history_with_kills_pauses_and_cuts_has_no_anomaly(tmp_path: Path) -> None:
    report = run(Options(tmp_path / "cluster", SECONDS, FAULTS, seed=4))
    assert report.is_clean, "\n".join(report.lines())
    assert sum(report.faults.values()) > 0, "no fault ever happened: the run tests nothing"
    assert report.acknowledged > 0
    assert report.polled > 0
    for protocol in ("TV1", "TV2"):
        assert report.transactions.get(f"{protocol} committed", 0) > 0, report.transactions
