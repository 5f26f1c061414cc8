"""Runs work on many files in several threads, because such work mostly waits for the device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

SYNC_THREADS = 16
"""The number of threads that sync files at the same time. File systems commit such syncs together. More threads were
not faster on ext4."""

MANY_LOGS = 32
"""With this many logs or more, one sync of the whole file system makes all of them durable. Such a sync also writes the
data of other programs, so it would be too slow for a few logs."""


def in_threads(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Returns the results of `work` for all items, in any order. If `threads` is 1, the work runs in the calling
    thread, and the results are in the order of the items."""
    if threads <= 1 or len(items) <= 1:
        return [work(item) for item in items]

    def run(share: Iterable[T]) -> list[R]:
        return [work(item) for item in share]

    # Threads take the next item from the same iterator, which costs less than a future for each item.
    shared = iter(items)
    with ThreadPoolExecutor(min(threads, len(items)), "log-files") as executor:
        shares = [executor.submit(run, shared) for _ in range(min(threads, len(items)))]
        return [result for share in shares for result in share.result()]
