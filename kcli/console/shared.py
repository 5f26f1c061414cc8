"""Objects that exist until the console stops, such as threads and caches of pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")


class Shared:
    """The shared objects, by name. Each object is made at its first use, and closed when the console stops."""

    def __init__(self) -> None:
        self._things: dict[str, tuple[object, Callable[[], Awaitable[None]]]] = {}

    def get(self, name: str, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> T:
        """Returns the object with this name. `make` makes it, and `close` closes it."""
        if name not in self._things:
            made = make()
            self._things[name] = (made, lambda: close(made))
        return cast(T, self._things[name][0])

    async def close(self) -> None:
        """Closes everything, the latest first."""
        while self._things:
            _, (_, close) = self._things.popitem()
            await close()
