"""The part `large`: values of 1 MB in and out, beside as many bytes in values of 1 kB.

The two sizes take turns, and the figure is the median. The reason is the page cache: a write costs several times more
CPU if the machine must first find memory for it. So each topic is deleted after its turn.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict

from measure import Bench, Cost

from parts.clients import consume, make_offsets_topic, produce

SIZES = {"1 kB": 1000, "1 MB": 1_000_000}
TURN_BYTES = 400_000_000
TURNS = 5
DELETED_AFTER_S = 3.0
"""Until the files of a deleted topic are gone. The broker runs with a delay of 1 s."""


def large_values(bench: Bench) -> None:
    bootstrap = bench.broker.bootstrap
    make_offsets_topic(bootstrap)
    costs: dict[tuple[str, str], list[Cost]] = defaultdict(list)
    for turn in range(TURNS):
        for name, size in SIZES.items():
            topic, count = bench.topic(f"size-{size}-{turn}"), TURN_BYTES // size
            costs["produce", name].append(
                bench.cost(lambda t=topic, s=size, n=count: produce(bootstrap, t, s, n))
            )
            costs["consume", name].append(bench.cost(lambda t=topic, n=count: consume(bootstrap, t, n)))
            bench.delete(topic)
            time.sleep(DELETED_AFTER_S)
    cpu_s_per_gb = {}
    for (verb, name), turns in costs.items():
        cpu_s_per_gb[verb, name] = statistics.median(each.cpu_s for each in turns) / TURN_BYTES * 1e9
        rate = TURN_BYTES / 1e6 / statistics.median(each.seconds for each in turns)
        bench.add(f"{verb} values of {name}: rate", rate, "MB/s")
        bench.add(f"{verb} values of {name}: broker CPU", cpu_s_per_gb[verb, name], "CPU-s/GB")
    for verb in ("produce", "consume"):
        ratio = cpu_s_per_gb[verb, "1 MB"] / cpu_s_per_gb[verb, "1 kB"]
        bench.add(f"{verb}: CPU per byte, 1 MB to 1 kB", ratio, "ratio", "<= 1.2")
