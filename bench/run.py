"""Measures brokers, and prints a table with goals, then one JSON line per figure.

    python bench/run.py [--only data,large] [--records 2000000]

A part is a function in bench/parts/. Each part gets its own broker, so the figures of a part do not depend on the
parts before it. The clients use librdkafka: its program `rdkafka_performance` (examples/ of librdkafka's source) if it
is on the PATH, else a loop with confluent-kafka. With two or more cores, the broker runs on the first core and the
clients on the others. The broker's CPU time is valid even if other processes use the machine. Rates are not: they can
be compared only within one run.

    python bench/run.py --only start,memory,list --record "two cores" --busy

stores the figures in bench/figures.json. The pages cite them from there, and a test compares the pages with this file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from figures import record
from measure import HEADER, Bench, Figure, print_json, running
from parts.cold_reads import cold_reads
from parts.joins import joins
from parts.large_values import large_values
from parts.many_connections import many_connections
from parts.many_partitions import many_partitions
from parts.node import memory, start, topics_list
from parts.records import data, latency, one_message_requests

PARTS: dict[str, Callable[[Bench], None]] = {
    "start": start,
    "memory": memory,
    "list": topics_list,
    "data": data,
    "requests": one_message_requests,
    "latency": latency,
    "joins": joins,
    "large": large_values,
    "cold": cold_reads,
    "connections": many_connections,
    "partitions": many_partitions,
}
OVERRIDES = {"group.initial.rebalance.delay.ms": "0", "log.segment.delete.delay.ms": "1000"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--record", metavar="MACHINE", help="store the figures, with words about the machine")
    parser.add_argument("--busy", action="store_true", help="with --record: do not store durations and rates")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := set(names) - PARTS.keys():
        parser.error(f"--only {','.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    figures: list[Figure] = []
    print(HEADER)
    for name in names:
        with running(options.records, OVERRIDES) as bench:
            PARTS[name](bench)
            figures += bench.figures
    print_json(figures)
    if options.record is not None:
        record(((each.name, each.value, each.unit) for each in figures), options.record, busy=options.busy)


if __name__ == "__main__":
    main()
