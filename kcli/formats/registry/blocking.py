"""Runs coroutines of the registry's client for code that is not asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def waited(coroutine: Coroutine[object, None, T]) -> T:
    """Runs a coroutine to its end, while this thread waits.

    A thread that runs an event loop cannot run another one, so a second thread then runs the coroutine. Code on an
    event loop should await the coroutine itself, because its loop stands still meanwhile.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1, thread_name_prefix="registry") as pool:
        return pool.submit(asyncio.run, coroutine).result()
