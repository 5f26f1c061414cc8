"""Collects the operations of all clients. Each client runs in its own thread."""

from __future__ import annotations

import itertools
import random
import threading
import time
from dataclasses import dataclass, field

from simulation.checks.operations import Operation, Protocol

TOPIC = "history"
PARTITIONS = 4
"""The number of partitions. It is small, so that transactions often write to the same partition."""


@dataclass(slots=True)
class Recorder:
    """The state that all clients share: the address of the cluster, the operations, and the request to stop."""

    bootstrap: str
    operations: list[Operation] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Errors of clients that no fault explains."""
    stopping: threading.Event = field(default_factory=threading.Event)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def begin(
        self, process: str, protocol: Protocol = Protocol.NONE, *, reads_uncommitted: bool = False
    ) -> Operation:
        """Adds an operation that begins now. The operation counts as aborted until its outcome is set."""
        operation = Operation(
            process, time.monotonic(), protocol=protocol, reads_uncommitted=reads_uncommitted
        )
        self.operations.append(operation)
        return operation

    def value(self, process: str) -> str:
        """Returns a value that no other record has."""
        return f"{process}/{next(self._numbers)}"

    @property
    def is_stopping(self) -> bool:
        return self.stopping.is_set()

    def pause(self, rng: random.Random, most_s: float) -> None:
        """Waits for a random time. Returns immediately when the clients must stop."""
        self.stopping.wait(rng.random() * most_s)
