"""The parts `start`, `memory` and `list`: what a node without a load costs."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

from measure import Bench, timed

from parts.clients import produce

LISTS = 7

IDLE_SECONDS = 5.0
"""The time in which a node loads the modules that it needs after its start."""


def start(bench: Bench) -> None:
    """Measures the times from the start of the process until it is ready and until the first record is acknowledged.

    Also measures the CPU time until the process is ready.
    """
    bench.broker.stop()
    begun = time.perf_counter()
    bench.broker.start()
    bench.add("start to ready", time.perf_counter() - begun, "s", "<= 0.5")
    bench.add("start to ready: CPU", bench.cpu_s(), "CPU-s", "<= 0.5")
    produce(bench.broker.bootstrap, "first", 10, 1)
    bench.add("start to first ack (topic auto-created)", time.perf_counter() - begun, "s")


def memory(bench: Bench) -> None:
    time.sleep(IDLE_SECONDS)
    bench.add("idle memory", bench.memory_mb(), "MB", "<= 50")


def children_cpu_s() -> float:
    """Returns the CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def topics_list(bench: Bench) -> None:
    command = [sys.executable, "-m", "kcli", "topics", "--bootstrap-server", bench.broker.bootstrap, "--list"]
    before = children_cpu_s()
    times = [timed(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(LISTS)]
    bench.add("kcli topics --list: CPU", (children_cpu_s() - before) / LISTS, "CPU-s", "<= 0.12")
    bench.add(f"kcli topics --list (median of {LISTS})", statistics.median(times), "s", "<= 0.25")
