"""The part `large`: values of 1 MB in and out, beside as many bytes in values of 1 kB."""

from __future__ import annotations

from measure import Bench, Cost

from parts.clients import consume, produce

SIZES = {"1 kB": 1000, "1 MB": 1_000_000}
TOTAL_BYTES = 1_000_000_000


def large_values(bench: Bench) -> None:
    bootstrap = bench.broker.bootstrap
    costs: dict[tuple[str, str], Cost] = {}
    for name, size in SIZES.items():
        topic, count = bench.topic(f"size-{size}"), TOTAL_BYTES // size
        costs["produce", name] = bench.cost(lambda t=topic, s=size, n=count: produce(bootstrap, t, s, n))
        costs["consume", name] = bench.cost(lambda t=topic, n=count: consume(bootstrap, t, n))
    for (verb, name), cost in costs.items():
        bench.add(f"{verb} values of {name}: rate", TOTAL_BYTES / 1e6 / cost.seconds, "MB/s")
        bench.add(f"{verb} values of {name}: broker CPU", cost.cpu_s / TOTAL_BYTES * 1e9, "CPU-s/GB")
    for verb in ("produce", "consume"):
        ratio = costs[verb, "1 MB"].cpu_s / costs[verb, "1 kB"].cpu_s
        bench.add(f"{verb}: CPU per byte, 1 MB to 1 kB", ratio, "ratio", "<= 1")
