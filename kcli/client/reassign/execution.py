"""Executes a plan in batches, with a throttle that is removed at the end.

The cluster stores the state: the moves in progress, the replicas and the throttle. So a new run can continue an
interrupted run: it waits for the moves in progress, and removes the old throttle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from kcli.client.admin.admin import AdminClient
from kcli.client.reassign import throttles
from kcli.client.reassign.assignment import Assignment, ReassignError, ThrottleLeftError
from kcli.client.reassign.batches import batches, copied_bytes
from kcli.client.reassign.cluster_state import ClusterState, below_min_isr, growth, replica_sizes
from kcli.errors import ErrorCode, KafkaError
from kcli.model.amounts import bytes_text, listed
from kcli.model.topic_partition import TopicPartition

LEAST_RATE = 50_000_000
"""The smallest throttle in bytes per second if the user sets none: less than half of a network of 1 Gbit/s."""

GROWTH_FACTOR = 3
"""The throttle is at least this multiple of the growth of the busiest broker. A new replica must receive records faster
than producers write them, or it never catches up."""

GROWTH_SECONDS = 3.0
"""The time for which the growth is measured. It is long enough for several flushes of a slow producer."""

POLL_SECONDS = 1.0
"""The pause between two checks of the moves. A check is one request to the controller."""


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch whose moves are done. `copied_bytes` is the size that the copied replicas had when the plan was made."""

    batch: int
    batches: int
    partitions: int
    copied_bytes: int


class Reporter(Protocol):
    """Receives the progress of a run."""

    @property
    def shows_progress(self) -> bool:
        """Whether to call `progress`. Each call needs a request to each broker that receives records."""
        ...

    def say(self, line: str) -> None: ...
    def warn(self, line: str) -> None: ...
    def batch_done(self, row: BatchRow, line: str) -> None: ...
    def progress(self, line: str | None) -> None:
        """Receives a line about the progress of the present moves. `line` is None after the moves have ended."""
        ...

    def error_text(self, error: KafkaError) -> str:
        """Returns the text of an error."""
        ...


class Execution:
    """One run of a plan. `leaving` has the brokers that must have no replicas at the end."""

    def __init__(
        self,
        client: AdminClient,
        reporter: Reporter,
        state: ClusterState,
        *,
        leaving: frozenset[int] = frozenset(),
        rate: int | None = None,
    ) -> None:
        self._client = client
        self._reporter = reporter
        self._state = state
        self._leaving = leaving
        self._rate = rate
        self._alive = {node.id for node in state.brokers}
        self._throttled_topics = set(state.throttled_topics)
        self._is_throttled = bool(state.throttled_brokers or state.throttled_topics)

    async def run(self, changes: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """Moves the partitions, and elects preferred leaders. Raises KafkaError or ReassignError."""
        before = self._state.assignment
        parts = batches(changes, before)
        try:
            await self._wait_for_running(changes)
            for number, batch in enumerate(parts, start=1):
                await self._wait_for_min_isr()
                await self._move(batch, number, len(parts))
            await self._elect(
                [
                    partition
                    for partition, replicas in before.items()
                    if partition not in changes and self._state.leaders[partition] != replicas[0]
                ]
            )
        except (asyncio.CancelledError, KafkaError, ReassignError):
            await self._report_running(changes)
            raise
        finally:
            await self._clear_throttle()

    async def _wait_for_running(self, changes: Collection[TopicPartition]) -> None:
        """Waits for moves that an earlier run or another tool has started, except moves that the plan replaces."""
        running = {
            partition: reassignment
            for partition, reassignment in self._state.running.items()
            if partition not in changes
        }
        if not running:
            return
        self._reporter.say(f"Waiting for moves in progress: {_names(running)}")
        await self._throttle(throttles.moves_of(running, {}, {}))
        targets = {
            partition: tuple(
                broker for broker in reassignment.replicas if broker not in reassignment.removing
            )
            for partition, reassignment in running.items()
        }
        receivers = {partition: frozenset(reassignment.adding) for partition, reassignment in running.items()}
        await self._wait(targets, receivers, "Moves in progress")

    async def _wait_for_min_isr(self) -> None:
        """Waits until no partition of the cluster is below min.insync.replicas."""
        is_reported = False
        while below := await below_min_isr(self._client, self._state.min_isr, self._leaving):
            if not is_reported:
                self._reporter.say(
                    f"Paused, because partitions are below min.insync.replicas: {_names(below)}"
                )
                is_reported = True
            await asyncio.sleep(POLL_SECONDS)

    async def _move(self, batch: Assignment, number: int, count: int) -> None:
        before = self._state.assignment
        earlier = {
            partition: reassignment
            for partition, reassignment in self._state.running.items()
            if partition in batch
        }
        moves = throttles.moves_of(earlier, batch, before)
        copies = {partition: move for partition, move in moves.items() if move.destinations}
        if copies:
            await self._throttle(copies)
        accepted = await self._start(batch)
        receivers = {partition: moves[partition].destinations for partition in accepted}
        await self._wait(accepted, receivers, f"Batch {number} of {count}")
        await self._elect(accepted)
        size = copied_bytes(accepted, before, self._state.sizes)
        self._reporter.batch_done(
            BatchRow(number, count, len(accepted), size),
            f"Batch {number} of {count}: {_count(accepted)}, {bytes_text(size)}",
        )

    async def _throttle(self, moves: Mapping[TopicPartition, throttles.Move]) -> None:
        """Sets the throttle on all running brokers."""
        if self._rate is None:
            busiest = await growth(self._client, sorted(self._alive), GROWTH_SECONDS)
            self._rate = max(LEAST_RATE, round(GROWTH_FACTOR * busiest))
            self._reporter.say(f"The throttle is {bytes_text(self._rate)}/s")
        self._is_throttled = True
        self._throttled_topics.update(topic for topic, _ in moves)
        await throttles.limit_moves(
            self._client,
            {
                partition: throttles.Move(move.sources & self._alive, move.destinations & self._alive)
                for partition, move in moves.items()
            },
            self._rate,
        )

    async def _start(self, batch: Assignment) -> Assignment:
        """Starts the moves. Returns the moves of partitions that still exist."""
        targets: dict[TopicPartition, tuple[int, ...] | None] = {**batch}
        errors = await self._client.alter_reassignments(targets)
        refused = {partition: error for partition, error in errors.items() if error is not None}
        missing = {
            partition
            for partition, error in refused.items()
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        if missing:
            self._reporter.warn(f"Deleted meanwhile: {_names(missing)}")
        lines = [
            f"{_names([partition])}: {refused[partition].message}"
            for partition in sorted(refused.keys() - missing)
        ]
        if lines:
            raise ReassignError("\n".join(["The controller refused moves:", *lines]))
        return {partition: replicas for partition, replicas in batch.items() if partition not in missing}

    async def _wait(
        self, targets: Assignment, receivers: Mapping[TopicPartition, frozenset[int]], title: str
    ) -> None:
        """Waits for the end of moves, and reports the progress."""
        while targets and (running := await self._client.list_reassignments(targets)):
            if self._reporter.shows_progress:
                line = await self._progress(targets.keys() - running.keys(), receivers)
                self._reporter.progress(f"{title}: {line}")
            await asyncio.sleep(POLL_SECONDS)
        self._reporter.progress(None)

    async def _progress(
        self, done: Collection[TopicPartition], receivers: Mapping[TopicPartition, frozenset[int]]
    ) -> str:
        """Returns the progress as text: partitions, and bytes of the new replicas if the brokers report them."""
        shown = f"{len(done)} of {_count(receivers)}"
        try:
            sizes = await replica_sizes(self._client, sorted(set().union(*receivers.values()) & self._alive))
        except KafkaError:
            return shown  # a broker that restarts must not end the run
        copied = total = 0
        for partition, brokers in receivers.items():
            for broker in brokers:
                there = sizes.get(broker, {}).get(partition, 0)
                copied += there
                total += max(there, self._state.sizes.get(partition, 0))
        return f"{shown}, {bytes_text(copied)} of {bytes_text(total)}"

    async def _elect(self, partitions: Collection[TopicPartition]) -> None:
        """Makes the first replica of each partition its leader. If an election fails, only logs a warning."""
        if not partitions:
            return
        for partition, error in (await self._client.elect_leaders(partitions)).items():
            if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                reason = self._reporter.error_text(error)
                self._reporter.warn(
                    f"The preferred replica of {_names([partition])} is not its leader: {reason}"
                )

    async def _report_running(self, changes: Collection[TopicPartition]) -> None:
        try:
            running = await self._client.list_reassignments({*changes, *self._state.running})
        except KafkaError as error:
            self._reporter.warn(
                f"Cannot tell which partitions still move: {self._reporter.error_text(error)}"
            )
            return
        if running:
            self._reporter.warn(
                f"Still moving: {_names(running)}. These moves continue without a throttle. Run the command again to "
                "continue, or `kcli reassign-partitions --cancel` to stop them."
            )

    async def _clear_throttle(self) -> None:
        """Removes the throttle from all running brokers, and from all topics with throttled replicas."""
        if not self._is_throttled:
            return
        left = []
        for broker in sorted(self._alive):
            try:
                await throttles.clear_broker_moves(self._client, broker)
            except KafkaError as error:
                left.append(f"broker {broker} ({self._reporter.error_text(error)})")
        try:
            await throttles.clear_topics(self._client, sorted(self._throttled_topics))
        except KafkaError as error:
            left.append(
                f"topics {listed(sorted(self._throttled_topics))} ({self._reporter.error_text(error)})"
            )
        if left:
            raise ThrottleLeftError(
                f"The throttle was not removed from {', '.join(left)}. Run the command again."
            )
        self._reporter.say("The throttle is removed")


def _count(partitions: Collection[TopicPartition]) -> str:
    return "1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"


def _names(partitions: Collection[TopicPartition]) -> str:
    return listed([f"{topic}-{number}" for topic, number in sorted(partitions)])
