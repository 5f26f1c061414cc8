"""Measures the web console on a large cluster: how long the list of topics takes, and what the console holds.

    python bench/console.py [--topics 5000] [--partitions 20] [--rounds 20]

The cluster is scripted and in another process (tests/rigs/large_cluster.py). The console is in a third process. Its
pages are asked for over HTTP, as a browser does. `first` is the first list after the start, with the answer of the
cluster, and `again` the same later. `page` is a further part of the kept list, with a search and a sort. `sizes` is the
time until the list has the sizes of all topics. The times are those of a wall clock. On a busy machine, look at the CPU
time of the console. The last lines are JSON, one line per figure.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from measure import HEADER, Figure, print_json

from kcli.http.client import get
from kcli.model.addresses import Address

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
BODY_MAX_BYTES = 10_000_000
TOPICS = "/api/clusters/main/topics"


@contextlib.contextmanager
def console(servers: str) -> Iterator[tuple[Address, int]]:
    """A console in another process: its address and its process id."""
    from kcli.testing.broker_process import free_port

    port = free_port()
    words = ["-m", "kcli", "console", "--bootstrap-server", servers, "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert "started" in process.stdout.readline()
            yield Address("127.0.0.1", port), process.pid
        finally:
            process.terminate()


async def listed(address: Address, query: str) -> tuple[float, dict[str, object]]:
    """Asks for a list. Returns the seconds and the answer."""
    began = time.perf_counter()
    answer = await get(address, f"{TOPICS}?{query}", body_max_bytes=BODY_MAX_BYTES)
    seconds = time.perf_counter() - began
    assert answer.status == 200, answer.body
    return seconds, json.loads(answer.body)


def held_mb(pid: int) -> float:
    """The resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measured(address: Address, pid: int, rounds: int) -> list[Figure]:
    before = cpu_seconds(pid)
    first, found = await listed(address, "limit=100")
    cpu = cpu_seconds(pid) - before
    began = time.perf_counter()
    while found["is_partial"]:
        await asyncio.sleep(0.1)
        _, found = await listed(address, "limit=100")
    sizes = time.perf_counter() - began
    queries = [
        f"search=team-{number % 40:02}&sort=partitions&order=desc&limit=100" for number in range(rounds)
    ]
    pages = [(await listed(address, query))[0] for query in queries]
    before = cpu_seconds(pid)
    again, _ = await listed(address, "limit=100&fresh=1")
    return [
        Figure("console: topics", float(str(found["total"])), "topics"),
        Figure("console: first list", first, "s", "<= 1"),
        Figure("console: first list, CPU", cpu, "CPU-s", "<= 1"),
        Figure("console: list again", again, "s", "<= 1"),
        Figure("console: list again, CPU", cpu_seconds(pid) - before, "CPU-s"),
        Figure("console: until the list has sizes", sizes, "s"),
        Figure("console: search and sort, median", sorted(pages)[len(pages) // 2] * 1000, "ms", "<= 100"),
        Figure("console: search and sort, longest", max(pages) * 1000, "ms"),
        Figure("console: memory", held_mb(pid), "MB"),
    ]


def main() -> None:
    from rigs.large_cluster import large_cluster

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with large_cluster(options.topics, options.partitions) as servers:
        # The scripted cluster encodes its large answers at their first use. This cost is not the console's.
        subprocess.run(
            [sys.executable, "-m", "kcli", "topics", "--bootstrap-server", servers, "--list"],
            cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        with console(servers) as (address, pid):
            found = asyncio.run(measured(address, pid, options.rounds))
    print(HEADER)
    for each in found:
        print(f"{each.name:<60}{each.value:>14.3f} {each.unit:<16}{each.goal}")
    print_json(found)


if __name__ == "__main__":
    main()
