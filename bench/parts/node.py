"""The parts `start`, `memory` and `list`: what a node without a load costs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from measure import Bench, timed

from parts.clients import produce

LISTS = 7


def start(bench: Bench) -> None:
    """Measures the times from the start of the process until it is ready and until the first record is acknowledged."""
    bench.broker.stop()
    begun = time.perf_counter()
    bench.broker.start()
    bench.add("start to ready", time.perf_counter() - begun, "s", "<= 0.5")
    produce(bench.broker.bootstrap, "first", 10, 1)
    bench.add("start to first ack (topic auto-created)", time.perf_counter() - begun, "s")


def memory(bench: Bench) -> None:
    time.sleep(1)
    bench.add("idle memory", bench.memory_mb(), "MB", "<= 60")


def topics_list(bench: Bench) -> None:
    command = [sys.executable, "-m", "kcli", "topics", "--bootstrap-server", bench.broker.bootstrap, "--list"]
    times = [timed(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(LISTS)]
    bench.add(f"kcli topics --list (median of {LISTS})", statistics.median(times), "s", "<= 0.25")
