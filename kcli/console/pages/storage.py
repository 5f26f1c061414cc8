"""Sizes on disk: of log directories and of topics, and how the topics have grown.

The cluster has no history of sizes. So the console stores each answer about sizes, until the session of the
user ends.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from kcli.client.admin.log_dirs import LogDirDescription
from kcli.console.cache import Aged
from kcli.console.calls import Call
from kcli.console.pages.topology import cached_topology
from kcli.errors import KafkaError

SIZES_SECONDS = 30.0
"""The time for which sizes are reused. A broker with 100,000 replicas needs a second to list them."""

SAMPLE_SECONDS = 30.0
"""The shortest time between two samples."""

SAMPLES_MAX = 120
"""The most samples of a connection: the last hour or more. A sample of 5,000 topics has about 300 KB."""

REPLICAS_PER_TURN = 5000
"""The replicas that are counted in one iteration of the event loop: some milliseconds."""

_KEY = "storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A log directory of a broker. The sizes of its volume are None if unknown."""

    path: str
    error: str | None
    replicas: int
    size_bytes: int
    total_bytes: int | None
    usable_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The directories of each broker, or its error, and the bytes of all replicas of each topic. `without` are the
    brokers with replicas that did not report their sizes, so that all sums are too small."""

    brokers: Mapping[int, tuple[Directory, ...] | KafkaError]
    topics: Mapping[str, int]
    without: tuple[int, ...] = ()

    def directories(self, broker: int) -> tuple[Directory, ...]:
        """The known directories of a broker."""
        answer = self.brokers.get(broker, ())
        return () if isinstance(answer, KafkaError) else answer

    def error(self, broker: int) -> str | None:
        """The reason why the directories of a broker are unknown."""
        answer = self.brokers.get(broker)
        return (answer.message or answer.code.name) if isinstance(answer, KafkaError) else None


@dataclass(frozen=True, slots=True)
class Sample:
    """The sizes at one time."""

    at_ms: int
    topics: Mapping[str, int]


async def cached_storage(call: Call) -> Aged[Storage]:
    """The sizes, at most some seconds old."""
    return await call.cached(_KEY, lambda: _load(call), seconds=SIZES_SECONDS, older_seconds=SIZES_SECONDS)


def known_storage(call: Call) -> Aged[Storage] | None:
    """Returns the sizes if they are known. Otherwise begins to request the sizes from the brokers, and returns None
    immediately."""
    return call.connection.cache.begin(_KEY, SIZES_SECONDS, lambda: _load(call))


def samples(call: Call) -> deque[Sample]:
    """The samples of the connection, the oldest first."""
    history: deque[Sample] = call.connection.keep("size samples", lambda: deque(maxlen=SAMPLES_MAX))
    return history


async def _load(call: Call) -> Storage:
    topology = await cached_topology(call)
    topics: Counter[str] = Counter()
    brokers: dict[int, tuple[Directory, ...] | KafkaError] = {}
    # One broker at a time, because the answer of a large broker has tens of megabytes as objects.
    for node in topology.value.alive:
        answer = (await call.admin.describe_log_dirs([node.id]))[node.id]
        brokers[node.id] = answer if isinstance(answer, KafkaError) else await _summaries(answer, topics)
    known = {broker for broker, answer in brokers.items() if not isinstance(answer, KafkaError)}
    without = tuple(broker for broker in sorted(topology.value.replicas) if broker not in known)
    # A sum without a broker would look as if the topics had become smaller, so it leaves a gap in the graph.
    if known and not without:
        _remember(call, topics)
    return Storage(brokers=brokers, topics=topics, without=without)


async def _summaries(log_dirs: tuple[LogDirDescription, ...], topics: Counter[str]) -> tuple[Directory, ...]:
    directories = []
    for directory in log_dirs:
        size_bytes = 0
        for number, replica in enumerate(directory.replicas, 1):
            size_bytes += replica.size_bytes
            topics[replica.topic] += replica.size_bytes
            if number % REPLICAS_PER_TURN == 0:
                await asyncio.sleep(0)
        directories.append(
            Directory(
                path=directory.path,
                error=None if directory.error is None else directory.error.message,
                replicas=len(directory.replicas),
                size_bytes=size_bytes,
                total_bytes=directory.total_bytes,
                usable_bytes=directory.usable_bytes,
            )
        )
    return tuple(directories)


def _remember(call: Call, topics: Mapping[str, int]) -> None:
    history = samples(call)
    now = call.clock.now_ms()
    if not history or now - history[-1].at_ms >= SAMPLE_SECONDS * 1000:
        history.append(Sample(now, topics))
