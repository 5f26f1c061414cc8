"""Compares a broker with a real Apache Kafka, by hand.

    PYTHONPATH=tests python -m rigs.twin 127.0.0.1:9092 127.0.0.1:9192 [--api LIST_OFFSETS]

Both servers must be fresh, because the table creates topics and groups with fixed names. Start both with one broker
and these settings beside the defaults:

    offsets.topic.replication.factor=1  transaction.state.log.replication.factor=1  transaction.state.log.min.isr=1
    group.initial.rebalance.delay.ms=0  auto.create.topics.enable=false

Prints each field in which the answers differ, first server first, and exits with 1 if there is one. The accepted
differences and their reasons are in compare.py, the table is in table.py.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from kcli.protocol.wire.api import API
from rigs.twin.case import Case
from rigs.twin.compare import compare
from rigs.twin.play import Answer, Player, truncated
from rigs.twin.table import TABLE


async def run(servers: list[str], cases: tuple[Case, ...]) -> int:
    """Plays the cases against both servers; returns the number of differences."""
    played: list[list[Answer]] = []
    ends = []
    for server in servers:
        host, _, port = server.rpartition(":")
        played.append(await Player(host, int(port)).play(cases))
        keys = dict.fromkeys(case.key for case in cases)
        ends.append({key: await truncated(host, int(port), key, API[key].max_version) for key in keys})
    found = [str(difference) for difference in compare(*played)]
    found += [
        f"{key.name}: a cut request closes the connection: {closes} | {ends[1][key]}"
        for key, closes in ends[0].items()
        if closes != ends[1][key]
    ]
    print(*found, f"{len(played[0])} answers compared, {len(found)} differences", sep="\n")
    return len(found)


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m rigs.twin",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("servers", nargs=2, metavar="HOST:PORT")
    parser.add_argument("--api", help="send the requests of this API only, after those that create topics")
    chosen = parser.parse_args(arguments)
    cases = TABLE
    if chosen.api is not None:
        cases = tuple(case for case in TABLE if case.key.name in ("CREATE_TOPICS", chosen.api))
    return 1 if asyncio.run(run(chosen.servers, cases)) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
