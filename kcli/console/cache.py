"""Answers of a cluster that are kept for some seconds, with their age.

An open page asks for the same values again and again, and a large list is shown in many parts. If several requests need
the same value, only one request goes to the cluster.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from kcli.errors import NetworkException, TimeoutException

T = TypeVar("T")

ENTRIES_MAX = 32
"""The most answers of one connection to a cluster. The oldest one is dropped first. A list of 5,000 topics has some
megabytes, and a page needs at most a few answers."""

UNUSED_SECONDS = 120.0
"""The least time for which an answer is kept, although no page requests it again."""


GREY_SECONDS = 20.0
"""A value that is this much older than usual is old: a page shows it in grey."""

PATIENCE_SECONDS = 5.0
"""The longest wait for a new value if there is an old one. The page then shows the old value in grey, with its age."""


@dataclass(frozen=True, slots=True)
class Aged(Generic[T]):
    """A value, and how long ago the cluster sent it. `is_stale`: the value is older than it should be."""

    value: T
    age_ms: int
    is_stale: bool = False


@dataclass(slots=True)
class _Entry:
    value: object
    loaded_at: float
    kept_seconds: float


class Cache:
    """The answers of one connection, by their keys."""

    def __init__(self, now: Callable[[], float], is_lost: Callable[[], bool] = lambda: False) -> None:
        """`is_lost` returns whether no server of the cluster answers, so that a new request would only wait."""
        self._now = now
        self._is_lost = is_lost
        self._generation = 0
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._loads: dict[Hashable, asyncio.Task[_Entry]] = {}
        self._tasks: set[asyncio.Task[_Entry]] = set()

    async def get(
        self, key: Hashable, seconds: float, load: Callable[[], Awaitable[T]], *, older_seconds: float = 0.0
    ) -> Aged[T]:
        """Returns the value of a key, at most `seconds` old, and its age.

        A value that is up to `older_seconds` older is returned too. In this case a new value is loaded in the
        background, so that an open page does not wait for the new value. An even older value is returned as stale if
        no server of the cluster answers, or if the new value does not come in some seconds.
        """
        entry = self._entries.get(key)
        if entry is None:
            entry = await asyncio.shield(self._task(key, seconds + older_seconds, load))
        elif self._age_seconds(entry) > seconds and not self._is_lost():
            task = self._task(key, seconds + older_seconds, load)
            if self._age_seconds(entry) > seconds + older_seconds:
                entry = await _newer(entry, task)
        return self._aged(entry, seconds)

    def begin(self, key: Hashable, seconds: float, load: Callable[[], Awaitable[T]]) -> Aged[T] | None:
        """Returns the value of a key, of any age, or None. If the value is missing or older than `seconds`, begins to
        load a new value.

        An error of this load is not reported. The next `get` loads again, and reports the error.
        """
        entry = self._entries.get(key)
        if entry is None or (self._age_seconds(entry) > seconds and not self._is_lost()):
            self._task(key, seconds, load)
        return None if entry is None else self._aged(entry, seconds)

    def _age_seconds(self, entry: _Entry) -> float:
        return self._now() - entry.loaded_at

    def _aged(self, entry: _Entry, seconds: float) -> Aged[T]:
        age = self._age_seconds(entry)
        return Aged(cast(T, entry.value), round(age * 1000), age > seconds + GREY_SECONDS)

    def known(self, key: Hashable) -> object:
        """The last value of a key, of any age, or None."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def is_loading(self, key: Hashable) -> bool:
        """Whether a request for the value of a key is in progress."""
        return key in self._loads

    def clear(self) -> None:
        """Forgets all values, because an action has changed the cluster."""
        self._entries.clear()
        self._loads.clear()
        # A request that is still in progress may return the state before the action.
        self._generation += 1

    def sweep(self) -> None:
        """Forgets values that are too old to be used."""
        now = self._now()
        for key in [
            key for key, entry in self._entries.items() if now - entry.loaded_at > entry.kept_seconds
        ]:
            del self._entries[key]

    def close(self) -> None:
        """Ends the requests in progress, and forgets everything."""
        for task in self._tasks:
            task.cancel()
        self._entries.clear()

    def _task(
        self, key: Hashable, seconds: float, load: Callable[[], Awaitable[object]]
    ) -> asyncio.Task[_Entry]:
        """The task that loads the value of a key. If one of the requests that wait for the task is cancelled, the task
        continues."""
        task = self._loads.get(key)
        if task is None:
            task = asyncio.create_task(self._load(key, seconds, load))
            self._loads[key] = task
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._ended(key, done))
        return task

    def _ended(self, key: Hashable, task: asyncio.Task[_Entry]) -> None:
        self._tasks.discard(task)
        if self._loads.get(key) is task:
            del self._loads[key]
        if not task.cancelled():
            task.exception()  # an error that no request waits for is not logged

    async def _load(self, key: Hashable, seconds: float, load: Callable[[], Awaitable[object]]) -> _Entry:
        generation = self._generation
        entry = _Entry(None, self._now(), max(seconds, UNUSED_SECONDS))
        entry.value = await load()
        if generation == self._generation:
            self._entries[key] = entry
            self._entries.move_to_end(key)
        while len(self._entries) > ENTRIES_MAX:
            self._entries.popitem(last=False)
        return entry


async def _newer(entry: _Entry, task: asyncio.Task[_Entry]) -> _Entry:
    """Waits some seconds for a newer entry. Returns the old entry if the cluster gives no answer."""
    await asyncio.wait((task,), timeout=PATIENCE_SECONDS)
    if not task.done() or isinstance(task.exception(), TimeoutException | NetworkException | OSError):
        return entry
    return task.result()
