"""What a herder does at the moment, for answers to requests that take too long (KIP-1017)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from kcli.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class _Stage:
    description: str
    began_ms: int
    completed_ms: int | None = None


class Stages:
    """The current or the last operation of a herder."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stage: _Stage | None = None

    @contextlib.contextmanager
    def stage(self, description: str) -> Iterator[None]:
        """Marks an operation, which is described as in "The worker is currently starting the connector"."""
        began_ms = self._clock.now_ms()
        self._stage = _Stage(description, began_ms)
        try:
            yield
        finally:
            self._stage = _Stage(description, began_ms, self._clock.now_ms())

    @property
    def text(self) -> str | None:
        """A sentence with Java's words, or None before the first operation."""
        stage = self._stage
        if stage is None:
            return None
        began = _instant(stage.began_ms)
        if stage.completed_ms is None:
            return f"The worker is currently {stage.description}, which began at {began}."
        return (
            f"The last operation the worker completed was {stage.description}, which began at {began} and "
            f"completed at {_instant(stage.completed_ms)}."
        )


def _instant(milliseconds: int) -> str:
    """Formats a time as Java's Instant."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    text = moment.isoformat(timespec="milliseconds").removesuffix("+00:00")
    return text.removesuffix(".000") + "Z"
