"""The part `partitions`: the same records over 4, 1,000 and 10,000 partitions.

CPU per record rises with the number of partitions, because librdkafka sends a Produce request for each partition, and
because each of its Fetch requests lists all partitions.
"""

from __future__ import annotations

from measure import PARTITIONS, Bench

from parts.clients import consume, make_offsets_topic, produce

SIZE = 100
COUNTS = (PARTITIONS, 1000, 10_000)
SETTINGS = {"linger.ms": 100}
"""More than the default, so that a batch for one of 10,000 partitions has more than one record."""


def many_partitions(bench: Bench) -> None:
    bootstrap, records = bench.broker.bootstrap, bench.records // 2
    make_offsets_topic(bootstrap)
    cpu_s: dict[tuple[str, int], float] = {}
    for count in COUNTS:
        topic = bench.topic(f"spread-{count}", count)
        name = f"{count:,} partitions"
        produce(bootstrap, topic, SIZE, count, partitions=count)  # so that their creation is not measured
        written = bench.load(
            f"produce to {name}",
            records,
            lambda t=topic, n=count: produce(bootstrap, t, SIZE, records, partitions=n, settings=SETTINGS),
        )
        read = bench.load(
            f"consume {name}", records + count, lambda t=topic, n=count: consume(bootstrap, t, records + n)
        )
        cpu_s["produce", count], cpu_s["consume", count] = written.cpu_s, read.cpu_s
    for verb in ("produce", "consume"):
        for count in COUNTS[1:]:
            ratio = cpu_s[verb, count] / cpu_s[verb, PARTITIONS]
            bench.add(f"{verb}: CPU, {count:,} to {PARTITIONS} partitions", ratio, "ratio")
