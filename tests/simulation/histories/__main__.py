"""Runs the clients and the faults by hand, and prints the report. The exit code is 1 after an anomaly."""

from __future__ import annotations

import argparse
import faulthandler
import signal
import sys
import tempfile
import time
from pathlib import Path

from simulation.checks.log_judge import judge
from simulation.checks.operations import load
from simulation.histories.faults import Fault
from simulation.histories.runner import Options, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation.histories", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="the time with faults (default: 1)")
    parser.add_argument(
        "--faults",
        default=",".join(each.value for each in Fault),
        help="the kinds of faults, separated by commas (default: all)",
    )
    parser.add_argument("--seed", type=int, default=0, help="decides the faults and the clients (default: 0)")
    parser.add_argument(
        "--directory", type=Path, help="keeps the cluster and the history in this new directory"
    )
    parser.add_argument("--judge", type=Path, metavar="FILE", help="only judges a history of an earlier run")
    options = parser.parse_args()
    if options.judge is not None:
        verdict = judge(load(options.judge))
        for finding, texts in verdict.texts.items():
            print(f"{finding.value}: {verdict.count(finding)}", *texts, sep="\n    ")
        return int(bool(verdict.anomalies))
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    try:
        kinds = tuple(Fault(name) for name in options.faults.split(","))
    except ValueError as error:
        parser.error(f"--faults: {error}; expected {', '.join(each.value for each in Fault)}")
    with tempfile.TemporaryDirectory(prefix="kcli-histories-") as temporary:
        directory = options.directory or Path(temporary) / "cluster"
        began = time.monotonic()
        report = run(
            Options(
                directory,
                options.minutes * 60,
                kinds,
                options.seed,
                history=None if options.directory is None else options.directory / "history.json",
                note=lambda text: print(f"{time.monotonic() - began:7.1f} {text}", flush=True),
            )
        )
    print(*report.lines(), sep="\n")
    return int(not report.is_clean)


if __name__ == "__main__":
    sys.exit(main())
