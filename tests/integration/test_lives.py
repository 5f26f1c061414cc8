"""The functions on docs/architecture.md, "Requests, step by step", really run, and in the order of the page.

Two simulated stories and a node with real sockets run under a profiler, which notes each function that is entered.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

from kcli.protocol.messages import fetch
from kcli.protocol.wire.api import ApiKey
from rigs.data_path import batch
from rigs.loops import PATIENCE_S
from rigs.node import RunningNode, connect, create, send, with_node
from simulation.world.story import run_seed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
STORIES = (59, 70366)
"""A node alone with a classic group, and three nodes with replicas and a copier that uses TV1. If a change of the
simulation makes other stories of these seeds, choose other ones (tests/sim/test_sim_stories.py has lists)."""
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LIVES = ("Produce", "Fetch", "Group heartbeat", "CreateTopics", "Transaction")
STEP = re.compile(r"^([\w/]+/\w+\.py) +([A-Za-z_][\w.]*)", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A line of the page: the path of a module below kcli/, and a name in this module."""

    path: str
    name: str

    def __str__(self) -> str:
        return f"{self.path} {self.name}"

    @property
    def codes(self) -> tuple[CodeType, ...]:
        """The functions of this line: of a class, all of its methods. A constant and an interface have none."""
        found: object = importlib.import_module("kcli." + self.path.removesuffix(".py").replace("/", "."))
        for part in self.name.split("."):
            if getattr(found, "_is_protocol", False):
                return ()
            found = inspect.getattr_static(found, part)
        return tuple(_codes(found))


def _codes(found: object) -> Iterator[CodeType]:
    if isinstance(found, type):
        for member in vars(found).values():
            if not isinstance(member, type):
                yield from _codes(member)
    elif isinstance(found, property):
        yield from _codes(found.fget)
    elif isinstance(found, staticmethod | classmethod):
        yield from _codes(found.__func__)
    elif inspect.isfunction(found):
        yield inspect.unwrap(found).__code__


@dataclass
class Entries:
    """The first and the last entry of each function, as numbers that count all entries."""

    first: dict[CodeType, int]
    last: dict[CodeType, int]
    count: int = 0

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            self.count += 1
            self.first.setdefault(frame.f_code, self.count)
            self.last[frame.f_code] = self.count

    def of(self, step: Step) -> tuple[int, int] | None:
        """The first and the last entry of any function of this line of the page. None if none was entered."""
        entered = [code for code in step.codes if code in self.first]
        if not entered:
            return None
        return min(self.first[code] for code in entered), max(self.last[code] for code in entered)


def steps_of(page: str) -> dict[str, list[list[Step]]]:
    """The lists of the page by the heading of their part. A drawing has no steps, and is not in the result."""
    parts = page.partition("\n## Requests, step by step\n")[2].partition("\n## ")[0].split("\n### ")[1:]
    lives: dict[str, list[list[Step]]] = {}
    for part in parts:
        heading, _, text = part.partition("\n")
        blocks = [[Step(*found) for found in STEP.findall(block)] for block in text.split("```")[1::2]]
        lives[heading] = [block for block in blocks if block]
    return lives


async def _pipelined_requests(node: RunningNode) -> None:
    """Produces, and fetches several times with one write to the socket, as a consumer in another rack."""
    client = await connect(node)
    await create(client, "lives")
    await send(client, "lives", batch(b"a", b"b"))
    wants = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    topics = (fetch.FetchTopic(topic="lives", partitions=(wants,)),)
    request = fetch.FetchRequest(max_wait_ms=0, topics=topics, rack_id="east")
    sent = [client.post(request, ApiKey.FETCH, 12) for _ in range(3)]
    async with asyncio.timeout(PATIENCE_S):
        received = [(await client.receive(ApiKey.FETCH, 12))[0] for _ in sent]
    assert received == sent


def entries_of(directory: Path) -> Entries:
    """The functions that two stories and a real node enter."""
    found = Entries({}, {})
    before = sys.getprofile()
    threading.setprofile(found.note)
    sys.setprofile(found.note)
    try:
        with_node(directory, _pipelined_requests, broker_rack="west", replica_selector_class=SELECTOR)
        for seed in STORIES:
            run_seed(seed)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return found


def test_the_page_has_the_five_lives() -> None:
    lives = steps_of(PAGE.read_text(encoding="utf-8"))
    assert tuple(lives) == LIVES
    assert all(lives.values()), "a part of the page has no list of functions"
    without_code = {
        step.name for blocks in lives.values() for block in blocks for step in block if not step.codes
    }
    assert without_code == {"ControllerChannel.send", "CREATE_TOPICS"}, (
        "only an interface and a constant do not run"
    )


def test_each_function_of_the_page_runs_after_the_one_above_it(tmp_path: Path) -> None:
    entries = entries_of(tmp_path)
    lives = steps_of(PAGE.read_text(encoding="utf-8"))
    wrong = [
        f"{life}: {problem}"
        for life, blocks in lives.items()
        for block in blocks
        for problem in problems_of(block, entries)
    ]
    assert wrong == [], "mend docs/architecture.md, or choose other STORIES if the functions ran before"


def problems_of(block: list[Step], entries: Entries) -> Iterator[str]:
    """The steps of a list that did not run, or that never ran after the step above."""
    above: tuple[Step, int] | None = None
    for step in block:
        if not step.codes:
            continue
        entry = entries.of(step)
        if entry is None:
            yield f"{step} did not run"
            continue
        first, last = entry
        if above is not None and last < above[1]:
            yield f"{step} never ran after {above[0]}"
        above = step, first
