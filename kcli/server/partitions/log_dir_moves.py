"""Moves partitions between this broker's log directories (KIP-113, KIP-858). Clients can use the partitions during the
move.

Each move is one task, which copies the log in parts, and each part is copied in a thread. All moves together copy at
most `replica.alter.log.dirs.io.max.bytes.per.second`. When the copy is complete, the new directory is reported to the
controller. Records that were appended in the meantime are copied and flushed, before the copy replaces the log. The
event loop copies the last records and replaces the log without a pause, so no append can come between these two steps.
If a stop or a crash interrupts a move, the move continues at the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NoReturn

from kcli.config.dynamic import DynamicConfig
from kcli.errors import (
    ErrorCode,
    KafkaError,
    KafkaStorageException,
    ReplicaNotAvailableException,
    ShortageError,
    StorageError,
    UnknownTopicOrPartitionException,
)
from kcli.metadata.image import MetadataImage, PartitionImage, TopicImage
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.clock import Clock
from kcli.server.partitions.directory_assignments import DirectoryAssignments
from kcli.server.partitions.replicas import Replicas
from kcli.storage.directory import LogDirectory
from kcli.storage.log.log import PartitionLog
from kcli.storage.store.store import LogStore

_log = logging.getLogger("kcli.server.ReplicaAlterLogDirsManager")

RATE_KEY = "replica.alter.log.dirs.io.max.bytes.per.second"
THREADS_KEY = "num.replica.alter.log.dirs.threads"
# The bytes of a slice. With larger slices, a flush in the same threads would wait long. With smaller slices, the
# switches between threads would take much of the time.
SLICE_BYTES = 1 << 20
# The longest pause of a throttled move, so that a changed rate soon takes effect.
THROTTLE_INTERVAL_S = 1.0
RETRY_INTERVAL_S = 1.0
# The value that means no limit: the largest long, which is the default.
UNLIMITED = (1 << 63) - 1


class MoveThrottle:
    """Limits the rate of all moves together. After each copied part, a move waits for the time that this part takes at
    the permitted rate.
    """

    def __init__(self, clock: Clock, bytes_per_second: Callable[[], int]) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._owed_bytes = 0.0
        self._since = clock.monotonic()

    def copied(self, size_bytes: int) -> None:
        self._pay_off()
        self._owed_bytes += size_bytes

    def wait_seconds(self) -> float:
        """Returns the seconds to wait before the next part is copied. Call this method again after each wait, until it
        returns 0.
        """
        self._pay_off()
        if self._owed_bytes <= 0:
            return 0.0
        return min(self._owed_bytes / max(self._bytes_per_second(), 1), THROTTLE_INTERVAL_S)

    def _pay_off(self) -> None:
        now = self._clock.monotonic()
        rate = self._bytes_per_second()
        if rate >= UNLIMITED:
            self._owed_bytes = 0.0
        self._owed_bytes = max(self._owed_bytes - (now - self._since) * rate, 0.0)
        self._since = now


class LogDirMoves:
    """The moves of this broker. Call `recover` before the replicas load, `load` after the registration of the broker,
    and `stop` before the logs close."""

    def __init__(
        self,
        replicas: Replicas,
        assignments: DirectoryAssignments,
        dynamic_config: DynamicConfig,
        clock: Clock,
        executor: Executor,
        image: Callable[[], MetadataImage],
    ) -> None:
        """Manages the moves of a broker. `executor` runs the blocking work: reads, copies and flushes."""
        self._replicas = replicas
        self._logs: LogStore = replicas.logs
        self._assignments = assignments
        self._config = dynamic_config
        self._clock = clock
        self._executor = executor
        self._image = image
        self._throttle = MoveThrottle(clock, self._bytes_per_second)
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._working: set[asyncio.Future[None]] = set()
        threads = dynamic_config.current[THREADS_KEY]
        self._slots = asyncio.Semaphore(
            threads if isinstance(threads, int) and threads > 0 else len(self._logs.directories)
        )

    def _bytes_per_second(self) -> int:
        return self._config.current.throttle(RATE_KEY)

    # Life.

    def recover(self, image: MetadataImage) -> None:
        """Repairs the copies after a start. Two renames replace a log by its copy. If a crash came between the two
        renames, completes the replacement. In all other cases, truncates the copy to the end of the original log. Drops
        copies of partitions that this broker no longer has. Raises ShortageError if a replacement cannot be completed.
        """
        for topic, number in self._logs.futures:
            partition = image.partition(topic, number)
            copy = self._logs.futures.logs[TopicPartition(topic, number)]
            node_id = self._replicas.node_id
            if partition is None or node_id not in partition.replicas:
                self._logs.futures.abandon(topic, number)
            elif (current := self._logs.get(topic, number)) is not None:
                self._truncate(copy, current)
            elif partition.directory(node_id) == copy.directory.id:
                try:
                    self._logs.futures.promote(topic, number)
                except ShortageError:
                    raise  # without its log, the partition would begin with a new, empty log
                except StorageError as error:
                    _log.error("%s cannot replace its log: %s", copy.path, error)

    def _truncate(self, copy: PartitionLog, current: PartitionLog) -> None:
        """Truncates a copy to the end of the original log. The original log may have lost records in a crash. New
        records may then get the offsets of the lost records, so the copy must not keep the lost records.
        """
        try:
            copy.truncate_to(current.log_end_offset)
        except ShortageError:  # the log directory has logged the error
            self._logs.futures.begin_again(copy)
        except StorageError as error:
            _log.error("%s: %s", copy.path, error)

    def load(self) -> None:
        """Continues the moves that the last stop or crash interrupted."""
        for topic, number in self._logs.futures:
            if self._logs.get(topic, number) is not None:
                self._start(topic, number)
            else:
                _log.warning(
                    "%s is kept: its log is in a directory that is offline",
                    self._logs.futures.logs[TopicPartition(topic, number)].path,
                )

    async def stop(self) -> None:
        """Stops the moves. Returns when no thread works on a copy any more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._working, return_exceptions=True)

    # Requests.

    async def alter(self, topic: str, number: int, path: str) -> None:
        """Moves the partition to the directory at `path`. If the partition is moving to another directory, ends that
        move. Raises KafkaError if this broker does not have the partition or the directory.
        """
        directory = self._logs.futures.check_target(topic, number, path)
        log = self._logs.get(topic, number)
        if log is None:
            self._refuse(topic, number, path)
        if log.directory.error is not None:
            raise KafkaStorageException(f"The log of {topic}-{number} is in a directory that is offline")
        copy = self._logs.futures.get(topic, number)
        if copy is not None and copy.directory is not directory:
            await self._cancel(topic, number)
        if log.directory is not directory and self._logs.futures.get(topic, number) is None:
            self._logs.futures.begin(topic, number, directory)
        if self._logs.futures.get(topic, number) is not None:
            self._start(topic, number)

    def _refuse(self, topic: str, number: int, path: str) -> NoReturn:
        """Raises the error for a partition that this broker does not have. First stores the directory, in case this
        broker creates the partition later (KIP-113)."""
        partition = self._image().partition(topic, number)
        if partition is not None and self._replicas.node_id in partition.replicas:
            raise KafkaStorageException(f"The log of {topic}-{number} is in a directory that is offline")
        self._logs.placement.prefer(topic, number, path)
        if partition is None:
            raise UnknownTopicOrPartitionException
        raise ReplicaNotAvailableException(f"There is no replica of {topic}-{number} on this broker")

    async def _cancel(self, topic: str, number: int) -> None:
        task = self._tasks.get(TopicPartition(topic, number))
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.gather(*self._working, return_exceptions=True)
        self._logs.futures.abandon(topic, number)

    def directory_failed(self, directory: LogDirectory) -> None:
        """Ends the moves from and to a failed directory. If only the copy of a partition is lost, the partition stays
        in its directory."""
        for topic, number in self._logs.futures:
            log, copy = self._logs.get(topic, number), self._logs.futures.logs[TopicPartition(topic, number)]
            if copy.directory is directory or (log is not None and log.directory is directory):
                self._logs.futures.abandon(topic, number)

    # A move.

    def _start(self, topic: str, number: int) -> None:
        key = TopicPartition(topic, number)
        if key not in self._tasks:
            task = asyncio.get_running_loop().create_task(
                self._move(topic, number), name=f"move {topic}-{number}"
            )
            self._tasks[key] = task
            task.add_done_callback(lambda _task: self._tasks.pop(key, None))

    async def _move(self, topic: str, number: int) -> None:
        try:
            async with self._slots:
                while self._is_moving(topic, number) and not await self._advance_if_possible(topic, number):
                    pass
        except (StorageError, KafkaError) as error:
            _log.error("%s-%d does not move: %s", topic, number, error)
            self._logs.futures.abandon(topic, number)
        finally:
            images = self._partition(topic, number)
            if images is not None:
                self._assignments.move_ended(topic, images[0].topic_id, number, images[1])

    async def _advance_if_possible(self, topic: str, number: int) -> bool:
        """Returns the same as `_advance`. Waits if the process has too few descriptors."""
        try:
            return await self._advance(topic, number)
        except ShortageError:  # the log directory has logged the error
            if self._logs.get(topic, number) is None:
                raise
            await asyncio.sleep(RETRY_INTERVAL_S)
            return False

    def _is_moving(self, topic: str, number: int) -> bool:
        return self._logs.get(topic, number) is not None and self._logs.futures.get(topic, number) is not None

    def _partition(self, topic: str, number: int) -> tuple[TopicImage, PartitionImage] | None:
        image = self._image().topics.topic(topic)
        partition = None if image is None else image.partitions.get(number)
        return None if image is None or partition is None else (image, partition)

    async def _advance(self, topic: str, number: int) -> bool:
        """Copies a part of the log. If all records are copied, replaces the log by the copy. Returns True if the move
        is complete.
        """
        wait = self._throttle.wait_seconds()
        if wait:
            await asyncio.sleep(wait)
            return False
        if await self._copy_slice(topic, number):
            return False
        current, copy = (
            self._logs.logs[TopicPartition(topic, number)],
            self._logs.futures.logs[TopicPartition(topic, number)],
        )
        await self._blocking(copy.durability.flush)
        if not await self._is_told(topic, number, copy):
            await asyncio.sleep(RETRY_INTERVAL_S)
            return False
        if not (self._is_moving(topic, number) and self._logs.futures.is_complete(copy, current)):
            return False  # new records must be copied first
        self._swap(topic, number)
        return True

    def _swap(self, topic: str, number: int) -> None:
        try:
            log = self._logs.futures.promote(topic, number)
        except StorageError:
            if self._logs.get(topic, number) is None:  # otherwise the log is still in service
                self._replicas.log_lost(topic, number)
            raise
        self._replicas.log_moved(topic, number, log)

    async def _copy_slice(self, topic: str, number: int) -> bool:
        """Copies one part of the log. Returns False if there was nothing to copy."""
        futures, current = self._logs.futures, self._logs.logs[TopicPartition(topic, number)]
        copy, now_ms = futures.logs[TopicPartition(topic, number)], self._clock.now_ms()
        copy.update_config(current.config)
        if futures.is_behind(copy, current):
            await self._blocking(lambda: futures.follow(copy, current, now_ms))
            return True
        if copy.log_end_offset >= current.log_end_offset:
            return False
        piece = current.read(copy.log_end_offset, SLICE_BYTES, end_offset=current.log_end_offset)
        if not piece.size_bytes:
            raise StorageError(
                f"{current.path} holds nothing from offset {copy.log_end_offset} to its end at "
                f"{current.log_end_offset}"
            )
        truncations = current.local.truncations
        try:
            await self._blocking(lambda: futures.append(copy, current, piece.read(), now_ms))
        except KafkaError:
            if current.local.truncations == truncations:
                raise
            return True  # the log was truncated during the read, so the copy begins again
        self._throttle.copied(piece.size_bytes)
        return True

    async def _is_told(self, topic: str, number: int, copy: PartitionLog) -> bool:
        images = self._partition(topic, number)
        if images is None or copy.directory.id is None:
            return False
        if images[1].directory(self._replicas.node_id) == copy.directory.id:
            return True
        try:
            await self._assignments.promise(images[0].topic_id, number, copy.directory.id)
        except KafkaError as error:
            if error.code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise
            _log.warning("The new directory of %s-%d could not be reported: %s", topic, number, error.message)
            return False
        return True

    async def _blocking(self, work: Callable[[], None]) -> None:
        """Runs `work` in a thread. If this task is cancelled, the thread still completes its work, and `stop` waits for
        the thread."""
        job = asyncio.get_running_loop().run_in_executor(self._executor, work)
        self._working.add(job)
        job.add_done_callback(self._working.discard)
        await asyncio.shield(job)
