"""Measures the live tail of the web console on a topic that gets more than a million records a second.

    python bench/console_tail.py [--rate 1200000] [--seconds 30]

A broker, a producer, the console and a Chromium with the page of the live tail are in processes of their own. The
producer sends one compressed batch of small records again and again. `longest frame` is the longest time in which the
page could not draw, and `record opened` the time from a click on a record to its dialog. The memory of the console is
that of its process, before the tail and the most during it. The last lines are JSON, one line per figure.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from console import ROOT, console, cpu_seconds, held_mb
from measure import HEADER, Figure, print_json

from kcli.client.admin.admin import AdminClient
from kcli.client.config import ClientConfig
from kcli.model.addresses import Address
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.compression import Codec

if TYPE_CHECKING:
    from playwright.sync_api import Page

TOPIC, PARTITIONS = "flood", 4
BATCH_RECORDS = 20_000
BEGAN_MS = 1_767_225_600_000
VALUE = b"a small record"
WARM_SECONDS = 5
FRAMES = """
window.longest = 0;
let last = performance.now();
const frame = (now) => {
  window.longest = Math.max(window.longest, now - last);
  last = now;
  requestAnimationFrame(frame);
};
requestAnimationFrame(frame);
"""


@dataclass
class Seen:
    """What was measured while the page was open."""

    seconds: float = 0.0
    memory_mb: list[float] = field(default_factory=list)
    opened_ms: list[float] = field(default_factory=list)
    rows: int = 0
    left_out: int = 0
    longest_frame_ms: float = 0.0
    heap_mb: float = 0.0


def flood(bootstrap: str, rate: int) -> None:
    """Sends batches at a rate of records a second, until the process is ended."""
    from rigs.console_topics import create, write

    batch = encode_batch(
        (Record(timestamp_ms=BEGAN_MS + n, key=b"k%d" % n, value=VALUE) for n in range(BATCH_RECORDS)),
        codec=Codec.LZ4,
    )

    async def send(client: AdminClient, partition: int) -> None:
        began, sent = time.monotonic(), 0
        while True:
            await write(client, TOPIC, batch, partition)
            sent += BATCH_RECORDS
            await asyncio.sleep(max(0.0, sent * PARTITIONS / rate - (time.monotonic() - began)))

    async def run() -> None:
        host, _, port = bootstrap.partition(":")
        async with AdminClient(ClientConfig(servers=(Address(host, int(port)),))) as client:
            await create(client, TOPIC, PARTITIONS, retention_bytes="100000000", segment_bytes="50000000")
            async with asyncio.TaskGroup() as group:
                for partition in range(PARTITIONS):
                    group.create_task(send(client, partition))

    asyncio.run(run())


@contextmanager
def flooded(bootstrap: str, rate: int) -> Iterator[None]:
    """The producer, in a process of its own, until the end of the block."""
    process = multiprocessing.get_context("spawn").Process(target=flood, args=(bootstrap, rate), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


@contextmanager
def live_page(address: Address) -> Iterator[Page]:
    """A Chromium that follows the topic, until the end of the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://{address}/#/main/messages/{TOPIC}?limit=50")
        page.get_by_role("status").filter(has_text="Searched").wait_for()
        page.get_by_role("button", name="Live").click()
        page.locator("tr.record").nth(100).wait_for()
        page.evaluate(FRAMES)
        yield page
        browser.close()


def watched(page: Page, pid: int, seconds: int) -> Seen:
    """Looks at the page and at the console's memory each second, and opens a record every five seconds."""
    seen = Seen()
    began = time.monotonic()
    while seen.seconds < seconds:
        page.wait_for_timeout(1000)
        seen.memory_mb.append(held_mb(pid))
        if len(seen.memory_mb) % 5 == 0:
            seen.opened_ms.append(opened_ms(page))
        seen.seconds = time.monotonic() - began
    seen.rows = page.locator("tr.record").count()
    found = re.search(r"Left out ([\d,]+) records", page.get_by_role("status").inner_text())
    seen.left_out = int(found.group(1).replace(",", "")) if found else 0
    seen.longest_frame_ms = page.evaluate("longest")
    seen.heap_mb = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
    return seen


def opened_ms(page: Page) -> float:
    """The time from a click on the newest record to its value in the dialog, in milliseconds."""
    began = time.perf_counter()
    page.locator("tr.record button").first.click()
    page.get_by_role("dialog").get_by_text(VALUE.decode()).wait_for()
    milliseconds = (time.perf_counter() - began) * 1000
    page.keyboard.press("Escape")
    return milliseconds


def sent_records(bootstrap: str) -> int:
    """The number of records that the topic has got. Playwright has the event loop of this thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_end_offsets(bootstrap))).result()


async def _end_offsets(bootstrap: str) -> int:
    from kcli.model.request_values import LATEST
    from kcli.model.topic_partition import TopicPartition

    host, _, port = bootstrap.partition(":")
    async with AdminClient(ClientConfig(servers=(Address(host, int(port)),))) as client:
        found = await client.list_offsets({TopicPartition(TOPIC, each): LATEST for each in range(PARTITIONS)})
    return sum(each.offset for each in found.values() if not isinstance(each, Exception))


def measured(rate: int, seconds: int) -> list[Figure]:
    from kcli.testing.broker_process import BrokerProcess

    with (
        tempfile.TemporaryDirectory() as directory,
        BrokerProcess(directory) as broker,
        console(broker.bootstrap) as (address, pid),
        flooded(broker.bootstrap, rate),
    ):
        time.sleep(WARM_SECONDS)
        before_mb = held_mb(pid)
        with live_page(address) as page:
            cpu, sent = cpu_seconds(pid), sent_records(broker.bootstrap)
            seen = watched(page, pid, seconds)
            cpu, sent = cpu_seconds(pid) - cpu, sent_records(broker.bootstrap) - sent
    return [
        Figure("tail: records sent", sent / seen.seconds, "records/s", ">= 1000000"),
        Figure("tail: records left out, as the page says", float(seen.left_out), "records"),
        Figure("tail: rows in the page", float(seen.rows), "rows", "<= 1000"),
        Figure("tail: longest frame", seen.longest_frame_ms, "ms"),
        Figure("tail: record opened, median", sorted(seen.opened_ms)[len(seen.opened_ms) // 2], "ms"),
        Figure("tail: record opened, longest", max(seen.opened_ms), "ms", "<= 1000"),
        Figure("tail: memory of the page's scripts", seen.heap_mb, "MB"),
        Figure("tail: CPU of the console", cpu / seen.seconds, "CPU-s/s", "<= 0.5"),
        Figure("tail: memory before", before_mb, "MB"),
        Figure("tail: memory, most", max(seen.memory_mb), "MB", "<= 200"),
        Figure("tail: memory at the end", seen.memory_mb[-1], "MB"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=1_200_000)
    parser.add_argument("--seconds", type=int, default=30)
    options = parser.parse_args()
    found = measured(options.rate, options.seconds)
    print(HEADER)
    for each in found:
        print(f"{each.name:<60}{each.value:>14.3f} {each.unit:<16}{each.goal}")
    print_json(found)


sys.path.insert(0, str(ROOT / "tests"))

if __name__ == "__main__":
    main()
